"""Text of any kind, Markdown, reStructuredText: a whole file as one document."""

from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Reject, whole_file
from pipelines.ingest.streams import Stream


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """The file as record 0. Of a damaged file the beginning is kept."""
    data = stream.bytes.read(max_bytes + 1)
    if len(data) > max_bytes:
        yield Reject("0", "too_large", f"{stream.size} bytes as stored, {max_bytes} allowed")
        return
    if stream.damage:
        yield Reject(None, "damaged_file", stream.damage)
        if not data:
            return
    yield whole_file(data)
