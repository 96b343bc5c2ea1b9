"""Counts for people: documents by language."""

import pyarrow as pa
import pyarrow.compute as pc


def count_by_language(languages: pa.ChunkedArray | pa.Array) -> dict[str, int]:
    """Documents by language, sorted; no language counts as 'und'."""
    counted = pc.value_counts(pc.fill_null(languages.cast(pa.large_string()), "und"))
    return dict(sorted((entry["values"], entry["counts"]) for entry in counted.to_pylist()))
