"""Pages under docs/ say what the code says: generated pages are up to date, examples and snippets run."""

import gzip
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pipelines.costs.ledger import Ledger, Pointer
from pipelines.dataset import SCHEMAS, Draft, Part, seal, write_shard
from pipelines.engines.local import Engine
from pipelines.ingest.stage import ingest
from pipelines.store import Store
from resources.settings import HOME, Profile, load_profile

DOCS = HOME / "docs"
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)?(#[^)\s]+)?\)")


def script(name: str) -> ModuleType:
    """A script of docs/, which is no package, as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["generate_profile", "generate_columns"])
def test_a_generated_page_is_what_its_script_gives(name: str) -> None:
    generator = script(name)

    written = generator.PAGE.read_text(encoding="utf-8")

    assert written == generator.render(), f"run: .venv/bin/python docs/{name}.py"


def test_every_example_stands_on_the_page_and_is_short() -> None:
    page = (DOCS / "profile.md").read_text(encoding="utf-8")
    examples = sorted((DOCS / "examples").glob("*.yaml"))

    assert len(examples) == 4
    for path in examples:
        text = path.read_text(encoding="utf-8")
        assert text in page
        assert len(text.splitlines()) <= 12


def lay_out(folder: Path) -> None:
    """The files that the example profiles name."""
    for name in ("notes/drafts", "forum", "web"):
        (folder / name).mkdir(parents=True)
    (folder / "notes" / "one.md").write_text("# One\n\nA note.")
    (folder / "notes" / "two.txt").write_text("Another note.")
    (folder / "notes" / "drafts" / "three.md").write_text("Not finished.")
    (folder / "notes" / "picture.svg").write_text("<svg/>")
    post = {"body": "A post.", "key": "p1", "rights": "CC0-1.0", "votes": 3}
    line = (json.dumps(post) + "\n").encode()
    (folder / "forum" / "2025.jsonl.gz").write_bytes(gzip.compress(line))
    (folder / "forum" / "2026.jsonl.zst").write_bytes(zstandard.compress(line))
    (folder / "wiki.jsonl").write_text('{"text": "An article."}\n')
    pq.write_table(pa.table({"url": ["u1"], "content": ["A page."], "year": [2026]}), folder / "web" / "0.parquet")
    (folder / "reviews.csv").write_text("stars;review\n5;Good.\n")


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ("folder", [("one.md#0", "CC-BY-4.0", None), ("two.txt#0", "CC-BY-4.0", None)]),
        (
            "jsonl",
            [
                ("2025.jsonl.gz#p1", "CC0-1.0", '{"votes":3}'),
                ("2026.jsonl.zst#p1", "CC0-1.0", '{"votes":3}'),
                ("wiki.jsonl#0", None, None),
            ],
        ),
        ("parquet", [("0.parquet#u1", None, '{"year":2026}')]),
        ("csv", [("reviews.csv#0", None, '{"stars":"5"}')]),
    ],
)
def test_an_example_profile_reads_what_it_describes(
    example: str, expected: list[tuple[Any, ...]], tmp_path: Path, store: Store
) -> None:
    lay_out(tmp_path)
    path = tmp_path / f"{example}.yaml"
    path.write_text((DOCS / "examples" / path.name).read_text(encoding="utf-8"))
    profile = load_profile(path)

    drafts = [ingest(source, profile.ingest, Engine(store, 1)) for source in profile.sources]

    rows = [
        row
        for draft in drafts
        for shard in draft.parts["documents"].shards
        for row in pq.read_table(store.path(shard.object)).to_pylist()
    ]
    assert sorted((row["uri"], row["license"], row["metadata"]) for row in rows) == expected
    assert [draft.parts["rejects"].rows for draft in drafts] == [0] * len(drafts)


def snippets(page: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_snippet_that_reads_a_dataset_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("profile.yaml").write_text(
        f"name: read\nstore: {tmp_path}/store\nledger: {tmp_path}/ledger.db\nsources: [{{name: notes, path: notes}}]\n"
    )
    publish_filtered_notes(load_profile(Path("profile.yaml")))

    exec(compile(snippets("datasets.md")[0], "datasets.md", "exec"), {"__name__": "__main__"})

    told = capsys.readouterr().out
    assert "1 documents in ['notes']" in told
    assert "1 ['one.md#0']\n0 []\n" in told
    assert "{'toxicity': 1} [{'doc_id': 'd2', 'rule': 'toxicity', 'value': 0.99, 'threshold': 0.95}]" in told


def publish_filtered_notes(profile: Profile) -> None:
    """One note that was kept and one that was dropped, as the current version of filtered_documents[notes]."""
    store = Store(profile.store_url)
    document = {"doc_id": "d1", "source": "notes", "uri": "one.md#0", "text": "A note."}
    documents = pa.Table.from_pylist([document], schema=SCHEMAS["documents"])
    decided = [
        {"doc_id": "d1", "keep": True, "stage": "filtering", "rule": "kept"},
        {"doc_id": "d2", "keep": False, "stage": "filtering", "rule": "toxicity", "value": 0.99, "threshold": 0.95},
    ]
    decisions = pa.Table.from_pylist(decided, schema=SCHEMAS["decisions"])
    tables = {"documents": (documents, documents.slice(1)), "decisions": (decisions, decisions.slice(2))}
    parts = {
        name: Part("table", tuple(write_shard(store, name, shard) for shard in shards))
        for name, shards in tables.items()
    }
    draft = Draft(parts, {"dropped": {"toxicity": 1}})
    version = seal(store, draft, asset="filtered_documents", partition="notes")
    Ledger(profile.ledger_url).publish([Pointer("filtered_documents", "notes", version.id, "attempt", "run")])


def test_the_snippet_that_uses_stages_without_dagster_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)

    exec(compile(snippets("datasets.md")[1], "datasets.md", "exec"), {"__name__": "__main__"})

    told = capsys.readouterr().out
    assert "'uri': 'two.txt#0'" in told
    assert told.startswith("3 {'too_short': 1}")


def pages() -> list[Path]:
    """Everything written for people."""
    return sorted([*HOME.glob("*.md"), *DOCS.rglob("*.md")])


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.relative_to(HOME).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in LINK.findall(text):
        if "://" in target:
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor and there.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{page.name} links to {target}{anchor}"


def test_decision_records_are_numbered_and_short() -> None:
    records = sorted((DOCS / "decisions").glob("*.md"))

    assert [path.name[:4] for path in records] == [f"{number:04d}" for number in range(1, len(records) + 1)]
    for path in records:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 25, path.name
        assert all(f"## {part}\n" in text for part in ("Context", "Decision", "Consequence")), path.name
