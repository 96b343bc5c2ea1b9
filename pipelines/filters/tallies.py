"""Counts for people: documents by language."""

import pyarrow as pa
import pyarrow.compute as pc


def count_by_language(languages: pa.ChunkedArray | pa.Array) -> dict[str, int]:
    """Documents by language, sorted; no language counts as 'und'."""
    counted = pc.value_counts(named(languages))
    return dict(sorted((entry["values"], entry["counts"]) for entry in counted.to_pylist()))


def named(languages: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The languages as they are counted: no language is 'und'."""
    return pc.fill_null(languages.cast(pa.large_string()), "und")
