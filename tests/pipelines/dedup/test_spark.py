"""The clusters on Spark: the same key, bytes and counts as on this machine, from executors that write the shards."""

import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.dataset import Dataset, Draft, seal
from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.params import DedupParams
from pipelines.engines.local import Engine
from pipelines.engines.spark import SparkEngine
from pipelines.engines.spark_application import Application
from pipelines.store import Store
from tests.pipelines.dedup.corpus import clean_documents, doc_id, numbered, prose
from tests.pipelines.engines.standalone import REACHABLE, standalone_cluster

Sources = Mapping[str, Sequence[Mapping[str, str]]]

NEEDED = ("pyspark", "pandas")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("java") is None or not all(any((Path(p) / n).is_dir() for p in sys.path) for n in NEEDED),
        reason="needs Java and the spark group",
    ),
]

QUICK = dict.fromkeys(
    ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
)
"""Less compilation: the jobs are small."""


@pytest.fixture(scope="module")
def application() -> Iterator[Application]:
    with Application("local[2]", QUICK) as application:
        yield application


class Both:
    """The clusters made here and on Spark, each in a store of its own."""

    def __init__(self, folder: Path, application: Application) -> None:
        self.stores = [Store(str(folder / name)) for name in ("here", "spark")]
        self.application = application
        self.earlier: list[Dataset | None] = [None, None]

    def find(self, sources: Sources, **config: Any) -> Draft:
        """What both find, which must be the same; the next call has it as the earlier version."""
        params = DedupParams.model_validate(config)
        engines: list[Engine] = [
            Engine(self.stores[0], 1),
            SparkEngine(self.stores[1], 2, attempt="spark", application=self.application),
        ]
        drafts = []
        for number, (engine, store) in enumerate(zip(engines, self.stores, strict=True)):
            clean = clean_documents(store, sources)
            draft = find_duplicates(clean, params, engine, self.earlier[number])
            version = seal(store, draft, asset="duplicate_clusters", inputs=[clean])
            self.earlier[number] = Dataset("duplicate_clusters", (version,), store)
            drafts.append(draft)
        assert not engines[1].results[-1].reused
        assert engines[1].results[-1].made_by == "spark"
        assert engines[0].results[-1].key == engines[1].results[-1].key
        assert drafts[0].parts == drafts[1].parts
        assert drafts[0].stats == drafts[1].stats
        return drafts[0]


@pytest.fixture
def both(tmp_path: Path, application: Application) -> Both:
    return Both(tmp_path, application)


def rows(both: Both) -> list[dict[str, Any]]:
    assert both.earlier[1] is not None
    return both.earlier[1].table("clusters").to_pylist()


def mixed(seed: int = 5) -> dict[str, list[dict[str, str]]]:
    """Some hundred texts in three sources and eight shards: copies, near copies, near copies of those, blanks."""
    draw = random.Random(seed)
    texts = ["", " ", "***", "one"]
    for _ in range(80):
        words = [f"w{draw.randrange(5000)}" for _ in range(draw.randrange(20, 90))]
        texts.append(" ".join(words))
        for _ in range(draw.randrange(6)):
            if draw.random() < 0.7:
                words[draw.randrange(len(words))] = f"x{draw.randrange(5000)}"
            texts.append(" ".join(words))
    texts += draw.sample(texts, 60)
    draw.shuffle(texts)
    sources: dict[str, list[dict[str, str]]] = {"a": [], "none": [], "b": [], "empty": [{}, {}], "c": []}
    for number, text in enumerate(texts):
        shards = sources["abc"[number % 3]]
        if not shards or draw.random() < 0.02:
            shards.append({})
        shards[-1][str(number)] = text
    return sources


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"against": ["b"], "simhash": {"enabled": True, "distance": 5}, "bucket_limit": 1},
        {"minhash": False},
        {"exact": False, "verify": "signature", "threshold": 0.6},
        {"minhash": False, "simhash": {"enabled": True}, "exact_text": "verbatim"},
    ],
    ids=str,
)
def test_both_make_the_same_of_a_mixed_corpus(both: Both, config: dict[str, Any]) -> None:
    stats = both.find(mixed(), **config).stats

    found = {level for level, count in stats["dropped"].items() if count}
    wanted = {
        "exact": config.get("exact", True),
        "minhash": config.get("minhash", True),
        "simhash": bool(config.get("simhash")),
    }
    assert found == {level for level, on in wanted.items() if on}


