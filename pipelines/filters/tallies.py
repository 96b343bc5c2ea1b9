"""Columns as numbers, and counts for people: documents by language."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def count_by_language(languages: pa.ChunkedArray | pa.Array) -> dict[str, int]:
    """Documents by language, sorted; no language counts as 'und'."""
    counted = pc.value_counts(named(languages))
    return dict(sorted((entry["values"], entry["counts"]) for entry in counted.to_pylist()))


def named(languages: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The languages as they are counted: no language is 'und'."""
    return pc.fill_null(languages.cast(pa.large_string()), "und")


def numbers(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """float64[n], to be written to: NaN for null."""
    return pc.fill_null(column, float("nan")).to_numpy().copy() if len(column) else np.zeros(0)
