"""Documents of any length to token ids, in batches of bounded size, by whatever engine encodes texts.

Nothing here knows about shards or files' layout: `shards.py` writes what comes out, `engines.py` has the engines,
`tokenizer.py` makes what goes in.
"""

import contextlib
import multiprocessing
import os
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import Tokenizer

BATCH_BYTES = 4 << 20
"""Text given to an engine at once: enough to be worth the call, little enough to hold a hundredfold."""

PIECE_CHARACTERS = 1 << 20
"""Longer documents are encoded in pieces of about this length, so that one huge row needs no huge memory."""

SEAM = re.compile(r"(?<=\S\n)(?=\S)")
"""Where tokenizers split text anyway: after a single line break, so that pieces give the same ids."""


class Encoder(Protocol):
    """Text to ids. An engine that has loaded a tokenizer."""

    @property
    def continuing(self) -> "Encoder":
        """The same for text that goes on in the middle of a document: nothing is put before it, not even a space."""

    def encode(self, texts: list[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """(ids of all texts one after the other, how many each has); no special token is added, nor found in text."""


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


def ready(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer, made ready for documents: no padding, no truncation, and text is only ever text.

    A document that spells out a special token (`<|endoftext|>`) gets the ids of its letters, never the special id: a
    document cannot end itself.
    """
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


def id_space(tokenizer: Tokenizer) -> int:
    """One more than the largest id: the size of an embedding that fits, also where ids have gaps."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def texts(column: pa.Array) -> list[str | None]:
    """The texts of an array as Python strings; None where bytes are not valid UTF-8, or there is no text."""
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return [_decoded(scalar) for scalar in column]


def pieces(text: str) -> Iterator[str]:
    """A document in pieces that join to it again; a document of up to `PIECE_CHARACTERS` is one piece.

    Cuts are made after a single line break between words, where tokenizers give the same ids as for the whole. A
    stretch that has no such place for another `PIECE_CHARACTERS` is cut anyway: its ids decode to the same text, though
    a word at the seam may be split differently.
    """
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        least = start + PIECE_CHARACTERS
        seam = SEAM.search(text, least, least + PIECE_CHARACTERS)
        stop = seam.start() if seam else least
        yield text[start:stop]
        start = stop
    yield text[start:]


def encode(encoder: Encoder, documents: Sequence[str], kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """(ids of all documents one after the other, of type `kind`; tokens of each document, int64).

    Memory grows with the ids, and with one batch of text times what the engine needs for it.
    Raises `ValueError` when an id does not fit the type.
    """
    counts = np.zeros(len(documents), np.int64)
    encoded: list[np.ndarray] = []
    first, size = 0, 0

    def flush(stop: int) -> None:
        if stop > first:
            ids, counts[first:stop] = encoder.encode(list(documents[first:stop]))
            encoded.append(_stored(ids, kind))

    for number, document in enumerate(documents):
        if len(document) > PIECE_CHARACTERS:
            flush(number)
            first, size = number + 1, 0
            for position, piece in enumerate(pieces(document)):
                ids, length = (encoder.continuing if position else encoder).encode([piece])
                counts[number] += length.sum()
                encoded.append(_stored(ids, kind))
        else:
            if size and size + len(document) > BATCH_BYTES:
                flush(number)
                first, size = number, 0
            size += len(document)
    flush(len(documents))
    return (np.concatenate(encoded) if encoded else np.empty(0, kind)), counts


def _stored(ids: npt.NDArray[np.uint32], kind: np.dtype) -> np.ndarray:
    if len(ids) and int(ids.max()) > np.iinfo(kind).max:
        raise ValueError(f"token id {int(ids.max())} does not fit the type {kind.name} of this vocabulary")
    return ids.astype(kind)


def _decoded(scalar: pa.Scalar) -> str | None:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return None
