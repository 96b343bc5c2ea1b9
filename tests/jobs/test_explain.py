"""`corpusmill explain`: what became of one document, and which ones it resembles."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import jobs.fate
from jobs.command import main
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import Draft, Part, Version, seal, write_shard
from pipelines.dedup.index import lean_minhashes, open_index
from pipelines.dedup.params import DedupParams
from pipelines.store import Store
from resources.settings import load_profile
from tests.jobs.corpus import BOOKS, INSULT, ORIGINAL, make_profile, prose, write_profile
from tests.jobs.test_chain import Mill, reason

VARIANT = ORIGINAL + " Nobody in the whole valley had ever heard of it, and so they asked the miller again."
"""Similar to ORIGINAL, not the same."""


def mill(folder: Path, selection: str, more_web: str = "", **sections: Any) -> Path:
    """The corpus, milled in a folder so far. more_web: lines of one more file of the source web."""
    profile = make_profile(folder, **sections)
    if more_web:
        (folder / "web" / "part 3.jsonl").write_text(more_web)
    with dg.DagsterInstance.ephemeral() as instance:
        result = Mill(profile, instance).run(selection)
        assert result.success, reason(result)
    return folder


def line(name: str, text: str) -> str:
    return json.dumps({"id": name, "text": text}) + "\n"


@pytest.fixture(scope="module")
def milled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything up to the filtered documents has been made."""
    return mill(tmp_path_factory.mktemp("milled"), "*filtered_documents")


Explain = Callable[..., str]


@pytest.fixture
def explain(capsys: pytest.CaptureFixture) -> Explain:
    """The command in a folder: what it printed, or with `fails` what it complained of."""

    def explained(folder: Path, document: str, *options: str, fails: bool = False) -> str:
        capsys.readouterr()  # what was printed before
        assert main(["explain", document, "--profile", str(folder / "profile.yaml"), *options]) == int(fails)
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return told.err if fails else told.out

    return explained


@pytest.fixture
def facts(explain: Explain) -> Callable[[Path, str], dict[str, Any]]:
    """The same as JSON values."""
    return lambda folder, document: json.loads(explain(folder, document, "--json"))


def stages(told: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["stage"], step["outcome"]) for step in told["steps"]]


def true_jaccard(left: str, right: str) -> float:
    """Of the sets of runs of five words, in plain Python."""

    def runs(text: str) -> set[tuple[str, ...]]:
        words = "".join(c if c.isalnum() else " " for c in text.casefold()).split()
        return set(zip(*(words[start:] for start in range(5)), strict=False))

    return len(runs(left) & runs(right)) / len(runs(left) | runs(right))


# -- the chain ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "last", "rule"),
    [
        ("#short", "cleaning", "too_short"),
        ("#copy", "deduplication", "exact"),
        ("#near-copy", "deduplication", "minhash"),
        ("#insult", "filtering", "toxicity"),
        ("#off topic", "filtering", "perplexity_high"),
        ("#b3", "filtering", "kept"),
    ],
)
def test_the_stages_are_told_up_to_the_one_that_dropped_it(milled, facts, document: str, last: str, rule: str) -> None:
    told = facts(milled, document)

    chain = ["ingestion", "cleaning", "deduplication", "filtering"]
    assert [stage for stage, _ in stages(told)] == chain[: chain.index(last) + 1]
    assert [outcome for _, outcome in stages(told)][:-1] == ["passed"] * chain.index(last)
    assert told["steps"][-1]["outcome"] == ("passed" if rule == "kept" else "dropped")
    assert told["steps"][-1]["rule"] == rule
    assert all(step["version"] and not step["stale"] for step in told["steps"])


def test_value_and_threshold_are_told(milled, explain, facts) -> None:
    step = facts(milled, "#short")["steps"][-1]

    assert (step["value"], step["threshold"]) == (len("Too short."), 50)
    assert "too_short" in explain(milled, "#short")


def test_source_uri_language_and_length_are_told(milled, explain, facts) -> None:
    told = facts(milled, "#b3")

    assert (told["source"], told["uri"], told["language"]) == ("books", "part 1.jsonl#b3", "en")
    size = len(BOOKS[3]["text"])
    assert (told["characters"], told["bytes_read"], told["bytes_cleaned"]) == (size, size, size)
    assert f"{size:,} characters" in explain(milled, "#b3")


def test_a_length_is_told_before_and_after_cleaning(milled, facts) -> None:
    told = facts(milled, "#insult")

    assert (told["bytes_read"], told["bytes_cleaned"]) == (len(INSULT), len(INSULT.strip()))


