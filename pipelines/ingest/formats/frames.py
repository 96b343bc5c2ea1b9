"""Where the records of a web archive begin and end, also in archives that are damaged.

Parsers of WARC trust the lengths that records state: a wrong one costs them the following records, and broken
compression the rest of the file. Here a length is believed if two line ends or the next record follow it; after damage,
reading goes on at the next record, or at the next member of the gzip file, as archives compress every record on its own
(WARC 1.1, annex D). What the records hold is read in `warc.py`.
"""

import re
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pipelines.ingest.streams import Stream

BLOCK_BYTES = 1 << 16
MAX_HEADER_BYTES = 1 << 16
_EXPANDED_BYTES = 1 << 20
_FIRST_BYTES = 1 << 12
"""What a member is tried with: bytes that only look like the beginning of one cost no more."""
_RECORD = b"WARC/"
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_HEADER_END = re.compile(rb"\n(\r?\n|WARC/)")
"""An empty line ends a header. So does the beginning of another record: that line can be none of a header, and looking
on behind it for every record without a header would take the square of their number."""
_OVERLAP = len(b"\r\nWARC/")
_MEMBER = re.compile(rb"\x1f\x8b\x08[\x00\x04\x08\x0c]")  # deflate, with or without extra field and name


@dataclass(slots=True)
class Frame:
    """One record of an archive: its header and all its bytes, or why they cannot be given (reason and detail).

    place: where it begins, in words: see `_Window.place`.
    """

    place: str
    header: bytes = b""
    data: bytes = b""
    reason: str = ""
    detail: str = ""


def frames(stream: Stream, max_bytes: int) -> Iterator[Frame]:
    """The records of an archive in their order. One whose body has more than `max_bytes` is passed over in pieces.

    Every piece of broken compression is told once: with the record that it cut off, else as 'damaged_file'.
    """
    if stream.suffix == ".gz":
        window = _Window(_members(stream.raw), "byte {inner} of the decompressed member at byte {start}")
    else:
        where = "byte {inner} of the decompressed file" if stream.suffix else "byte {inner}"
        window = _Window(_blocks(stream), where)
    while True:
        if not window.at_record():
            if not window.broke:
                return
            yield Frame(window.place(), reason="damaged_file", detail=window.broke)
            window.resume()
            continue
        frame = Frame(window.place())
        header = window.header()
        stated = _LENGTH.search(header)
        size = int(stated[1]) if stated else 0
        if size > max_bytes:
            frame.reason, frame.detail = "too_large", f"{size} bytes, {max_bytes} allowed"
            window.skip(len(header) + size)
        elif stated and window.holds_record(len(header) + size):
            frame.header, frame.data = header, window.take(len(header) + size)
        else:
            frame.reason = "damaged_record"
            if window.skip_to_record(len(header) if stated else 1):
                what = f"it has not the {size} bytes that it states" if stated else "no header with a length in it"
                frame.detail = f"{what}; reading went on at the next record"
            else:
                frame.detail = window.broke or "the file ends in the middle of it"
                window.resume()
        yield frame


