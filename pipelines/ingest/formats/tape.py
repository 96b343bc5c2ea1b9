"""The headers of a tar by Python's tarfile, where they are damaged or made to exhaust memory or time.

Headers of extensions (long names, pax) are read whole by tarfile, whatever size they state, and its parser of pax takes
the square of that; a sparse file's map is held in memory; and beyond the end of a file it goes on block by block to
where a header says that the next one stands. Here all of that has bounds. Which members are read is decided in
`archive.py`.
"""

import tarfile
from typing import Any, BinaryIO

MAX_EXTENSION_BYTES = 1 << 20
"""Of all extensions of one member: names have 4 kB, access lists and attributes some more."""
PAX_TYPES = frozenset({tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE})
EXTENSIONS = PAX_TYPES | {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
"""Types of headers that say more about the member after them."""
_BLOCK = tarfile.BLOCKSIZE
_SPARSE = "GNU.sparse."
_READ = frozenset({"path", "linkpath", "size", "GNU.sparse.name"})
"""What of a pax header is used here."""


class Ending:
    """A file that breaks off for who reads on and on behind its end, as tarfile does."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = 8

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        if not data and size:
            self._left -= 1
            if not self._left:
                raise EOFError("it ends before the place where the next header should be")
        return data


class Header(tarfile.TarInfo):
    """Notes which blocks were no headers: tarfile passes over them, or ends there, without a word.

    A header of extensions that are too large is given as a member of its own, and its content passed over.
    """

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> "Header":
        """The next member. Raises `tarfile.HeaderError` where there is none."""
        return _noted(super().fromtarfile, tarfile)

    def _proc_member(self, tape: Any) -> tarfile.TarInfo:
        """What follows a header, by its type; tarfile has this method for subclasses to put their own in its place."""
        if self.size < 0:
            raise tarfile.InvalidHeaderError("a negative size")  # type: ignore[attr-defined]
        if self.type in EXTENSIONS:
            tape.extension_bytes += self.size
            if tape.extension_bytes > MAX_EXTENSION_BYTES:
                tape.extension_bytes = 0
                return self._passed_over(tape)
            if self.type in PAX_TYPES:
                return self._pax(tape)
        else:
            tape.extension_bytes = 0
            if self.type == tarfile.GNUTYPE_SPARSE:
                return self._sparse(tape)
        return super()._proc_member(tape)  # type: ignore[misc]

    def _passed_over(self, tape: Any) -> tarfile.TarInfo:
        self.offset_data = tape.fileobj.tell()
        tape.offset = self.offset_data + self._block(self.size)  # type: ignore[attr-defined]
        return self

    def _pax(self, tape: Any) -> tarfile.TarInfo:
        """The member after a pax header, with what that says of it (POSIX.1-2008, pax interchange format)."""
        fields, is_sparse = pax_fields(tape.fileobj.read(self._block(self.size))[: self.size])  # type: ignore[attr-defined]
        if self.type == tarfile.XGLTYPE:
            tape.pax_headers.update(fields)
            return self.fromtarfile(tape)
        member = self.fromtarfile(tape)
        if is_sparse and member.sparse is None:
            member.sparse = b""  # what makes it one; its map is not read
        member._apply_pax_info(tape.pax_headers | fields, tape.encoding, tape.errors)  # type: ignore[attr-defined]
        if "size" in fields and (member.isreg() or member.type not in tarfile.SUPPORTED_TYPES):
            tape.offset = member.offset_data + member._block(int(fields["size"]))  # type: ignore[attr-defined]
        return member

    def _sparse(self, tape: Any) -> tarfile.TarInfo:
        """A sparse file of the old GNU format. Each block of its map says whether another follows."""
        follows = self._sparse_structs[1]  # type: ignore[attr-defined]
        while follows:
            block = tape.fileobj.read(_BLOCK)
            follows = len(block) == _BLOCK and block[504]
        self.sparse = b""
        return self._passed_over(tape)


def _noted(read: Any, tape: Any) -> Any:
    at = tape.offset
    try:
        tape.at_end = False
        return read(tape)
    except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
        tape.at_end = True
        raise
    except tarfile.EmptyHeaderError:  # type: ignore[attr-defined]
        tape.at_end = tape.was_at_end
        raise
    except tarfile.HeaderError:
        if not tape.broken:
            tape.broken_at = at
        tape.broken += 1
        raise
    finally:
        tape.was_at_end = tape.at_end


class Tape(tarfile.TarFile):
    """A tar that is read as it comes. broken: how many blocks are no headers, the first at byte `broken_at`.

    at_end: the mark of its end has been read.
    """

    tarinfo = Header

    def __init__(self, *given: Any, **named: Any) -> None:
        self.broken = self.broken_at = 0
        self.at_end = self.was_at_end = False
        self.extension_bytes = 0
        super().__init__(*given, **named)


def pax_fields(data: bytes) -> tuple[dict[str, str], bool]:
    """What records of a pax header ("length keyword=value\\n") say of name and size, and whether of a sparse file.

    Raises `tarfile.HeaderError` where they are none.
    """
    fields: dict[str, str] = {}
    is_sparse = False
    at = 0
    while at < len(data) and data[at]:
        length = data[at : at + 10].partition(b" ")[0]
        end = at + int(length) if length.isdigit() else 0
        keyword, equals, value = data[at + len(length) + 1 : end - 1].partition(b"=")
        if not equals or end > len(data) or data[end - 1 : end] != b"\n":
            raise tarfile.InvalidHeaderError("a broken pax header")  # type: ignore[attr-defined]
        name, told = (part.decode("utf-8", "surrogateescape") for part in (keyword, value))
        is_sparse = is_sparse or name.startswith(_SPARSE)
        if name in _READ and (name != "size" or (told.isdecimal() and told.isascii() and len(told) < 20)):
            fields[name] = told
        at = end
    return fields, is_sparse
