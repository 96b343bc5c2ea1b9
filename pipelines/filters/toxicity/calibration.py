"""The labelled sample that the band of the toxicity cascade is chosen from, as shards like any others.

How its file is read stands in `labelled.py`, how a band is chosen in `cascade.py`, who scores the sample in `stage.py`.
"""

import json
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pipelines.engines.task import Inputs, Made, Task
from pipelines.filters.toxicity.labelled import read_sample
from pipelines.filters.toxicity.params import CalibrationParams
from pipelines.schemas import DOCUMENTS

VERSION = 2
SOURCE = "toxicity.calibration"
"""What stands as the source of the sample's texts; no source of a profile has a dot in its name."""


SHARD_ROWS = 1000
"""Texts of one shard of the sample."""


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
