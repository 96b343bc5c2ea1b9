"""Megatron-LM's token files: `.bin` (ids, one after the other) and `.idx` (where each document starts and ends).

Layout of the index, little-endian, as Megatron-LM reads it (megatron/core/datasets/indexed_dataset.py): 9 bytes
magic, uint64 version 1, uint8 code of the id type, uint64 sequences, uint64 document boundaries; then int32 lengths in
tokens, int64 byte offsets into the `.bin`, int64 boundaries (documents + 1). One document is one sequence here.
"""

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

MAGIC = b"MMIDIDX\x00\x00"
FORMAT_VERSION = 1
HEADER = struct.Struct("<9sQBQQ")
TYPE_CODES: dict[np.dtype, int] = {np.dtype("<u2"): 8, np.dtype("<i4"): 4}
"""Megatron-LM's codes of the two id types that it chooses itself; it knows no uint32."""

SMALL_VOCABULARY = 65_500
"""Below this vocabulary Megatron-LM stores ids as uint16 (`DType.optimal_dtype`)."""

LONGEST_DOCUMENT = 2**31 - 1
"""Most tokens of one document: the index keeps lengths as int32."""


class TokenFileError(ValueError):
    """A token file is not what it should be; the message names the file and the way out."""


def token_type(vocabulary_size: int) -> np.dtype:
    """Type of stored ids: uint16 below 65,500 tokens, else int32 (Megatron-LM's rule)."""
    return np.dtype("<u2") if vocabulary_size < SMALL_VOCABULARY else np.dtype("<i4")


def index_bytes(lengths: npt.NDArray[np.int64], kind: np.dtype) -> bytes:
    """The `.idx` file of documents of these lengths (tokens), stored one after the other as `kind` in the `.bin`.

    Offsets are 64-bit throughout. Raises `TokenFileError` for a document longer than an int32 can say.
    """
    if len(lengths) and int(lengths.max()) > LONGEST_DOCUMENT:
        raise TokenFileError(
            f"document {int(lengths.argmax())} of the shard has {int(lengths.max()):,} tokens; the index holds up to "
            f"{LONGEST_DOCUMENT:,} per document: split the document"
        )
    offsets = np.zeros(len(lengths), np.int64)
    np.cumsum(lengths[:-1], out=offsets[1:])
    return b"".join(
        (
            HEADER.pack(MAGIC, FORMAT_VERSION, TYPE_CODES[kind], len(lengths), len(lengths) + 1),
            lengths.astype("<i4").tobytes(),
            (offsets * kind.itemsize).astype("<i8").tobytes(),
            np.arange(len(lengths) + 1, dtype="<i8").tobytes(),
        )
    )


class IndexedTokens:
    """One token shard, memory-mapped: nothing but the index is read until a document is asked for.

    lengths: tokens of each sequence, int32. offsets: bytes into the `.bin`, int64. boundaries: first sequence of each
    document, and the number of sequences, int64. tokens: all ids.
    """

    def __init__(self, bin_path: Path, idx_path: Path) -> None:
        """Open a shard. Raises `TokenFileError` for files that are damaged or do not belong together."""
        data = idx_path.read_bytes()
        if len(data) < HEADER.size:
            raise TokenFileError(f"{idx_path} has {len(data)} bytes, fewer than the header of a token index")
        magic, version, code, sequences, boundaries = HEADER.unpack_from(data)
        kinds = {code: kind for kind, code in TYPE_CODES.items()}
        if magic != MAGIC or version != FORMAT_VERSION:
            raise TokenFileError(f"{idx_path} is not a Megatron-LM token index of version {FORMAT_VERSION}")
        if code not in kinds:
            raise TokenFileError(f"{idx_path} says id type {code}; uint16 ({8}) and int32 ({4}) can be read")
        whole = HEADER.size + 12 * sequences + 8 * boundaries
        if len(data) != whole:
            raise TokenFileError(f"{idx_path} has {len(data)} bytes where its header promises {whole}: it is damaged")
        self.kind: np.dtype = kinds[code]
        self.lengths = np.frombuffer(data, "<i4", sequences, HEADER.size)
        self.offsets = np.frombuffer(data, "<i8", sequences, HEADER.size + 4 * sequences)
        self.boundaries = np.frombuffer(data, "<i8", boundaries, HEADER.size + 12 * sequences)
        size, told = bin_path.stat().st_size, int(self.lengths.sum(dtype=np.int64)) * self.kind.itemsize
        if size != told:
            raise TokenFileError(f"{bin_path} has {size} bytes where {idx_path.name} tells of {told}: it is damaged")
        self.tokens = map_tokens(bin_path, self.kind)

    def __len__(self) -> int:
        """Documents in the shard."""
        return max(0, len(self.boundaries) - 1)

    def document(self, index: int) -> npt.NDArray[np.integer]:
        """Token ids of one document, a view of the mapped file. Raises `IndexError` outside the shard."""
        if not 0 <= index < len(self):
            raise IndexError(f"document {index} of a token shard that has {len(self)}")
        first, last = int(self.boundaries[index]), int(self.boundaries[index + 1])
        start = int(self.offsets[first]) // self.kind.itemsize if first < last else 0
        return self.tokens[start : start + int(self.lengths[first:last].sum(dtype=np.int64))]


def map_tokens(bin_path: Path, kind: np.dtype) -> npt.NDArray[np.integer]:
    """The ids of a `.bin` file, memory-mapped; an empty array for an empty file, which cannot be mapped."""
    if bin_path.stat().st_size == 0:
        return np.empty(0, kind)
    return np.memmap(bin_path, dtype=kind, mode="r")
