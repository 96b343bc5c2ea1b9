"""`corpusmill forget`: documents that no later version holds, and what is left of them."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jobs.command import main
from pipelines.costs.ledger import RUN_LOCK, Ledger
from pipelines.dataset import Dataset, Version, read_table
from pipelines.ingest.stage import document_id
from pipelines.processes import process_identity
from pipelines.store import Store
from resources.settings import load_profile
from tests.jobs.corpus import BOOKS, make_profile, prose
from tests.jobs.test_chain import Mill, reason

LETTER = document_id("books", "part 1.jsonl#b3")
"""The web has a copy of this one."""

PAGES = "".join(
    json.dumps({"id": f"p{n}", "text": prose(500 + n), "link": f"https://{host}/{n}", "publisher": "The Daily"}) + "\n"
    for n, host in enumerate(["news.example.org", "example.org", "example.com"])
)


class Place:
    """A folder with the corpus: runs, and the command in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture | None = None) -> None:
        self.folder, self._capsys = folder, capsys
        fields = {"id": "id", "url": "link"}
        sources = [{"name": name, "path": name, "fields": fields} for name in ("books", "web")]
        self.profile = make_profile(folder, sources=sources, previews="store")
        self.store = Store(self.profile.store_url)

    def run(self, selection: str = "*filtered_documents") -> None:
        with dg.DagsterInstance.ephemeral() as instance:
            result = Mill(self.profile, instance).run(selection)
            assert result.success, reason(result)

    def forget(self, *options: str, fails: bool = False) -> Any:
        assert self._capsys
        self._capsys.readouterr()
        command = ["forget", "--profile", str(self.folder / "profile.yaml"), *options]
        assert main([*command, *([] if fails else ["--json"])]) == int(fails)
        told = self._capsys.readouterr()
        return told.err if fails else json.loads(told.out)

    @property
    def current(self) -> list[Version]:
        ledger = Ledger(load_profile(self.folder / "profile.yaml").ledger_url)
        return [Version.load(self.store, pointer.version) for pointer in ledger.all_current()]

    def ids(self, asset: str) -> set[str]:
        versions = tuple(version for version in self.current if version.asset == asset)
        return set(Dataset(asset, versions, self.store).table("documents")["doc_id"].to_pylist())

    def rejects(self) -> dict[str, str]:
        versions = tuple(version for version in self.current if version.asset == "raw_documents")
        rows = Dataset("raw_documents", versions, self.store).table("rejects").to_pylist()
        return {row["uri"]: row["detail"] for row in rows if row["reason"] == "forgotten"}

    def stored_bytes_with(self, word: str) -> list[str]:
        """Objects in which a word stands: in a table's columns, or in the bytes."""
        found = []
        for path in (self.folder / "store" / "objects").rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                text = str(read_table(self.store, path.name).to_pylist()) if data.startswith(b"PAR1") else ""
                if word in text or word.encode() in data:
                    found.append(path.name)
        return found


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture) -> Place:
    return Place(tmp_path, capsys)


