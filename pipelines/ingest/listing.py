"""Which files a source has, their content hashes, and how they are grouped into tasks.

What stands in the files is `readers.py`'s business. The order of everything here follows from names and contents,
never from the file system's order.
"""

import contextlib
import fnmatch
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import xxhash

from pipelines.ingest.params import MEGABYTE, Source
from pipelines.ingest.records import BadInput, Reject
from pipelines.store import Store, digest

SETTLED_NANOSECONDS = 2_000_000_000
"""A file that changed less than this before it was hashed may change again within the same time stamp."""


@dataclass(frozen=True)
class SourceFile:
    """A file to read. path: below the root, as the system spells it. uri: the same, printable and without '#'.

    stamp: size, modification time and inode when it was listed. sha256: of the whole content. limit_bytes: of text
    after which reading stops (the last file of a capped source). license, package: where the listing knows them.
    """

    path: str
    uri: str
    stamp: tuple[int, int, int]
    sha256: str = ""
    limit_bytes: int | None = None
    license: str | None = None
    package: str | None = None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self.stamp[0]


@dataclass
class Listing:
    """Files found below a root, what was rejected on the way (uri, rejection), and how many were left out and why."""

    root: Path
    files: list[SourceFile] = field(default_factory=list)
    rejects: list[tuple[str, Reject]] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    def add(self, path: str, license: str | None = None, package: str | None = None) -> None:
        """Take a path in, or list why it cannot be read."""
        uri = uri_of(path)
        try:
            found = (self.root / path).stat()
        except FileNotFoundError:
            self.rejects.append((uri, Reject(None, "vanished_file", "listed, but not there (or a link to nothing)")))
        except OSError as error:
            self.rejects.append((uri, Reject(None, "unreadable_file", error.strerror or type(error).__name__)))
        else:
            if stat.S_ISREG(found.st_mode):
                self.files.append(SourceFile(path, uri, _stamp(found), license=license, package=package))
            else:
                self.rejects.append((uri, Reject(None, "not_a_file", stat.filemode(found.st_mode))))

    def leave_out(self, why: str) -> None:
        """Count a file that is not part of the source."""
        self.left_out[why] = self.left_out.get(why, 0) + 1


def uri_of(path: str) -> str:
    """A relative path as the first part of a uri: '/' between folders; '%', '#', control characters and bytes that
    are no UTF-8 as %XX, so that different paths have different uris and the first '#' ends the path."""
    return re.sub(
        r"[%#\x00-\x1f\x7f\ud800-\udfff]",
        lambda found: "".join(f"%{byte:02X}" for byte in os.fsencode(found[0])),
        path.replace(os.sep, "/"),
    )


def list_folder(source: Source) -> Listing:
    """The files of a folder (or the one file) that the source names, in order of their uris.

    Hidden files and folders, and what the patterns exclude, are left out and counted. Links to folders are followed,
    each folder once. Raises `BadInput` when the path does not exist.
    """
    root = Path(source.path).expanduser()
    if root.is_file():
        listing = Listing(root.parent)
        listing.add(root.name)
        return listing
    if not root.is_dir():
        raise BadInput(f"source {source.name!r}: there is no folder or file {source.path!r}; correct its `path`")
    listing = Listing(root)
    left_out = left_out_by(source)
    for path in _walk(listing):
        if reason := left_out(path):
            listing.leave_out(reason)
        else:
            listing.add(path)
    listing.files.sort(key=lambda file: file.uri)
    return listing


def left_out_by(source: Source) -> Callable[[str], str]:
    """A function from a relative path to why the source's patterns leave it out; empty: they don't."""
    include, exclude = _patterns(source.include), _patterns(source.exclude)

    def reason(path: str) -> str:
        name = path.rsplit(os.sep, 1)[-1]
        if include and not (include.match(path) or include.match(name)):
            return "not_included"
        return "excluded" if exclude and (exclude.match(path) or exclude.match(name)) else ""

    return reason


def _patterns(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(fnmatch.translate, patterns))) if patterns else None


def _walk(listing: Listing) -> Iterator[str]:
    def refused(error: OSError) -> None:
        uri = uri_of(os.path.relpath(str(error.filename), listing.root))
        listing.rejects.append((uri, Reject(None, "unreadable_file", error.strerror or type(error).__name__)))

    top = listing.root.stat()
    seen = {(top.st_dev, top.st_ino)}
    for folder, folders, names in os.walk(listing.root, onerror=refused, followlinks=True):
        below = os.path.relpath(folder, listing.root)
        prefix = "" if below == os.curdir else below + os.sep
        kept = []
        for name in sorted(folders):
            if name.startswith("."):
                listing.leave_out("hidden")
                continue
            try:
                found = (Path(folder) / name).stat()
            except OSError as error:
                refused(error)
                continue
            identity = (found.st_dev, found.st_ino)
            if identity in seen:
                uri = uri_of(prefix + name)
                listing.rejects.append((uri, Reject(None, "repeated_directory", "this folder is read already")))
                continue
            seen.add(identity)
            kept.append(name)
        folders[:] = kept
        for name in sorted(names):
            if name.startswith("."):
                listing.leave_out("hidden")
            else:
                yield prefix + name


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ino


