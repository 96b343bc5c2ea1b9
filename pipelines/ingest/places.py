"""Where the files of a source lie: below a local folder, or behind an fsspec URL (s3, gs, https, hf, memory …).

Both answer the same questions: which files there are, what tells that one changed, and its bytes. Which of the files
belong to the source is `listing.py`'s business.
"""

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import fsspec
import fsspec.core

from pipelines.ingest.records import BadInput

Stamp = tuple[int | str, ...]
"""Bytes first, then what else changes with a file: modification time (ns) and inode, or that time or an entity tag."""

READ_BUFFER = 1 << 18
"""Bytes read from a local file at once: lines are found in half the time that they take with Python's own 8 kB."""
NEVER = 1 << 62
"""A time, nanoseconds, before which nothing has settled: for files whose change nothing tells."""

_TAGS = ("ETag", "etag", "generation", "blob_id", "md5Hash", "Content-MD5", "Digest", "checksum")
"""What file systems call a mark of a file's content, in the order in which they are trusted."""
_TIMES = ("LastModified", "Last-Modified", "last_modified", "mtime", "modified", "updated", "created")

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Seen:
    """A file at a moment. state: what a hint about its content is valid for. changed_ns: when it last changed."""

    stamp: Stamp
    state: list[int | str]
    changed_ns: int


class Folder:
    """A local folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.url = str(self.root)

    def key(self, path: str) -> str:
        """The name of a file for hints."""
        return os.fsencode(self.root / path).hex()

    def look(self, path: str, listed: Stamp | None = None) -> Seen:
        """What a file is now. Raises `OSError` when it cannot be told. listed: not needed here."""
        found = (self.root / path).stat()
        stamp = stamp_of(found)
        return Seen(stamp, [*stamp, found.st_ctime_ns], max(found.st_mtime_ns, found.st_ctime_ns))

    def open(self, path: str) -> BinaryIO:
        """A file's bytes. Raises `OSError` when it cannot be read."""
        return (self.root / path).open("rb", READ_BUFFER)


class Remote:
    """A folder behind a URL. Raises `BadInput` when the URL's protocol is unknown, or its package is missing."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._fs, self.root = fsspec.core.url_to_fs(url)
        except ImportError as error:  # its text says which package to install
            raise BadInput(f"{url!r} cannot be read without another package: {str(error).rstrip('.')}") from None
        except ValueError as error:
            raise BadInput(f"{url!r} is not a URL that can be read: {error}") from None

    def info(self) -> dict[str, Any] | None:
        """What stands at the URL itself; None: nothing. Raises `OSError` when it cannot be told."""
        self._fs.invalidate_cache()
        try:
            found = told(lambda: self._fs.info(self.root))
        except FileNotFoundError:
            return None
        self.root = found.get("name", self.root)  # as it stands in listings: a revision may be spelled otherwise
        return found

    def files(self) -> Iterator[tuple[str, Seen]]:
        """The files below, with their paths below the root. Raises `OSError`."""
        self._fs.invalidate_cache()
        found = told(lambda: self._fs.find(self.root, detail=True))
        for name, info in found.items():
            path = name.removeprefix(self.root).strip("/")
            if path and info.get("type", "file") == "file" and not name.endswith("/"):
                yield path, seen(info)

    def key(self, path: str) -> str:
        """The name of a file for hints."""
        return f"{self.url}/{path}"

    def look(self, path: str, listed: Stamp | None = None) -> Seen:
        """What a file is now; where it was listed a moment ago, the listing's word is taken for it."""
        if listed is not None:
            return _seen_as(listed)
        self._fs.invalidate_cache()
        return seen(told(lambda: self._fs.info(self._name(path))))

    def open(self, path: str) -> BinaryIO:
        """A file's bytes. Raises `OSError`, and so does the file, whatever the file system itself raises."""
        file = told(lambda: self._fs.open(self._name(path), "rb"))
        return io.BufferedReader(_Reliable(file), 1 << 20)

    def _name(self, path: str) -> str:
        return f"{self.root.rstrip('/')}/{path}" if path else self.root


Place = Folder | Remote


def place_of(root: str | Path) -> Place:
    """The place that a local path or a URL names."""
    return Remote(root) if isinstance(root, str) and "://" in root else Folder(Path(root))


def stamp_of(found: os.stat_result) -> tuple[int, int, int]:
    """Size, modification time and inode."""
    return found.st_size, found.st_mtime_ns, found.st_ino


def seen(info: dict[str, Any]) -> Seen:
    """What a file system tells of a file. Where nothing tells its changes, no hint about its content is ever valid."""
    size = int(info.get("size") or 0)
    for name in _TAGS:
        if info.get(name):
            return _seen_as((size, str(info[name])))
    for name in _TIMES:
        if when := info.get(name):
            seconds = _seconds(when)
            return _seen_as((size, str(when) if seconds is None else int(seconds * 1e9)))
    return _seen_as((size,))


def _seen_as(stamp: Stamp) -> Seen:
    """What a remote file's stamp says: a tag is its content's own, a time may come again while it is young."""
    changed = stamp[1] if len(stamp) > 1 else NEVER
    return Seen(stamp, list(stamp), changed if isinstance(changed, int) else 0)


def _seconds(when: Any) -> float | None:
    """A time in any of the spellings of file systems (ISO 8601, that of HTTP), since 1970; None: it is another."""
    if isinstance(when, str):
        for parse in (datetime.fromisoformat, parsedate_to_datetime):
            with contextlib.suppress(ValueError):
                when = parse(when)
                break
    if isinstance(when, datetime):
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return when if isinstance(when, int | float) else None


def told(ask: Callable[[], Answer]) -> Answer:
    """The answer of a file system, whose errors of any kind become `OSError`s with a number, as the system's are."""
    try:
        return ask()
    except OSError as error:
        if error.errno is not None:
            raise
        number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EIO
        raise OSError(errno.EACCES if isinstance(error, PermissionError) else number, str(error)[:300]) from error
    except Exception as error:
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}"[:300]) from error


class _Reliable(io.RawIOBase):
    """A remote file whose errors can be told from those of what stands in it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return told(lambda: self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, target: Any) -> int:
        data = told(lambda: self._file.read(len(target)))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