@pytest.fixture(scope="module")
def milled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything up to the filtered documents has been made."""
    folder = tmp_path_factory.mktemp("milled")
    Place(folder).run()
    return folder


@pytest.fixture
def milled(milled_once: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> Place:
    """A copy of it."""
    shutil.copytree(milled_once, tmp_path, dirs_exist_ok=True)
    return Place(tmp_path, capsys)


def test_a_dry_run_tells_what_is_meant_offers_copies_and_changes_nothing(milled: Place) -> None:
    before = [version.id for version in milled.current]
    told = milled.forget("--document", LETTER)

    assert [document["uri"] for document in told["documents"]] == ["part 1.jsonl#b3"]
    assert [(one["source"], one["uri"], one["level"]) for one in told["offered"]] == [
        ("web", "part 2.jsonl#copy", "exact")
    ]
    held = {(one["dataset"], part) for one in told["held_by"] for part in one["parts"]}
    assert {
        ("raw_documents[books]", "documents"),
        ("clean_documents[books]", "decisions"),
        ("duplicate_clusters", "index"),
        ("duplicate_clusters", "clusters"),
        ("toxicity_scores[books]", "toxicity"),
        ("filtered_documents[books]", "documents"),
    } <= held
    assert "raw_documents[web]" not in {dataset for dataset, _ in held}
    assert [one["dataset"] for one in told["models"]] == ["perplexity_model"]
    assert not told["done"]
    assert milled.forget() == []
    milled.run()
    assert [version.id for version in milled.current] == before


def test_from_the_next_run_on_no_version_holds_it_and_its_copy_takes_its_place(milled: Place) -> None:
    noted = milled.forget("--document", LETTER, "--yes", "--reason", "a letter of Nov. 3")
    assert noted["done"]
    milled.run()

    assert LETTER not in milled.ids("raw_documents")
    assert milled.rejects() == {"part 1.jsonl#b3": f"removal {noted['removal']}"}
    assert document_id("web", "part 2.jsonl#copy") in milled.ids("filtered_documents")
    [asked] = milled.forget()
    assert (asked["id"], asked["reason"]) == (noted["removal"], "a letter of Nov. 3")
    [certificate] = asked["certificates"]
    assert [document["doc_id"] for document in certificate["documents"]] == [LETTER]
    assert certificate["erased"] is None
    assert BOOKS[3]["text"] not in json.dumps(certificate)


def test_only_what_held_it_is_made_again(milled: Place) -> None:
    before = {version.name: version for version in milled.current}
    milled.forget("--document", LETTER, "--yes")
    milled.run()
    after = {version.name: version for version in milled.current}
    assert after["raw_documents[web]"].id == before["raw_documents[web]"].id
    shared = set(after["raw_documents[books]"].actions) & set(before["raw_documents[books]"].actions)
    assert len(shared) == len(before["raw_documents[books]"].actions) - 1


def test_near_takes_the_copies_too_and_the_same_text_at_a_new_address(milled: Place) -> None:
    noted = milled.forget("--document", LETTER, "--near", "--yes")
    assert {document["source"] for document in noted["documents"]} == {"books", "web"}
    (milled.folder / "web" / "part 9.jsonl").write_text(json.dumps({"id": "again", "text": BOOKS[3]["text"]}) + "\n")
    milled.run()
    assert milled.rejects().keys() == {"part 1.jsonl#b3", "part 2.jsonl#copy", "part 9.jsonl#again"}


@pytest.mark.parametrize(
    ("criterion", "gone"),
    [
        (("--domain", "example.org"), {"p0", "p1"}),
        (("--uri", "https://example.com/2"), {"p2"}),
        (("--glob", "https://*.example.org/*"), {"p0"}),
        (("--publisher", "the daily"), {"p0", "p1", "p2"}),
        (("--uri", "https://example.com/2", "--domain", "news.example.org"), {"p0", "p2"}),
    ],
)
def test_by_address_and_publisher_also_what_comes_later(place: Place, criterion: tuple, gone: set[str]) -> None:
    place.run("raw_documents")
    assert place.forget(*criterion, "--yes")["documents"] == []
    (place.folder / "web" / "pages.jsonl").write_text(PAGES)
    place.run("raw_documents")
    assert {uri.partition("#")[2] for uri in place.rejects()} == gone


def test_purged_no_stored_byte_speaks_of_it_and_the_next_run_is_whole(milled: Place) -> None:
    assert milled.stored_bytes_with(LETTER)
    noted = milled.forget("--document", LETTER, "--near", "--yes", "--purge")

    assert noted["erased"]["objects"] >= 10
    copy = document_id("web", "part 2.jsonl#copy")
    assert milled.stored_bytes_with(LETTER) == milled.stored_bytes_with(copy) == []
    assert milled.stored_bytes_with("part 1.jsonl#b3") == milled.stored_bytes_with(BOOKS[3]["text"][:60]) == []
    milled.run()
    assert milled.stored_bytes_with(LETTER) == milled.stored_bytes_with(copy) == []
    [asked] = milled.forget()
    assert asked["certificates"][-1]["erased"]["objects"] == noted["erased"]["objects"]
    remains = " ".join(asked["certificates"][-1]["remains"])
    assert "the source files (books: part 1.jsonl, web: part 2.jsonl)" in remains
    assert "perplexity_model (the current version, 1 in all)" in remains


def test_purged_also_is_what_cleaning_measured_before_it_dropped_others(milled: Place) -> None:
    page = document_id("web", "part 1.jsonl#w1")
    milled.forget("--document", page, "--yes", "--purge")
    assert milled.stored_bytes_with(page) == []


def test_what_is_stored_of_later_stages_is_found_though_the_raw_documents_are_gone(milled: Place) -> None:
    raw = [version for version in milled.current if version.asset == "raw_documents"]
    milled.store.erase({shard.object for version in raw for shard in version.parts["documents"].shards})
    assert milled.stored_bytes_with(LETTER)
    milled.forget("--uri", "part 1.jsonl#b3", "--yes", "--purge")
    assert milled.stored_bytes_with(LETTER) == []


def test_an_id_is_looked_for_though_no_document_with_it_is_stored(milled: Place) -> None:
    texts = {s.object for v in milled.current if "documents" in v.parts for s in v.parts["documents"].shards}
    milled.store.erase(texts)
    assert milled.stored_bytes_with(LETTER)
    assert milled.forget("--document", LETTER, "--yes", "--purge")["erased"]["objects"]
    assert milled.stored_bytes_with(LETTER) == []


def test_a_purge_needs_no_record_of_the_versions(milled: Place) -> None:
    for record in (milled.folder / "store" / "versions").iterdir():
        record.unlink()
    milled.forget("--document", LETTER, "--yes", "--purge")
    assert milled.stored_bytes_with(LETTER) == []


def test_near_finds_the_same_text_where_nothing_was_compared_yet(place: Place) -> None:
    place.run("raw_documents")
    noted = place.forget("--document", LETTER, "--near", "--yes")
    assert {document["source"] for document in noted["documents"]} == {"books", "web"}
    place.run("raw_documents")
    assert place.rejects().keys() == {"part 1.jsonl#b3", "part 2.jsonl#copy"}


def test_a_request_for_less_is_another_one_and_takes_no_more(milled: Place) -> None:
    one, other = "part 1.jsonl#b1", "part 1.jsonl#b2"
    both = milled.forget("--uri", one, "--uri", other, "--yes")
    alone = milled.forget("--uri", one, "--yes", "--reason", "only this")
    assert alone["removal"] != both["removal"]
    assert [document["uri"] for document in alone["documents"]] == [one]
    again = milled.forget("--uri", other, "--uri", one, "--yes", "--reason", "again")
    assert again["removal"] == both["removal"]
    asked = {removal["id"]: removal for removal in milled.forget()}
    assert len(asked) == 2
    assert [paper["reason"] for paper in asked[both["removal"]]["certificates"]] == ["", "again"]


def test_explain_says_that_a_document_was_forgotten(milled: Place, capsys: pytest.CaptureFixture) -> None:
    noted = milled.forget("--document", LETTER, "--yes", "--purge")
    assert main(["explain", LETTER, "--profile", str(milled.folder / "profile.yaml")]) == 1
    assert f"was forgotten (removal {noted['removal']})" in capsys.readouterr().err


def test_an_old_version_is_purged_after_the_current_one_was_made_without_it(milled: Place) -> None:
    noted = milled.forget("--document", LETTER, "--yes")
    milled.run()
    again = milled.forget("--document", LETTER, "--yes", "--purge")
    assert again["removal"] == noted["removal"]
    assert not any(one["current"] for one in again["held_by"] if "documents" in one["parts"])
    assert milled.stored_bytes_with(LETTER) == []
    before = [version.id for version in milled.current]
    milled.run()
    assert [version.id for version in milled.current] == before


@pytest.fixture
def busy(place: Place) -> Iterator[Place]:
    ledger = Ledger(place.profile.ledger_url)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        ledger.take_lock(RUN_LOCK, "a" * 32, process_identity(other.pid))
        yield place
        assert other.stdin
        other.stdin.close()


def test_while_a_run_is_at_work_nothing_is_noted(busy: Place) -> None:
    assert "is at work" in busy.forget("--domain", "example.org", "--yes", fails=True)
    assert busy.forget() == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--glob", "*"), "every document"),
        (("--yes",), "say what is to be forgotten"),
        (("--domain", "example.org", "--purge"), "--yes"),
        (("--document", "12ab"), "whole id"),
    ],
)
def test_a_mistake_is_one_sentence(place: Place, options: tuple, told: str) -> None:
    assert told in place.forget(*options, fails=True)
