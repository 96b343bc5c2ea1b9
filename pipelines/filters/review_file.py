"""The file that people label: one row per document, one column per annotator, for any spreadsheet program.

UTF-8 with a byte order mark, without which Excel reads UTF-8 as something else. Scores are not in it: who sees them
labels by them. What the labels say is computed in `review.py`.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.filters.review import Sample

TOLD = ("doc_id", "source", "uri", "language", "characters", "text")
"""Columns that tell what is to be labelled. characters: length of the whole text, of which a part may be shown."""

LABEL = "label_"
"""What the name of an annotator's column begins with."""

LABELS = {
    **dict.fromkeys(("1", "1.0", "1,0", "yes", "y", "true"), True),
    **dict.fromkeys(("0", "0.0", "0,0", "no", "n", "false"), False),
}
"""1: it is to be dropped; 0: it stays. Spreadsheets write what people type in their own way."""

MOST_CHARACTERS = 32_000
"""A cell of Excel holds 32,767."""

_FORMULA = re.compile(r"^\s*[=+\-@|%]|^[\t\r\n]")
"""What a cell begins with that a spreadsheet could take for a formula (OWASP, CSV injection)."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class ReviewError(ValueError):
    """A file of labels cannot be read; the message names the file and the line."""


def write_rows(path: Path, documents: Iterable[Mapping[str, Any]], annotators: Sequence[str], characters: int) -> int:
    """Write the file; returns how many texts were cut. documents: with columns TOLD, text whole.

    Raises `FileExistsError` where there is one: it may hold labels.
    """
    cut = 0
    with path.open("x", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*TOLD, *(LABEL + name for name in annotators)])
        for document in documents:
            whole = document["text"]
            cut += len(whole) > characters
            shown = {**document, "characters": len(whole), "text": whole[:characters]}
            writer.writerow([*(_cell(shown[name]) for name in TOLD), *("" for _ in annotators)])
    return cut


def _cell(value: Any) -> str:
    """A value as text that no spreadsheet computes: one that looks like a formula begins with an apostrophe."""
    text = _CONTROL.sub("\ufffd", "" if value is None else str(value))
    return f"'{text}" if _FORMULA.match(text) else text


def read_labels(paths: Sequence[Path], sample: Sample) -> dict[str, dict[str, bool]]:
    """By annotator and document, the labels of one file or several: every annotator may have had a copy.

    Any subset of rows, in any order; empty cells are no labels; further columns mean nothing. Raises `ReviewError`,
    naming file and line, for a label that is none, a document that is not in the sample, and a second, other label.
    """
    known = {document.doc_id for document in sample.documents}
    labels: dict[str, dict[str, bool]] = {}
    for path in paths:
        for line, row in _rows(path):
            where, doc_id = f"{path}, line {line}", row["doc_id"].strip()
            given = {name: cell.strip() for name, cell in row.items() if name.startswith(LABEL) and cell.strip()}
            if given and doc_id not in known:
                raise ReviewError(
                    f"{where}: document {doc_id!r} is not in the sample that was exported; remove the row"
                )
            for name, cell in given.items():
                if cell.lower() not in LABELS:
                    raise ReviewError(
                        f"{where}: {name} is {cell[:40]!r}; write 1 (to be dropped) or 0 (stays), or leave it empty"
                    )
                label = LABELS[cell.lower()]
                if labels.setdefault(name.removeprefix(LABEL), {}).setdefault(doc_id, label) != label:
                    raise ReviewError(f"{where}: {name} gives document {doc_id} a second, other label; keep one")
    if not labels:
        raise ReviewError(f"no label stands in {', '.join(map(str, paths))}: fill in the columns {LABEL}…")
    return labels


def _rows(path: Path) -> Iterable[tuple[int, dict[str, str]]]:
    """The rows, each with the number of the line that it begins on. Semicolons and tabs separate, too: Excel writes
    what its country has."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ReviewError(f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        raise ReviewError(f"{path}, line {line}: not UTF-8; save it as 'CSV UTF-8'") from None
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        names = [name.strip() for name in next(reader, [])]
        if "doc_id" not in names or not any(name.startswith(LABEL) for name in names):
            raise ReviewError(f"{path}, line 1: there must be columns doc_id and {LABEL}…, as they were exported")
        if twice := [name for name in names if name and names.count(name) > 1]:
            raise ReviewError(f"{path}, line 1: the column {twice[0]} stands twice; rename one of them")
        begins = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield begins, dict(zip(names, [*cells, *[""] * len(names)], strict=False))
            begins = reader.line_num + 1
    except csv.Error as error:
        raise ReviewError(f"{path}, line {reader.line_num}: {error}") from None
