"""The labelled sample that the band of the toxicity cascade is chosen from: how it is read, as a shard like any other.

How a band is chosen stands in `cascade.py`; who scores the sample, in `stage.py`.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pipelines.engines.task import Inputs, Made, Task
from pipelines.filters.toxicity.params import CalibrationParams
from pipelines.schemas import DOCUMENTS

VERSION = 2
SOURCE = "toxicity.calibration"
"""What stands as the source of the sample's texts; no source of a profile has a dot in its name."""


def sample_hash(wanted: CalibrationParams) -> str:
    """SHA-256 of the sample's file, hex. Raises `ValueError`, naming the path, when it cannot be read."""
    return hashlib.sha256(_content(wanted)).hexdigest()


def _content(wanted: CalibrationParams) -> bytes:
    try:
        return Path(wanted.path or "").read_bytes()
    except OSError as error:
        raise ValueError(
            f"toxicity: the calibration sample cannot be read from {wanted.path} ({error.strerror}); correct "
            "toxicity.calibration.path"
        ) from None


SHARD_ROWS = 1000
"""Texts of one shard of the sample."""


@dataclass(frozen=True)
class Sample:
    """Texts, and whether people call them toxic."""

    texts: list[str]
    toxic: list[bool]


def read_sample(wanted: CalibrationParams, known: str | None = None) -> Sample:
    """The texts of a sample that are not blank, in the order of its file.

    known: the `sample_hash` that the bytes read must have. Raises `ValueError`, naming record and field, where they
    have another, where the file is damaged or lacks a field or a label, and where not both kinds of texts stand in it.
    """
    data = _content(wanted)
    if known not in (None, hashlib.sha256(data).hexdigest()):
        raise ValueError("toxicity: the calibration sample changed while it was read; start the run again")
    texts, labels = [], []
    for number, record in enumerate(_records(data), 1):
        missing = [field for field in (wanted.text, wanted.label) if record.get(field) is None]
        if missing:
            fields = ", ".join(map(str, record))
            raise ValueError(
                f"toxicity: record {number} of the calibration sample has no field {missing[0]!r}; it has {fields}; "
                "correct toxicity.calibration.text and toxicity.calibration.label"
            )
        text, label = str(record[wanted.text]).encode("utf-8", "replace").decode(), _label(record[wanted.label])
        if label.lower() in ("", "nan"):
            raise ValueError(
                f"toxicity: record {number} of the calibration sample has no label: {wanted.label} is {label!r}; "
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
            f"toxicity: {sum(toxic)} of {len(toxic)} texts of the calibration sample are toxic, and a band is chosen "
            f"between both kinds; correct toxicity.calibration.label and toxicity.calibration.toxic (labels: {found})"
        )
    return Sample(texts, toxic)


def _label(value: Any) -> str:
    """A label as `toxic` names it: 1 for 1.0, which other programs write where a label is missing; true for True."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def _records(data: bytes) -> list[dict[str, Any]]:
    """JSON Lines where the first sign is a brace, else CSV."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"toxicity: the calibration sample is not UTF-8 ({error}); save it as UTF-8") from None
    if not text.lstrip().startswith("{"):
        return _rows(text)
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"toxicity: line {number} of the calibration sample is no JSON ({error})") from None
            if not isinstance(records[-1], dict):
                raise ValueError(f"toxicity: line {number} of the calibration sample is no JSON object")
    return records


def _rows(text: str) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = list(reader.fieldnames or ())
        if twice := [name for name in names if name and names.count(name) > 1]:
            raise ValueError(f"toxicity: two columns of the calibration sample are called {twice[0]!r}; rename one")
        records: list[dict[str, Any]] = []
        for record in reader:
            if None in record:  # what no column is named for
                raise ValueError(
                    f"toxicity: record {len(records) + 1} of the calibration sample has more cells than there are "
                    "columns; put texts that hold commas into quotes"
                )
            records.append(record)
    except csv.Error as error:
        raise ValueError(f"toxicity: the calibration sample is no CSV ({error}); mend it, or give JSONL") from None
    return records


# -- as a shard ---------------------------------------------------------------------------------------------------


def sample_task(wanted: CalibrationParams, sha256: str) -> Task:
    """The task that stores a sample as shards of documents, so that it is scored as they are."""
    params = wanted.model_dump(mode="json", include={"text", "label", "toxic", "language"}) | {"sha256": sha256}
    return Task(make_sample, "filters.toxicity.sample", VERSION, params, payload=(wanted, sha256))


def make_sample(inputs: Inputs, payload: tuple[CalibrationParams, str]) -> Iterable[Made]:
    """The task of the sample: part "documents", in shards; what people call each text stands in its metadata."""
    wanted, sha256 = payload
    sample = read_sample(wanted, sha256)
    count = len(sample.texts)
    uris = [f"sample#{number}" for number in range(count)]
    columns = {
        "doc_id": [xxhash.xxh3_128_hexdigest(f"{SOURCE}{uri}".encode()) for uri in uris],
        "source": [SOURCE] * count,
        "uri": uris,
        "text": sample.texts,
        "language": [wanted.language] * count,
        "license": [None] * count,
        "metadata": [json.dumps({"toxic": toxic}) for toxic in sample.toxic],
    }
    table = pa.table(columns, schema=DOCUMENTS)
    for at in range(0, count, SHARD_ROWS):
        yield "documents", table.slice(at, SHARD_ROWS)


def labels_of(sample: pa.Table) -> npt.NDArray[np.bool_]:
    """bool[n]: whether people call each text of a sample's shard (column metadata) toxic."""
    return np.array([json.loads(told)["toxic"] for told in sample["metadata"].to_pylist()], np.bool_)