def test_in_append_only_mode_both_keep_what_was_kept(both: Both) -> None:
    config = {"append_only": True, "against": ["exams"]}
    page, steady, other, exam = prose(100), prose(100, 400), prose(60, 900), prose(80, 2000)
    same_shard = {"page": page, "exam page": exam}
    both.find({"trusted": [], "web": [same_shard, {"steady": steady, "other": other}], "exams": []}, **config)

    later = {
        "trusted": [{"longer page": prose(105), "longer steady": prose(105, 400), "other again": other}],
        "web": [same_shard, {"steady": steady, "other": f"{other} changed", "page again": page}],
        "exams": [{"exam": exam}],
    }
    both.find(later, **config)

    names = {doc_id(source, name): name for source, shards in later.items() for shard in shards for name in shard}
    assert {(names[row["doc_id"]], names[row["kept_id"]], row["level"]) for row in rows(both)} == {
        ("longer page", "page", "minhash"),
        ("longer steady", "steady", "minhash"),
        ("page again", "page", "exact"),
        ("exam page", "exam", "exact"),
        ("other", "other again", "minhash"),
    }


def test_thousands_of_copies_go_with_their_original(both: Both) -> None:
    copies = [{f"{shard}.{n}": prose(100) for n in range(5000)} for shard in range(4)]

    stats = both.find({"first": [{"near": prose(105)}], "pages": copies}).stats

    assert stats["dropped"] == {"exact": 0, "simhash": 0, "minhash": 20_000}
    assert stats["largest_clusters"][0]["removed"] == 20_000


def test_the_ends_of_a_chain_do_not_resemble_each_other_and_stay(both: Both) -> None:
    chain = [prose(100, 8 * n) for n in range(60)]

    stats = both.find({"s": [*numbered(chain[:20]), {f"b{n}": text for n, text in enumerate(chain[20:])}]}).stats

    assert 10 < stats["documents_out"] < 50


def test_nothing_to_do_is_done(both: Both) -> None:
    assert both.find({}).parts["index"].shards == ()
    assert [shard.rows for shard in both.find({"a": [], "b": [{}]}).parts["clusters"].shards] == [0]


def test_a_repeated_id_is_refused_with_the_same_sentence(both: Both) -> None:
    repeated = {"s": [{"a": prose(20)}, {"b": prose(25), "a": prose(30)}, {"b": "x"}]}
    told = []
    for engine in (Engine(both.stores[0], 1), SparkEngine(both.stores[1], 2, application=both.application)):
        with pytest.raises(ValueError, match=r"occurs more than once .* \(2 ids are repeated\)") as error:
            find_duplicates(clean_documents(engine.store, repeated), DedupParams(), engine)
        told.append(str(error.value))
    assert told[0] == told[1]


def test_components_of_a_random_graph_and_of_a_long_chain_are_found(application: Application) -> None:
    from pipelines.dedup.spark_clusters import connected_components

    draw = random.Random(3)
    names = draw.sample(range(10**6), 900)
    links = [(names[n], names[n + 1]) for n in range(299)]  # a chain in no order of numbers
    links += [(names[draw.randrange(300, 900)], names[draw.randrange(300, 900)]) for _ in range(330)]
    edges = sorted({(max(pair), min(pair)) for pair in links if pair[0] != pair[1]})
    smallest = {node: node for edge in edges for node in edge}
    while True:
        before = dict(smallest)
        for node, hub in edges:
            smallest[node] = smallest[hub] = min(smallest[node], smallest[hub])
        if smallest == before:
            break

    session = application.session()
    session.conf.set("spark.sql.shuffle.partitions", 2)
    found = connected_components(session.createDataFrame(edges, "node bigint, hub bigint")).collect()

    assert len(found) == len(smallest)
    assert {row.node: row.component for row in found} == smallest


def test_executors_of_a_cluster_make_the_same(application: Application, tmp_path: Path) -> None:
    import pyspark

    application.close()  # a process has one at a time
    kept = Path(pyspark.__file__).parent / "work"  # where the workers of local-cluster have their folders
    there_before = set(kept.iterdir()) if kept.is_dir() else set()
    try:
        with Application("local-cluster[2,1,1024]", QUICK) as cluster:
            stats = Both(tmp_path, cluster).find(mixed()).stats
    finally:
        for folder in set(kept.iterdir()) - there_before if kept.is_dir() else ():
            shutil.rmtree(folder, ignore_errors=True)
    assert stats["dropped"]["exact"] > 10 < stats["dropped"]["minhash"]


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    yield from standalone_cluster(tmp_path)


def test_executors_of_a_standalone_cluster_make_the_same(
    application: Application, standalone: str, tmp_path: Path
) -> None:
    application.close()
    with Application(standalone, QUICK | REACHABLE) as cluster:
        assert Both(tmp_path, cluster).find(mixed()).stats["dropped"]["exact"] > 10
        assert cluster.outside_seconds() > 1
