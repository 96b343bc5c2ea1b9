"""Text of any kind, Markdown, reStructuredText: a whole file as one document."""

from collections.abc import Callable

from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, Reject, whole_file
from pipelines.ingest.streams import Stream


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """The file as record 0."""
    return read_whole(stream, max_bytes, whole_file)


def read_whole(stream: Stream, max_bytes: int, record_of: Callable[[bytes], Record | Reject]) -> Items:
    """What a file's bytes are as one record. Of a damaged file the beginning is kept."""
    data = stream.bytes.read(max_bytes + 1)
    if len(data) > max_bytes:
        yield Reject("0", "too_large", f"{stream.size} bytes as stored, {max_bytes} allowed")
        return
    if stream.damage:
        yield Reject(None, "damaged_file", stream.damage)
        if not data:
            return
    yield record_of(data)
