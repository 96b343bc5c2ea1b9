"""Which files a source has, and how they are grouped into tasks.

Their content hashes are `hashes.py`'s business, what stands in them `readers.py`'s. The order of everything here
follows from names and contents, never from the file system's order.
"""

import fnmatch
import functools
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import xxhash

from pipelines.ingest.globs import Glob, split_glob
from pipelines.ingest.params import MEGABYTE, Source
from pipelines.ingest.places import Place, Remote, Stamp, place_of, stamp_of
from pipelines.ingest.records import BadInput, Reject
from pipelines.ingest.saved_datasets import keep_data_files


@dataclass(frozen=True)
class SourceFile:
    """A file to read. path: below the root, as the system spells it. uri: the same, printable and without '#'.

    stamp: what tells a change, when it was listed: its size, and more (see `places.py`). sha256: of the whole content.
    limit_bytes: of text after which reading stops (the last file of a capped source). license, package: where the
    listing knows them.
    """

    path: str
    uri: str
    stamp: Stamp
    sha256: str = ""
    limit_bytes: int | None = None
    license: str | None = None
    package: str | None = None

    @property
    def size(self) -> int:
        """Bytes as stored."""
        return int(self.stamp[0])


@dataclass
class Listing:
    """Files found below a root (a local folder or a URL), what was rejected on the way (uri, rejection), and how many
    were left out and why."""

    root: Path | str
    files: list[SourceFile] = field(default_factory=list)
    rejects: list[tuple[str, Reject]] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    @functools.cached_property
    def place(self) -> Place:
        """Where the files lie."""
        return place_of(self.root)

    def add(self, path: str, license: str | None = None, package: str | None = None) -> None:
        """Take a local path in, or list why it cannot be read."""
        try:
            found = (Path(self.root) / path).stat()
        except FileNotFoundError:
            self.reject(path, "vanished_file", "listed, but not there (or a link to nothing)")
        except OSError as error:
            self.reject(path, "unreadable_file", error.strerror or type(error).__name__)
        else:
            if stat.S_ISREG(found.st_mode):
                self.files.append(SourceFile(path, uri_of(path), stamp_of(found), license=license, package=package))
            else:
                self.reject(path, "not_a_file", stat.filemode(found.st_mode))

    def reject(self, path: str, reason: str, detail: str) -> None:
        """List a path as one that cannot be read."""
        self.rejects.append((uri_of(path), Reject(None, reason, detail)))

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


def list_files(source: Source) -> Listing:
    """The files that a source's path names (a folder, a file, a pattern; local or a URL), in order of their uris.

    Hidden files and folders, and what the patterns exclude, are left out and counted. Links to folders are followed,
    each folder once. Raises `BadInput` when the path does not exist, or cannot be listed.
    """
    path, glob = split_glob(source.path)
    listing = Listing(path if "://" in path else Path(path))
    try:
        if isinstance(listing.place, Remote):
            _list_remote(source, listing, listing.place, glob)
        elif (root := Path(path)).is_file() and not glob:
            listing = Listing(root.parent)
            listing.add(root.name)
            return listing
        else:
            _list_local(source, listing, root, glob)
        keep_data_files(listing)
    except OSError as error:
        raise BadInput(f"source {source.name!r}: {source.path!r} cannot be listed: {error.strerror or error}") from None
    listing.files.sort(key=lambda file: file.uri)
    return listing


def _list_remote(source: Source, listing: Listing, place: Remote, glob: Glob | None) -> None:
    found = place.info()
    if found is None:
        raise _nothing_at(source)
    if found.get("type") == "file" and not glob and not source.path.endswith("/"):
        path = source.path.rpartition("/")[2].partition("?")[0] or "file"
        listing.files.append(SourceFile("", uri_of(path), place.look("").stamp))
        return
    wanted = _wanted(source, listing, glob)
    for path, seen in place.files():
        if any(name.startswith(".") for name in path.split("/")):
            listing.leave_out("hidden")
        elif wanted(path):
            listing.files.append(SourceFile(path, uri_of(path), seen.stamp))


def _list_local(source: Source, listing: Listing, root: Path, glob: Glob | None) -> None:
    if not root.is_dir():
        raise _nothing_at(source)
    wanted = _wanted(source, listing, glob)
    for path in _walk(listing, glob):
        if wanted(path):
            listing.add(path)


def _nothing_at(source: Source) -> BadInput:
    return BadInput(f"source {source.name!r}: there is no folder or file {source.path!r}; correct its `path`")


def _wanted(source: Source, listing: Listing, glob: Glob | None) -> Callable[[str], bool]:
    """A function from a relative path to whether it belongs to the source; counts what does not."""
    left_out = left_out_by(source)

    def wanted(path: str) -> bool:
        matches = glob is None or glob.matches(path.replace(os.sep, "/"))
        reason = left_out(path) if matches else "not_included"
        if reason:
            listing.leave_out(reason)
        return not reason

    return wanted


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


def _walk(listing: Listing, glob: Glob | None) -> Iterator[str]:
    def refused(error: OSError) -> None:
        reason = "vanished_file" if isinstance(error, FileNotFoundError) else "unreadable_file"
        path = os.path.relpath(str(error.filename), listing.root)
        listing.reject(path, reason, error.strerror or type(error).__name__)

    top = Path(listing.root).stat()
    seen = {(top.st_dev, top.st_ino)}
    for folder, folders, names in os.walk(listing.root, onerror=refused, followlinks=True):
        below = os.path.relpath(folder, listing.root)
        prefix = "" if below == os.curdir else below + os.sep
        kept = []
        for name in sorted(folders):
            if name.startswith("."):
                listing.leave_out("hidden")
                continue
            if glob and not glob.enters((prefix + name).replace(os.sep, "/")):
                listing.leave_out("not_included")
                continue
            try:
                found = (Path(folder) / name).stat()
            except OSError as error:
                refused(error)
                continue
            identity = (found.st_dev, found.st_ino)
            if identity in seen:
                listing.reject(prefix + name, "repeated_directory", "this folder is read already")
                continue
            seen.add(identity)
            kept.append(name)
        folders[:] = kept
        for name in sorted(names):
            if name.startswith("."):
                listing.leave_out("hidden")
            else:
                yield prefix + name


def is_unchanged(place: Place, file: SourceFile) -> bool:
    """True if the file is still the one that was listed, by what tells a change."""
    try:
        return place.look(file.path).stamp == file.stamp
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