def test_scores_are_told_with_their_limits(milled, explain, facts) -> None:
    scores = facts(milled, "#insult")["scores"]

    assert scores["toxicity"]["toxicity"] > scores["toxicity"]["max"] == 0.95
    assert scores["perplexity"]["tokens"] > 0
    assert "Toxicity: 1 (passes at most 0.95), by the scorer 'screen'." in explain(milled, "#insult")
    assert facts(milled, "#near-copy")["scores"] == {}


def test_bits_per_byte_and_the_bucket_are_told(tmp_path, explain, facts) -> None:
    german = "Der Müller trug am Morgen das Korn zum Fluss, und niemand wusste, warum er dort so lange blieb. " * 2
    filters = {"bucket_min_documents": 5, "head_percentile": 0, "middle_percentile": 0}
    folder = mill(tmp_path, "*filtered_documents", line("german", german), filters=filters)

    told = facts(folder, "#b3")["scores"]["perplexity"]
    assert told["bucket"] == "tail"
    bits = math.log2(told["perplexity"]) * told["tokens"] / len(BOOKS[3]["text"])
    assert told["bits_per_byte"] == pytest.approx(bits)
    assert f"{bits:.4g} bits per byte, over {told['tokens']} tokens, bucket 'tail'." in explain(folder, "#b3")
    assert facts(folder, "#german")["scores"]["perplexity"]["bucket"] is None
    assert "bits per byte, not judged: the model has not learned this language" in explain(folder, "#german")


def test_a_rejected_record_is_found_by_its_uri(milled, explain, facts) -> None:
    told = facts(milled, "part 2.jsonl#empty")

    assert (told["doc_id"], stages(told)) == (None, [("ingestion", "dropped")])
    assert told["rejects"][0]["reason"] == "empty_text"
    assert "empty_text" in explain(milled, "#empty")


def test_another_record_that_was_rejected_at_the_same_uri_is_told(milled, explain) -> None:
    assert "Another record at this uri was rejected: duplicate_id" in explain(milled, "#w0")


# -- duplicates -----------------------------------------------------------------------------------------------------


def test_a_removed_document_names_the_one_that_stays_and_how_they_differ(milled, explain, facts) -> None:
    kept = facts(milled, "#near-copy")["deduplication"]["kept_instead"]

    assert (kept["source"], kept["uri"], kept["level"]) == ("web", "part 2.jsonl#original", "minhash")
    assert kept["doc_id"] == facts(milled, "#original")["doc_id"]
    assert kept["jaccard"] == pytest.approx(true_jaccard(ORIGINAL, ORIGINAL.rsplit(" ", 3)[0]))
    (passage,) = kept["passages"]["shown"]
    assert (passage["left"], passage["right"]) == ("", " ".join(ORIGINAL.split()[-3:]))
    printed = explain(milled, "#near-copy")
    assert "1 passage differs" in printed
    assert "{+" + passage["right"] + "+}" in printed


def test_a_copy_names_the_document_of_the_other_source(milled, explain, facts) -> None:
    kept = facts(milled, "#copy")["deduplication"]["kept_instead"]

    assert (kept["source"], kept["level"], kept["similarity"], kept["jaccard"]) == ("books", "exact", 1, 1)
    assert "No passage differs" in explain(milled, "#copy")


def test_a_document_that_stays_names_those_removed_in_its_favour(tmp_path, facts) -> None:
    copies = line("variant", VARIANT) + line("same", VARIANT.upper()) + line("shorter", ORIGINAL)
    told = facts(mill(tmp_path, "*unique_documents", copies), "#variant")

    removed = told["deduplication"]["removed_in_its_favour"]
    assert removed["count"] == 4
    assert removed["by_level"] == {"exact": 1, "minhash": 3}
    assert (removed["most_similar"]["uri"], removed["most_similar"]["jaccard"]) == ("part 3.jsonl#same", 1)
    least = removed["least_similar"]
    assert least["level"] == "minhash"
    assert least["similarity"] < 1
    assert least["jaccard"] == pytest.approx(true_jaccard(VARIANT, ORIGINAL), abs=0.01)
    assert stages(told)[-1] == ("filtering", "not made")


def test_the_nearest_document_that_stays_is_the_one_datasketch_finds(milled, facts) -> None:
    store = Store(load_profile(milled / "profile.yaml").store_url)
    ledger = Ledger(load_profile(milled / "profile.yaml").ledger_url)
    clusters = Version.load(store, ledger.current("duplicate_clusters", "").version)
    seed = DedupParams.model_validate(clusters.stats["parameters"]).seed
    own = facts(milled, "#w3")["doc_id"]
    gone = {facts(milled, removed)["doc_id"] for removed in ("#copy", "#near-copy")}
    signatures = {
        doc_id: signature
        for file in clusters.parts["index"].shards
        for doc_id, signature in lean_minhashes(open_index(store.path(file.object)), seed)
    }
    expected = max(
        signatures[own].jaccard(signature) for doc_id, signature in signatures.items() if doc_id not in gone | {own}
    )

    nearest = facts(milled, "#w3")["deduplication"]["nearest_kept"]

    assert nearest["similarity"] == pytest.approx(expected)
    assert nearest["doc_id"] not in gone
    assert signatures[own].jaccard(signatures[nearest["doc_id"]]) == pytest.approx(expected)


