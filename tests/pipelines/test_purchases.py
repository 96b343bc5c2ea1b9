"""The journal of what an attempt buys, and quotes of what work is going to buy."""

from decimal import Decimal
from pathlib import Path

import pytest

from pipelines.purchases import Journal, Quote
from pipelines.store import StoreError
from pipelines.usage import Usage


def calls(number: float, usd: str) -> Usage:
    return Usage(bought={"calls": number}, bought_usd={"calls": Decimal(usd)})


def test_what_was_noted_adds_up_exactly_for_whoever_reads_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "folder" / "journal")
    hours = Usage(bought={"person-hours": 0.5}, bought_usd={"person-hours": Decimal(20)})

    for what in (calls(1, "0.1"), hours, calls(2, "0.2")):
        journal.note(what)

    assert Journal(journal.path).total() == calls(3, "0.3") + hours


def test_a_journal_without_purchases_has_no_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.total() is None
    journal.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_not_written_whole_spoils_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.note(calls(1, "0.1"))
    with journal.path.open("ab") as file:
        file.write(b'\n["calls", 1, "0.')

    Journal(journal.path).note(calls(1, "0.1"))

    assert journal.total() == calls(2, "0.2")


def test_what_cannot_be_noted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/journal cannot be written .*nothing is bought"):
        Journal(tmp_path / "file" / "journal").note(calls(1, "0.1"))


def test_a_disk_that_fills_up_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.purchases.os.write", lambda file, line: len(line) - 1)
    with pytest.raises(StoreError, match="there is no space left"):
        Journal(tmp_path / "journal").note(calls(1, "0.1"))


def test_quotes_add_up() -> None:
    total = Quote(calls(2, "0.2"), calls(6, "0.6")) + Quote() + Quote(calls(1, "0.1"), calls(3, "0.3"))
    assert (total.expected, total.most) == (calls(3, "0.3"), calls(9, "0.9"))
    assert (total.expected_usd, total.most_usd) == (Decimal("0.3"), Decimal("0.9"))
