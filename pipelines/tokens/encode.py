"""Text to token ids with the `tokenizers` library: batches of bounded size, documents of any length.

Nothing here knows about shards or files' layout: `shards.py` writes what comes out, `tokenizer.py` trains what goes in.
"""

import contextlib
import multiprocessing
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

BATCH_BYTES = 4 << 20
"""Text given to the library at once: enough to keep its threads busy, little enough to hold a hundredfold."""

PIECE_CHARACTERS = 1 << 20
"""Longer documents are encoded in pieces of about this length, so that one huge row needs no huge memory."""

SEAM = re.compile(r"(?<=\S\n)(?=\S)")
"""Where a byte-level tokenizer splits text anyway: after a single line break, so that pieces give the same ids."""


@contextlib.contextmanager
def library_threads() -> Iterator[None]:
    """Let `tokenizers` use its own threads only where no other workers do the same; leaves the environment as it was.

    In a worker process of an engine the cores belong to the other workers. Results do not depend on it.
    """
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true" if multiprocessing.parent_process() is None else "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def load_tokenizer(path: Path) -> Tokenizer:
    """A `tokenizer.json` made ready for documents: no padding, no truncation, and text is only ever text.

    A document that spells out a special token (`<|endoftext|>`) gets the ids of its letters, never the special id: a
    document cannot end itself. Raises `ValueError` naming the file when it is not a tokenizer.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"{path} is not a tokenizer that the tokenizers library can read: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


def id_space(tokenizer: Tokenizer) -> int:
    """One more than the largest id: the size of an embedding that fits, also where ids have gaps."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def texts(column: pa.ChunkedArray) -> Iterator[str | None]:
    """The texts of a column as Python strings, a bounded batch at a time; None where bytes are not valid UTF-8."""
    for chunk in column.chunks:
        for start, stop in byte_ranges(np.asarray(pc.fill_null(pc.binary_length(chunk), 0)), BATCH_BYTES):
            batch = chunk.slice(start, stop - start)
            try:
                yield from batch.to_pylist()
            except UnicodeDecodeError:
                yield from (_decoded(scalar) for scalar in batch)


def byte_ranges(lengths: npt.NDArray[np.int64], limit: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows that hold at most `limit` bytes each; a longer row stands alone."""
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
        yield start, stop
        start = stop


def pieces(text: str) -> Iterator[str]:
    """A document in pieces that join to it again; a document of up to `PIECE_CHARACTERS` is one piece.

    Cuts are made after a single line break between words, where a byte-level tokenizer gives the same ids as for the
    whole. A stretch that has no such place for another `PIECE_CHARACTERS` is cut anyway: its ids decode to the same
    text, though a word at the seam may be split differently.
    """
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        least = start + PIECE_CHARACTERS
        seam = SEAM.search(text, least, least + PIECE_CHARACTERS)
        stop = seam.start() if seam else least
        yield text[start:stop]
        start = stop
    yield text[start:]


def encode(tokenizer: Tokenizer, documents: Sequence[str], kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """(ids of all documents one after the other, of type `kind`; tokens of each document, int64).

    Memory grows with the ids, and with one batch of text times what the library needs for it.
    Raises `ValueError` when an id does not fit the type.
    """
    counts = np.zeros(len(documents), np.int64)
    encoded: list[np.ndarray] = []
    owners: list[int] = []
    waiting: list[str] = []
    size = 0

    def flush() -> None:
        batch = tokenizer.encode_batch_fast(waiting, add_special_tokens=False)
        for owner, encoding in zip(owners, batch, strict=True):
            ids = np.array(encoding.ids, np.int64)
            if len(ids) and int(ids.max()) > np.iinfo(kind).max:
                raise ValueError(f"token id {int(ids.max())} does not fit the type {kind.name} of this vocabulary")
            counts[owner] += len(ids)
            encoded.append(ids.astype(kind))
        owners.clear()
        waiting.clear()

    for owner, document in enumerate(documents):
        for piece in pieces(document):
            if waiting and size + len(piece) > BATCH_BYTES:
                flush()
                size = 0
            owners.append(owner)
            waiting.append(piece)
            size += len(piece)
    if waiting:
        flush()
    return (np.concatenate(encoded) if encoded else np.empty(0, kind)), counts


def _decoded(scalar: pa.Scalar) -> str | None:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return None
