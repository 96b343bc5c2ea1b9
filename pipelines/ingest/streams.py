"""Byte streams: decompression that survives damage, and lines that cannot grow without bound."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import zstandard

INPUT_BLOCK = 1 << 14
"""Bytes fed to a decompressor at once: small, because one block may expand a thousandfold."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip() -> _Decompressor:
    return zlib.decompressobj(wbits=31)


def _zstd() -> _Decompressor:
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


COMPRESSIONS: dict[bytes, tuple[str, Callable[[], _Decompressor]]] = {
    b"\x1f\x8b": (".gz", _gzip),
    b"\x28\xb5\x2f\xfd": (".zst", _zstd),
    b"BZh": (".bz2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": (".xz", lzma.LZMADecompressor),
}
"""First bytes of a compressed file → the suffix of its name, and what undoes it."""


class Stream:
    """A file's bytes, decompressed where its first bytes say that it is compressed.

    Where compressed data ends or breaks in the middle, the stream ends after the last byte that could be read, and
    `damage` says what was found, once the end has been reached.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        head = self._file.read(8)
        self._file.seek(0)
        self._expanding: _Expanding | None = None
        self.bytes: BinaryIO = self._file
        self.suffix = ""
        for magic, (suffix, decompressor) in COMPRESSIONS.items():
            if head.startswith(magic):
                self.suffix = suffix
                self._expanding = _Expanding(self._file, decompressor)
                self.bytes = io.BufferedReader(self._expanding, 1 << 17)

    @property
    def damage(self) -> str:
        """What was wrong with the compressed data; empty: nothing so far."""
        return self._expanding.damage if self._expanding else ""

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _Expanding(io.RawIOBase):
    """Decompressed bytes of one or several members, ending quietly at the first damage."""

    def __init__(self, file: BinaryIO, decompressor: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._new = decompressor
        self._member: _Decompressor | None = None
        self._ready = memoryview(b"")
        self._given = 0
        self._ended = False
        self.damage = ""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready and not self._ended:
            self._fill()
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        self._given += count
        return count

    def _fill(self) -> None:
        left = self._member.unused_data if self._member is not None and self._member.eof else b""
        block = left or self._file.read(INPUT_BLOCK)
        if self._member is None or self._member.eof:
            block = block.lstrip(b"\0")  # tapes and block devices pad members with zeros
            if block:
                self._member = self._new()
            elif left:
                self._member = None
                return
        if not block:
            self._ended = True
            if self._member is not None and not self._member.eof:
                self._break("the compressed data ends in the middle")
            return
        assert self._member is not None
        try:
            self._ready = memoryview(self._member.decompress(block))
        except (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, EOFError) as error:
            self._break(f"the compressed data is broken ({error})")

    def _break(self, what: str) -> None:
        self._ended = True
        self.damage = f"{what}, near byte {self._file.tell()} of the file, after {self._given} readable bytes"


def bounded_lines(stream: BinaryIO, max_bytes: int) -> Iterator[bytes | int]:
    """The lines of a stream with their line ends; for a line longer than `max_bytes` its size instead.

    A longer line is passed over in pieces, so memory stays within `max_bytes`.
    """
    while line := stream.readline(max_bytes + 2):
        if len(line) <= max_bytes or line.endswith(b"\n"):
            yield line
            continue
        size = len(line)
        while not line.endswith(b"\n") and (line := stream.readline(1 << 20)):
            size += len(line)
        yield size