class _Window:
    """The bytes at hand, up to the next damage; `broke` says what that was, empty: none has been reached.

    pieces: start, bytes and damage. The start is that of the file (0), or of the member of a gzip file.
    where: how a place is told, with `inner`, the byte behind that start after decompression, and `start`.
    """

    def __init__(self, pieces: Iterator[tuple[int, bytes, str]], where: str) -> None:
        self._pieces = pieces
        self._where = where
        self._data = bytearray()
        self._ended = False
        self._at = 0  # bytes that were passed over before those at hand
        self._starts: deque[tuple[int, int]] = deque()  # (bytes before it, start) of the members at hand
        self.broke = ""

    def place(self) -> str:
        """Where the bytes at hand begin: in the stored file, or where records share a member of it, in that."""
        before, start = self._starts[0] if self._starts else (0, 0)
        inner = self._at - before
        return self._where.format(inner=inner, start=start) if inner else f"byte {start}"

    def _fill(self, size: int) -> bool:
        """Have at least `size` bytes at hand; False where the file ends or breaks before."""
        while len(self._data) < size and not self._ended and not self.broke:
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
                break
            start, block, self.broke = piece
            if not self._starts or self._starts[-1][1] != start:
                if not self._data:
                    self._starts.clear()
                self._starts.append((self._at + len(self._data), start))
            self._data += block
        return len(self._data) >= size

    def _pass(self, size: int) -> None:
        self._at += size
        del self._data[:size]
        while len(self._starts) > 1 and self._starts[1][0] <= self._at:
            self._starts.popleft()

    def at_record(self) -> bool:
        """Go to the beginning of the next record, over empty lines; False where the file ends or breaks before."""
        while self._fill(1):
            empty = 0
            while empty < len(self._data) and self._data[empty] in b"\r\n":
                empty += 1
            self._pass(empty)
            if self._data:
                return True
        return False

    def resume(self) -> None:
        """Go on behind what broke."""
        self.broke = ""

    def header(self) -> bytes:
        """The header of the record, with the empty line after it; empty: within `MAX_HEADER_BYTES` there is none."""
        if not (self._fill(len(_RECORD)) and self._data.startswith(_RECORD)):
            return b""
        looked = 0
        while True:
            end = _HEADER_END.search(self._data, max(0, looked - _OVERLAP), MAX_HEADER_BYTES)
            if end:
                return b"" if end[1] == _RECORD else bytes(self._data[: end.end()])
            looked = len(self._data)
            if looked >= MAX_HEADER_BYTES or not self._fill(looked + 1):
                return b""

    def holds_record(self, size: int) -> bool:
        """Whether a record of so many bytes is at hand, and after it two line ends, another record, or the end."""
        if not self._fill(size):
            return False
        self._fill(size + 4 + len(_RECORD))
        follows = bytes(self._data[size : size + 4 + len(_RECORD)])
        return follows.startswith(b"\r\n\r\n") or _RECORD.startswith(follows.lstrip(b"\r\n")[: len(_RECORD)])

    def take(self, size: int) -> bytes:
        """Bytes from the beginning of what is at hand."""
        taken = bytes(self._data[:size])
        self._pass(size)
        return taken

    def skip(self, size: int) -> None:
        """Pass over bytes without holding them."""
        while size and self._fill(1):
            passed = min(size, len(self._data))
            self._pass(passed)
            size -= passed

    def skip_to_record(self, start: int) -> bool:
        """Go to the next line after `start` that begins a record; False where the file ends or breaks before."""
        while True:
            found = self._data.find(b"\n" + _RECORD, max(0, start - 1))
            if found >= 0:
                self._pass(found + 1)
                return True
            self._pass(max(0, len(self._data) - len(_RECORD)))
            start = 0
            if not self._fill(len(self._data) + 1):
                self._pass(len(self._data))
                return False


def _blocks(stream: Stream) -> Iterator[tuple[int, bytes, str]]:
    """Start (0), bytes and damage of an archive that is not compressed, or not with gzip."""
    while block := stream.bytes.read(BLOCK_BYTES):
        yield 0, block, ""
    if stream.damage:
        yield 0, b"", stream.damage


def _members(file: BinaryIO) -> Iterator[tuple[int, bytes, str]]:
    """The same of a gzip file, member by member; after a broken one reading goes on at the next that begins.

    A stretch in which nothing can be decompressed is told once.
    """
    block, position, astray = file.read(BLOCK_BYTES), 0, False  # position: of the block's first byte
    while block:
        found = _MEMBER.search(block)
        if found is None or found.start():
            more = b"" if found else file.read(BLOCK_BYTES)
            kept = len(block) - found.start() if found else min(len(block), 3 if more else 0)  # a cut beginning
            passed = block[: len(block) - kept]
            if passed.strip(b"\0") and not astray:  # tapes and block devices pad with zeros
                yield position, b"", f"there is no compressed data at byte {position}"
                astray = True
            position += len(passed)
            block = block[len(passed) :] + more
            continue
        rest = b""
        for offset, expanded, left, broke in _expanded(block, position, file):
            rest = left
            astray = astray and not expanded
            if expanded or (broke and not astray):
                yield offset, expanded, broke
            astray = astray or bool(broke)
        position = file.tell() - len(rest)
        block = rest or file.read(BLOCK_BYTES)


def _expanded(block: bytes, start: int, file: BinaryIO) -> Iterator[tuple[int, bytes, bytes, str]]:
    """Of the member that begins a block: offset, decompressed bytes, what of the block is left, and what broke it."""
    member = zlib.decompressobj(wbits=31)
    first, fresh = block, True
    while not member.eof:
        try:
            expanded = member.decompress(block[:_FIRST_BYTES] if fresh else block, _EXPANDED_BYTES)
        except zlib.error as error:
            broke = f"the compressed data is broken ({error}) in the member at byte {start}"
            yield start, b"", first[1:] if fresh else block, broke
            return
        left = member.unused_data if member.eof else member.unconsumed_tail
        block = left + block[_FIRST_BYTES:] if fresh else left
        fresh = False
        yield start, expanded, block, ""
        if not member.eof and not block and not (block := file.read(BLOCK_BYTES)):
            yield start, b"", b"", f"the file ends in the middle of the member at byte {start}"
            return
