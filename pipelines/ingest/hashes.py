"""Content hashes of a source's files, and what spares reading a file only to hash it again.

Which files there are is `listing.py`'s business.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pipelines.ingest.listing import Listing, SourceFile
from pipelines.ingest.params import Source
from pipelines.ingest.places import Remote
from pipelines.ingest.records import BadInput, Reject
from pipelines.store import Store, digest

SETTLED_NANOSECONDS = 2_000_000_000
"""A file that changed less than this before it was hashed may change again within the same time stamp."""


def hints_of(source: Source, store: Store) -> Path:
    """Where the hints of a source stand, for `hash_files`."""
    return store.scratch(digest(["ingest hints", source.name])) / "hashes.json"


def hash_files(listing: Listing, hints: Path, workers: int, *, max_bytes: int | None = None) -> None:
    """Fill in the content hashes; what cannot be read moves to the rejections. Raises `BadInput` where a network fails.

    hints: a JSON file that may be deleted at any time; a file whose size, times and inode (a remote
    one: size and entity tag) are those of its hint is not read again. max_bytes: read no more than this
    now, whole files only; the others stay without a hash.
    """
    known = _read_hints(hints)
    started = time.time_ns()
    fresh: dict[str, list[Any]] = {}
    place = listing.place

    def hashed(file: SourceFile, *, read: bool) -> SourceFile | Reject:
        """The file with its hash; without one if no hint has it and it is not to be read."""
        key = place.key(file.path)
        try:
            seen = place.look(file.path, file.stamp)
            hint = known.get(key)
            if isinstance(hint, list) and len(hint) == 2 and hint[0] == seen.state and isinstance(hint[1], str):
                sha256 = hint[1]
            elif not read:
                return replace(file, sha256="", stamp=seen.stamp)
            else:
                with place.open(file.path) as content:
                    sha256 = hashlib.file_digest(cast(io.BufferedReader, content), "sha256").hexdigest()
        except FileNotFoundError:
            return Reject(None, "vanished_file", "listed, but gone when it was to be read")
        except OSError as error:
            if isinstance(place, Remote) and error.errno == errno.EIO:
                raise BadInput(f"{place.url}: {file.uri} cannot be read ({error.strerror}); run again") from None
            return Reject(None, "unreadable_file", error.strerror or type(error).__name__)
        if seen.changed_ns < started - SETTLED_NANOSECONDS:
            fresh[key] = [seen.state, sha256]
        return replace(file, sha256=sha256, stamp=seen.stamp)

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
