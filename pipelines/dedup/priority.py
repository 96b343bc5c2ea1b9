"""The order in which documents are asked whether they stay: it does not depend on shards, workers or order of files.

First those that stay in any case (the documents that are only compared with, and in append-only mode what the last
version kept), then by source in the order of the profile; within a source longer texts first, then by doc_id.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dedup.index import Index
from pipelines.text.words import text_buffers


def order_of_priority(index: Index, ranks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Rows in order of priority, int64[documents]. ranks: of each document, smaller ones first.

    Raises `ValueError` when a doc_id occurs twice. Memory: some 40 bytes per document while it works.
    """
    if not len(index):
        return np.zeros(0, np.int64)
    doc_ids = index.column("doc_id")
    _refuse_repeated(doc_ids)
    beginnings = _of_strings(doc_ids, _beginnings)
    shorter = -index.numbers("length")
    order = np.lexsort((beginnings, shorter, ranks))
    equal = np.ones(len(order) + 1, np.bool_)  # all three keys, to those of the document before
    for key in (beginnings, shorter, ranks):
        equal[1:-1] &= key[order[1:]] == key[order[:-1]]
    equal[0] = equal[-1] = False
    for start in np.flatnonzero(equal[1:] & ~equal[:-1]).tolist():
        stop = start + 1 + int(np.argmin(equal[start + 1 :]))
        run = order[start:stop].tolist()
        order[start:stop] = sorted(run, key=lambda row: doc_ids[row].as_py())
    return order


def _refuse_repeated(doc_ids: pa.ChunkedArray) -> None:
    hashes = _of_strings(doc_ids, _hashes)
    order = np.argsort(hashes)
    again = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    suspects = np.unique(np.r_[order[again], order[again + 1]])
    if not len(suspects):
        return
    counts = pc.value_counts(doc_ids.take(pa.array(suspects)))
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise repeated_id(repeated[0].as_py(), len(repeated))


def repeated_id(doc_id: str, ids: int) -> ValueError:
    """The error where so many ids occur more than once; doc_id: the first of them."""
    return ValueError(
        f"doc_id {doc_id} occurs more than once in the clean documents ({ids} ids are repeated); ingest the sources "
        "again so that every document has an id of its own"
    )


def _of_strings(
    strings: pa.ChunkedArray, kernel: Callable[[Any, Any, npt.NDArray[np.uint64]], None]
) -> npt.NDArray[np.uint64]:
    """A number for every string, of its bytes."""
    found = np.empty(len(strings), np.uint64)
    row = 0
    for chunk in strings.chunks:
        kernel(*text_buffers(chunk), found[row : row + len(chunk)])
        row += len(chunk)
    return found


@numba.njit(nogil=True, cache=True)
def _hashes(data, starts, found) -> None:  # type: ignore[no-untyped-def]
    for i in range(len(found)):
        value = np.uint64(0xCBF29CE484222325)
        for k in range(starts[i], starts[i + 1]):
            value = (value ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
        found[i] = value ^ (value >> np.uint64(32))


@numba.njit(nogil=True, cache=True)
def _beginnings(data, starts, found) -> None:  # type: ignore[no-untyped-def]
    """Eight bytes of each, which sort as the string does, as far as they go."""
    for i in range(len(found)):
        value = np.uint64(0)
        for k in range(starts[i], starts[i] + 8):
            value = value << np.uint64(8) | np.uint64(data[k] if k < starts[i + 1] else 0)
        found[i] = value