def test_why_the_nearest_is_no_duplicate(milled, explain, facts) -> None:
    told = facts(milled, "#w3")["deduplication"]

    assert told["why"] == f"Similarity {told['nearest_kept']['jaccard']:.3f}, below 0.75."
    assert told["why"] in explain(milled, "#w3")


def test_a_document_that_resembles_nothing_says_so(milled, facts) -> None:
    told = facts(milled, "#off topic")["deduplication"]

    assert told["nearest_kept"] is None
    assert "none is like it" in told["why"]


def test_a_pair_that_lsh_missed_is_told_as_such(tmp_path, facts) -> None:
    strict = {"exact": True, "bands": 1, "rows": 112}  # finds equal signatures only
    folder = mill(tmp_path, "*unique_documents", line("variant", VARIANT), dedup=strict)

    told = facts(folder, "#variant")["deduplication"]

    assert told["nearest_kept"]["uri"] == "part 2.jsonl#original"
    assert told["nearest_kept"]["similarity"] >= 0.75
    assert "no band of the signatures is the same" in told["why"]


def test_sources_only_compared_with_words_missing_and_sets_that_decide_are_told(tmp_path, explain, facts) -> None:
    sections: dict[str, Any] = {
        "dedup": {"verify": "shingles", "against": ["books"]},
        "clean": {"min_alphanumeric_share": 0},
    }
    sections["reference_sources"] = ["web"]
    folder = mill(tmp_path, "*unique_documents", line("signs", "?! " * 40), **sections)

    book = facts(folder, "#b3")
    assert book["steps"][-1]["rule"] == "only_compared"
    assert book["deduplication"]["why"].startswith("Its source is one that the others are only compared with")
    assert book["deduplication"]["removed_in_its_favour"]["by_level"] == {"exact": 1}
    told = facts(folder, "#w3")["deduplication"]
    assert told["why"] == f"Similarity {told['nearest_kept']['jaccard']:.3f}, below 0.75."
    assert facts(folder, "#signs")["deduplication"]["why"] == "It has no words to be compared by."


def test_a_pair_found_by_fingerprints_is_told_with_its_true_similarity(tmp_path, explain, facts) -> None:
    simhash = {"minhash": False, "simhash": {"enabled": True, "distance": 8}}
    folder = mill(tmp_path, "*unique_documents", line("variant", VARIANT), dedup=simhash)

    kept = facts(folder, "#original")["deduplication"]["kept_instead"]

    assert (kept["uri"], kept["level"]) == ("part 3.jsonl#variant", "simhash")
    assert kept["similarity"] >= 1 - 8 / 64
    assert kept["jaccard"] == pytest.approx(true_jaccard(ORIGINAL, VARIANT))
    assert "the fingerprint's bits are equal" in explain(folder, "#original")
    assert "Without signatures" in facts(folder, "#variant")["deduplication"]["why"]


def test_texts_are_printed_as_they_are_without_what_moves_the_cursor(tmp_path, explain) -> None:
    folder = mill(tmp_path, "*unique_documents", line("sly\x1b[2J", ORIGINAL + " :cat: [bold]"))

    told = explain(folder, "#original")
    assert "{+:cat: [bold]+}" in told
    assert "#sly [2J" in told
    assert "\x1b" not in told


# -- which document, and what is not there --------------------------------------------------------------------------


def test_an_id_a_beginning_of_it_and_a_uri_name_the_same_document(milled, facts) -> None:
    by_uri = facts(milled, "part 1.jsonl#b3")

    assert facts(milled, by_uri["doc_id"]) == facts(milled, by_uri["doc_id"][:8].upper()) == by_uri


@pytest.mark.parametrize("unknown", ["no such thing", "f" * 32, "abcdef", "#b3 "])
def test_an_unknown_document_is_one_sentence(milled, explain, unknown: str) -> None:
    assert explain(milled, unknown, fails=True) == f"no document {unknown!r} in books, web\n"


def test_several_candidates_are_listed_five_at_most(milled, explain) -> None:
    told = explain(milled, "copy", fails=True).splitlines()
    assert [row.split("  ")[-1] for row in told[1:]] == ["web: part 2.jsonl#copy", "web: part 2.jsonl#near-copy"]

    many = explain(milled, "jsonl", fails=True).splitlines()
    assert len(many) == 1 + 5 + 1
    assert many[-1].strip() == "and others"


