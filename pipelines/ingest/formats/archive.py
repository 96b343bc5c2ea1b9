"""Archives: the files in a tar (compressed or not) or in a zip, one after another. Nothing is written under its name.

What a member holds is read as any other file; `readers.py` does that. The headers of a tar are read in `tape.py`.
"""

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any

from pipelines.ingest.formats.tape import EXTENSIONS, MAX_EXTENSION_BYTES, Ending, Tape
from pipelines.ingest.records import Reject
from pipelines.ingest.streams import Stream, raise_if_of_the_system

ZIP_MAGIC = b"PK\x03\x04"
TAR_MAGIC = b"ustar"
TAR_MAGIC_AT = 257
LONGEST_NAME = 4096
"""Characters in a member's name: no system has longer paths, and the names of all members are remembered."""
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    RuntimeError,  # an encrypted member; also NotImplementedError, an unknown compression
)


class _Cut:
    """The content of a member of a tape that is read as it comes."""

    def __init__(self, tape: IO[bytes], size: int) -> None:
        self._tape = tape
        self._left = size

    def read(self, size: int) -> bytes:
        data = self._tape.read(min(size, self._left))
        self._left -= len(data)
        if self._left and not data and size:
            raise EOFError(f"{self._left} bytes are missing")
        return data


class Member(io.RawIOBase):
    """A file in an archive: its name, its bytes, and its content, which has to be read before the next one's.

    Content that ends or breaks in the middle ends quietly; `damage` says what was found.
    """

    def __init__(self, name: str, size: int, content: IO[bytes] | _Cut) -> None:
        self.member = name
        self.size = size
        self._content = content
        self.damage = ""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        try:
            data = self._content.read(len(target))
        except _BROKEN as error:
            raise_if_of_the_system(error)
            self.damage = f"the member breaks off: {str(error)[:200]}"
            return 0
        target[: len(data)] = data
        return len(data)

    def stream(self, archive: str) -> Stream:
        """The member as what readers are given."""
        return Stream(io.BufferedReader(self, 1 << 17), f"{archive}/{self.member}", self.size)


def members(stream: Stream) -> Iterator[Member | Reject]:
    """The regular files of an archive in its order, and a rejection for whatever else is in it but folders.

    Of several members of the same name the first is taken. Of a damaged archive what can be read is kept.
    """
    seen: set[str] = set()
    for found in _zipped(stream) if stream.head(len(ZIP_MAGIC)) == ZIP_MAGIC else _taped(stream):
        if isinstance(found, Reject):
            yield found
        elif reject := _refused(found.member):
            yield reject
        elif found.member in seen:
            told = "an earlier member of the archive has the same name"
            yield Reject(None, "duplicate_id", told, found.member)
        else:
            seen.add(found.member)
            yield found


def _refused(name: str) -> Reject | None:
    if len(name) > LONGEST_NAME:
        told = f"a name of {len(name)} characters, {LONGEST_NAME} allowed"
        return Reject(None, "unsafe_name", told, name[:LONGEST_NAME])
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name:
        return Reject(None, "unsafe_name", f"a member named {name[:200]!r}", name)
    if any(part.startswith(".") for part in path.parts):
        return Reject(None, "hidden_member", "its name begins with a dot", name)
    return None


def _taped(stream: Stream) -> Iterator[Member | Reject]:
    """ignore_zeros: goes on after blocks that are no headers, and reads archives that were put one behind the other."""
    read = 0
    try:
        with Tape.open(fileobj=Ending(stream.bytes), mode="r|", ignore_zeros=True, errorlevel=0) as tape:  # type: ignore[call-overload]
            for found in tape:
                name = found.name.removeprefix("./")
                if found.type in EXTENSIONS:
                    told = f"a header of {found.size} bytes, at most {MAX_EXTENSION_BYTES} are read of one member's"
                    yield Reject(None, "too_large", told, name[:LONGEST_NAME])
                elif found.isreg() and not found.issparse():
                    yield Member(name, found.size, _Cut(tape.fileobj, found.size))
                elif not found.isdir():
                    yield Reject(None, "not_a_file", _kind(found), name[:LONGEST_NAME])
                tape.members.clear()  # else it remembers the headers of all
                read += 1
            damage = _damage(tape)
    except _BROKEN as error:
        raise_if_of_the_system(error)
        damage = f"after {read} members: {str(error)[:200]}"
    if damage := stream.damage or damage:
        yield Reject(None, "damaged_file", damage)


def _damage(tape: Tape) -> str:
    if tape.broken:
        return f"{tape.broken} blocks that are no header of a member, the first at byte {tape.broken_at}"
    return "" if tape.at_end else f"it ends at byte {tape.offset}, without the mark of its end"


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return f"a link to {member.linkname[:200]!r}"
    return "a sparse file" if member.issparse() else f"a member of type {member.type!r}"


def _zipped(stream: Stream) -> Iterator[Member | Reject]:
    try:
        archive = zipfile.ZipFile(stream.unpacked)
    except _BROKEN as error:
        raise_if_of_the_system(error)
        yield Reject(None, "damaged_file", stream.damage or f"no directory of members: {str(error)[:200]}")
        return
    with archive:
        for found in archive.infolist():
            if found.is_dir():
                continue
            if found.external_attr >> 28 == 0xA:
                yield Reject(None, "not_a_file", "a link", found.filename)
                continue
            try:
                content = archive.open(found)
            except _BROKEN as error:
                raise_if_of_the_system(error)
                yield Reject(None, "unreadable_file", str(error)[:200], found.filename)
                continue
            yield Member(found.filename, found.file_size, content)
