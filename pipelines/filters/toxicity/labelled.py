"""Labelled samples: texts that people have called toxic or not, in a file of theirs. How the file is read.

What a sample is for stands in `calibration.py` and in `filters/comparison.py`.
"""

import csv
import io
import json
from dataclasses import dataclass
from typing import Any

from pipelines.filters.toxicity.params import LabelledSample


@dataclass(frozen=True)
class Sample:
    """Texts, and whether people call them toxic."""

    texts: list[str]
    toxic: list[bool]


def read_sample(wanted: LabelledSample, known: str | None = None) -> Sample:
    """The texts of a sample that are not blank, in the order of its file.

    known: the hash that the bytes read must have. Raises `ValueError`, naming record and field, where they
    have another, where the file is damaged or lacks a field or a label, and where not both kinds of texts stand in it.
    """
    data = wanted.file.content(known)
    texts, labels = [], []
    for number, record in enumerate(_records(data, wanted.KEY), 1):
        missing = [field for field in (wanted.text, wanted.label) if record.get(field) is None]
        if missing:
            fields = ", ".join(map(str, record))
            raise ValueError(
                f"{wanted.KEY}: record {number} of the labelled sample has no field {missing[0]!r}; it has {fields}; "
                f"correct {wanted.KEY}.text and {wanted.KEY}.label"
            )
        text, label = str(record[wanted.text]).encode("utf-8", "replace").decode(), _label(record[wanted.label])
        if label.lower() in ("", "nan"):
            raise ValueError(
                f"{wanted.KEY}: record {number} of the labelled sample has no label: {wanted.label} is {label!r}; "
                "remove the record"
            )
        if text.strip():
            texts.append(text)
            labels.append(label)
    meaning = {label.strip() for label in wanted.toxic}
    toxic = [label in meaning for label in labels]
    if len(set(toxic)) < 2:
        found = ", ".join(repr(label) for label in sorted(set(labels))[:5]) or "none"
        raise ValueError(
            f"{wanted.KEY}: {sum(toxic)} of {len(toxic)} texts of the labelled sample are toxic, and it "
            f"must hold both kinds; correct {wanted.KEY}.label and {wanted.KEY}.toxic (labels: {found})"
        )
    return Sample(texts, toxic)


def _label(value: Any) -> str:
    """A label as `toxic` names it: 1 for 1.0, which other programs write where a label is missing; true for True."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def _records(data: bytes, key: str) -> list[dict[str, Any]]:
    """JSON Lines where the first sign is a brace, else CSV."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{key}: the labelled sample is not UTF-8 ({error}); save it as UTF-8") from None
    if not text.lstrip().startswith("{"):
        return _rows(text, key)
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{key}: line {number} of the labelled sample is no JSON ({error})") from None
            if not isinstance(records[-1], dict):
                raise ValueError(f"{key}: line {number} of the labelled sample is no JSON object")
    return records


def _rows(text: str, key: str) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = list(reader.fieldnames or ())
        if twice := [name for name in names if name and names.count(name) > 1]:
            raise ValueError(f"{key}: two columns of the labelled sample are called {twice[0]!r}; rename one")
        records: list[dict[str, Any]] = []
        for record in reader:
            if None in record:  # what no column is named for
                raise ValueError(
                    f"{key}: record {len(records) + 1} of the labelled sample has more cells than there are "
                    "columns; put texts that hold commas into quotes"
                )
            records.append(record)
    except csv.Error as error:
        raise ValueError(f"{key}: the labelled sample is no CSV ({error}); mend it, or give JSONL") from None
    return records