def test_a_beginning_that_several_ids_share_lists_them(tmp_path, explain) -> None:
    profile = load_profile(write_profile(tmp_path))
    store = Store(profile.store_url)
    ids = [f"abcdef{number:026}" for number in range(3)]
    documents = {"doc_id": ids, "source": ["web"] * 3, "uri": [f"f#{i}" for i in ids], "text": ["t"] * 3}
    nothing = dict.fromkeys(("language", "license", "metadata"), pa.nulls(3, pa.large_string()))
    part = Part("table", (write_shard(store, "documents", pa.table(documents | nothing)),))
    version = seal(store, Draft({"documents": part}), asset="raw_documents", partition="web")
    Ledger(profile.ledger_url).publish([Pointer("raw_documents", "web", version.id, "a", "r")])

    told = explain(tmp_path, "abcdef", fails=True)

    assert [row.split()[0] for row in told.splitlines()[1:]] == ids
    assert "abcdef" in explain(tmp_path, ids[0])  # a whole one names one document


def test_nothing_made_and_a_source_not_made_are_said(tmp_path, explain) -> None:
    make_profile(tmp_path)
    assert "start with `corpusmill run`" in explain(tmp_path, "#b3", fails=True)

    with dg.DagsterInstance.ephemeral() as instance:
        assert Mill(load_profile(tmp_path / "profile.yaml"), instance).run("raw_documents", partition_key="web").success

    assert explain(tmp_path, "#b3", fails=True) == "no document '#b3' in web; books has not been read yet\n"


def test_stages_that_are_not_made_are_said(tmp_path, explain, facts) -> None:
    folder = mill(tmp_path, "raw_documents")

    assert stages(facts(folder, "#w3")) == [
        ("ingestion", "passed"),
        ("cleaning", "not made"),
        ("deduplication", "not made"),
        ("filtering", "not made"),
    ]
    assert "not made" in explain(folder, "#w3")


def test_a_decision_about_an_older_version_is_told_as_such_even_when_its_bytes_are_gone(
    tmp_path, explain, facts
) -> None:
    folder = mill(tmp_path, "*unique_documents")
    before = facts(folder, "#near-copy")
    old = before["steps"][1]["version"]
    edited = folder / "web" / "part 2.jsonl"
    edited.write_text(line("first", prose(4141)) + edited.read_text())  # moves every document of the file
    mill(folder, "*clean_documents", line("new", prose(4242)))

    told = facts(folder, "#near-copy")
    now = told["steps"][1]["version"]
    assert told["steps"][2]["stale"][0] == f"clean_documents[web]@{old}, not the current @{now}"
    assert told["deduplication"] == before["deduplication"]
    assert f"was made from clean_documents[web]@{old}" in explain(folder, "#near-copy")
    assert stages(facts(folder, "#new"))[2] == ("deduplication", "not seen")
    assert facts(folder, "#w9")["deduplication"]["nearest_kept"]["similarity"] > 0

    profile = load_profile(folder / "profile.yaml")
    store, current = Store(profile.store_url), {p.version for p in Ledger(profile.ledger_url).all_current()}
    store.gc(current, lease_seconds=-1)
    assert store.missing_objects(old)

    gone = facts(folder, "#near-copy")
    kept = gone["deduplication"]["kept_instead"]
    assert stages(gone) == stages(told)
    assert kept["doc_id"] == told["deduplication"]["kept_instead"]["doc_id"]
    assert (kept["level"], kept["jaccard"]) == ("minhash", None)
    assert "no Jaccard similarity: a text is gone" in explain(folder, "#near-copy")


def test_clusters_of_another_release_are_said_to_be_so(milled, tmp_path, facts) -> None:
    folder = Path(shutil.copytree(milled, tmp_path / "copy"))
    profile = load_profile(write_profile(folder))
    clusters = Ledger(profile.ledger_url).current("duplicate_clusters", "")
    path = Path(profile.store_url) / "versions" / f"{clusters.version}.json"
    version = json.loads(path.read_text())
    version["stats"]["parameters"] = {"shingle_words": 5}
    path.write_text(json.dumps(version))

    told = facts(folder, "#near-copy")

    assert stages(told)[-1] == ("deduplication", "dropped")
    assert "another release made the clusters" in told["deduplication"]["why"]


def test_no_more_texts_are_read_than_are_compared(milled, facts, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    read_table = jobs.fate.read_table

    def spy(store: Store, name: str, columns: list[str]) -> pa.Table:
        read.append(columns)
        return read_table(store, name, columns)

    monkeypatch.setattr(jobs.fate, "read_table", spy)

    facts(milled, "#near-copy")

    assert sum("text" in columns for columns in read) == 3  # as read, cleaned, and of the one that stays