def is_unchanged(root: Path, file: SourceFile) -> bool:
    """True if the file is still the one that was listed, by size, modification time and inode."""
    try:
        return _stamp((root / file.path).stat()) == file.stamp
    except OSError:
        return False


def take_sample(listing: Listing, max_megabytes: float) -> None:
    """Keep files, in the order of a hash of their uris, up to the cap; the order is the same on every machine.

    Of the file that crosses the cap, reading stops when what is left of the cap has been read as text.
    """
    if not max_megabytes:
        return
    left = round(max_megabytes * MEGABYTE)
    kept = []
    for file in sorted(listing.files, key=lambda file: (xxhash.xxh3_128_hexdigest(file.uri.encode()), file.uri)):
        if left <= 0:
            listing.leave_out("beyond_max_megabytes")
            continue
        kept.append(file if file.size <= left else replace(file, limit_bytes=left))
        left -= file.size
    listing.files = sorted(kept, key=lambda file: file.uri)


def hints_of(source: Source, store: Store) -> Path:
    """Where the hints of a source stand, for `hash_files`."""
    return store.scratch(digest(["ingest hints", source.name])) / "hashes.json"


def hash_files(listing: Listing, hints: Path, workers: int, *, max_bytes: int | None = None) -> None:
    """Fill in the content hashes; what cannot be read moves to the rejections.

    hints: a JSON file that may be deleted at any time; a file whose size, times and inode are those of its hint is
    not read again. max_bytes: read no more than this now, whole files only; the others stay without a hash.
    """
    known = _read_hints(hints)
    started = time.time_ns()
    fresh: dict[str, list[Any]] = {}
    top = listing.root.absolute()

    def hashed(file: SourceFile, *, read: bool) -> SourceFile | Reject:
        """The file with its hash; without one if no hint has it and it is not to be read."""
        path = top / file.path
        key = os.fsencode(path).hex()
        try:
            found = path.stat()
            state = [*_stamp(found), found.st_ctime_ns]
            hint = known.get(key)
            if isinstance(hint, list) and len(hint) == 2 and hint[0] == state and isinstance(hint[1], str):
                sha256 = hint[1]
            elif not read:
                return replace(file, sha256="", stamp=_stamp(found))
            else:
                with path.open("rb") as content:
                    sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        except FileNotFoundError:
            return Reject(None, "vanished_file", "listed, but gone when it was to be read")
        except OSError as error:
            return Reject(None, "unreadable_file", error.strerror or type(error).__name__)
        if max(state[1], state[3]) < started - SETTLED_NANOSECONDS:
            fresh[key] = [state, sha256]
        return replace(file, sha256=sha256, stamp=_stamp(found))

    results = [hashed(file, read=False) for file in listing.files]
    left = max_bytes
    unknown = []
    for index, result in enumerate(results):
        if isinstance(result, SourceFile) and not result.sha256 and (left is None or result.size <= left):
            unknown.append(index)
            left = None if left is None else left - result.size
    with ThreadPoolExecutor(max(1, workers)) as pool:
        read = pool.map(lambda index: hashed(listing.files[index], read=True), unknown)
        for index, result in zip(unknown, read, strict=True):
            results[index] = result
    pairs = list(zip(listing.files, results, strict=True))
    listing.rejects += [(file.uri, result) for file, result in pairs if isinstance(result, Reject)]
    listing.files = [result for result in results if isinstance(result, SourceFile)]
    if fresh != known:
        temporary = hints.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(fresh))
        temporary.replace(hints)


def _read_hints(hints: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(hints.read_text())
        if isinstance(known, dict):
            return known
    return {}


def group_files(files: Sequence[SourceFile], shard_bytes: int) -> list[list[SourceFile]]:
    """Files as tasks: a file larger than a shard alone, the others in 2^k groups by the first k bits of a hash.

    k is the smallest that makes the average group fit a shard, so another file changes one group only (until k grows).
    """
    small = [file for file in files if file.size <= shard_bytes]
    bits = 0
    while sum(file.size for file in small) > shard_bytes << bits:
        bits += 1
    groups: dict[int, list[SourceFile]] = {}
    for file in sorted(small, key=lambda file: file.uri):
        groups.setdefault(xxhash.xxh3_64_intdigest(file.uri.encode()) >> (64 - bits), []).append(file)
    large = sorted((file for file in files if file.size > shard_bytes), key=lambda file: file.uri)
    return [groups[prefix] for prefix in sorted(groups)] + [[file] for file in large]
