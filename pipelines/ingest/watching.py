"""What a source holds at this moment, to tell whether anything is new since a dataset was made of it.

The content hash decides; size and times only spare reading a file again. What to do about a change is the business of
`jobs/sensors/watch.py`.
"""

from dataclasses import dataclass

from pipelines.dataset import Version
from pipelines.ingest.hashes import hash_files, hints_of
from pipelines.ingest.listing import Listing, list_files, take_sample
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.records import BadInput
from pipelines.ingest.stage import tasks
from pipelines.removals import NOTHING_FORGOTTEN, Removals
from pipelines.store import Store, digest

LOOK_BYTES = 4_000_000_000
"""New content that one look reads at most: well within the minute that Dagster gives a sensor. A file larger than this
is never read by a look; its size, modification time and inode stand for its content."""

THREADS = 4


@dataclass(frozen=True)
class Look:
    """What a source holds. unread: files whose content the next looks have yet to read.

    stamp: digest of names, sizes and times as well as content, so a file that is still being written changes it.
    content: digest of names and contents alone.
    """

    listing: Listing
    unread: int
    stamp: str
    content: str


def look(source: Source, store: Store, *, max_bytes: int = LOOK_BYTES) -> Look:
    """List a source and read what is new in it, up to `max_bytes`; repeated looks read everything.

    What is known about single files stands beside ingestion's own hints in the store's scratch and may be deleted.
    Raises `BadInput` when the source does not exist.
    """
    listing = list_files(source)
    take_sample(listing, source.max_megabytes)
    listing.files.sort(key=lambda file: file.size)  # one file that is too large for this look holds up no other
    hash_files(listing, hints_of(source, store), THREADS, max_bytes=max_bytes)
    listing.files.sort(key=lambda file: file.uri)
    told = [
        [file.uri, file.sha256 if file.size <= max_bytes else list(file.stamp), file.limit_bytes]
        for file in listing.files
    ]
    rejects = sorted([uri, reject.reason] for uri, reject in listing.rejects)
    content = digest([told, rejects])
    return Look(
        listing=listing,
        unread=sum(not file.sha256 and file.size <= max_bytes for file in listing.files),
        stamp=digest([content, [file.stamp for file in listing.files]])[:16],
        content=content[:16],
    )


def is_held_by(
    found: Look, source: Source, config: IngestParams, version: Version, removals: Removals = NOTHING_FORGOTTEN
) -> bool:
    """Whether a version of the source's raw documents was made from exactly what was found, by today's code, without
    what is to be forgotten."""
    if not all(file.sha256 for file in found.listing.files):
        return False
    try:
        made = tasks(found.listing, source, config, removals)
    except BadInput:  # something in it that `errors: fail` does not let pass
        return False
    return {task.key for task in made} == set(version.actions)
