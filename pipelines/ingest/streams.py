"""Byte streams: decompression that survives damage, and lines that cannot grow without bound.

Where the file that a stream reads lies is `places.py`'s business; what its bytes mean is the business of `formats/`.
"""

import bz2
import io
import lzma
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol, cast, runtime_checkable

import zstandard

from pipelines.ingest.encodings import DETECTION_BYTES, as_utf8, charset_of_lines, wide_encoding

INPUT_BLOCK = 1 << 14
"""Bytes fed to a decompressor at once: small, because one block may expand a thousandfold."""
COPY_IN_MEMORY = 1 << 24
"""A copy of a file that cannot seek is held in memory up to this many bytes, then on disk."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


@runtime_checkable
class _Copyable(Protocol):
    """A decompressor (gzip's) that can be copied before it meets damage."""

    def copy(self) -> _Decompressor: ...


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
    """One file of a source, wherever it lies: what every reader is given.

    name: the file's uri. size: stored bytes. bytes: its content, decompressed where its first bytes say that it is
    compressed. suffix: of that compression ('.gz' …), empty where there is none. Where compressed data ends or breaks
    in the middle, `bytes` ends after the last byte that could be read, and `damage` says what was found, once the end
    has been reached. As a context manager it closes the file.
    """

    def __init__(self, file: BinaryIO, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._open = [file]
        self._head = b""
        self._head_is_all = False
        self._file = file if file.seekable() else self._copy(file)
        self._start()

    def _start(self) -> None:
        self._file.seek(0)
        first = self._file.read(8)
        self._file.seek(0)
        self._expanding: _Expanding | None = None
        self.bytes: BinaryIO = self._file
        self.suffix = ""
        for magic, (suffix, decompressor) in COMPRESSIONS.items():
            if first.startswith(magic):
                self.suffix = suffix
                self._expanding = _Expanding(self._file, decompressor)
                self.bytes = io.BufferedReader(self._expanding, 1 << 17)

    def head(self, size: int) -> bytes:
        """The first bytes of the content, for who has read nothing of `bytes` yet: it stays at its beginning."""
        if len(self._head) < size and not self._head_is_all:
            self._head = self.bytes.read(size)
            self._head_is_all = len(self._head) < size
            self._start()
        return self._head[:size]

    @property
    def raw(self) -> BinaryIO:
        """The stored file at its beginning, compressed or not; it can seek. Who reads it leaves `bytes` alone."""
        self._file.seek(0)
        return self._file

    @property
    def unpacked(self) -> BinaryIO:
        """The content at its beginning, as a file that can seek: a copy, where the file is compressed."""
        if not self.suffix:
            return self.raw
        self._start()
        return self._copy(self.bytes)

    @property
    def damage(self) -> str:
        """What was wrong with the compressed data; empty: nothing so far."""
        return self._expanding.damage if self._expanding else ""

    def _copy(self, file: BinaryIO) -> BinaryIO:
        copy = cast(BinaryIO, tempfile.SpooledTemporaryFile(COPY_IN_MEMORY))  # noqa: SIM115 - closed with the stream
        self._open.append(copy)
        shutil.copyfileobj(file, copy, 1 << 20)
        copy.seek(0)
        return copy

    def as_utf8(self) -> tuple[BinaryIO, str | None]:
        """`bytes`, made UTF-8 where it is UTF-16 or UTF-32, and the encoding of lines that are no UTF-8, if clear."""
        head = self.head(DETECTION_BYTES)
        if wide := wide_encoding(head):
            return as_utf8(self.bytes, wide), None
        return self.bytes, charset_of_lines(head)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open:
            file.close()


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
        before = self._member.copy() if isinstance(self._member, _Copyable) else None
        try:
            self._ready = memoryview(self._member.decompress(block))
        except (zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError, EOFError) as error:
            self._ready = memoryview(_readable(before, block) if before else b"")
            self._break(f"the compressed data is broken ({error})")

    def _break(self, what: str) -> None:
        self._ended = True
        given = self._given + len(self._ready)
        self.damage = f"{what}, near byte {self._file.tell()} of the file, after {given} readable bytes"


def _readable(member: _Decompressor, block: bytes) -> bytes:
    """What a block gives up to its damage, byte by byte: a wrong checksum costs nothing of what stands before it."""
    found = []
    for at in range(len(block)):
        try:
            found.append(member.decompress(block[at : at + 1]))
        except (zlib.error, OSError, EOFError):
            break
    return b"".join(found)


def raise_if_of_the_system(error: Exception) -> None:
    """Raise an error again that comes from the disk or the network, and so says nothing about the file."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


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
