"""Groups: what a mixture gives shares to. The sources, or the values of an attribute that documents carry.

The plan (`stage.py`) counts the bytes of each group, the blend its tokens; both ask here which group a document is in.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Version
from pipelines.engines.task import Inputs
from pipelines.removals import fields_of

VERSION = 1
"""Of the code that puts documents into groups; raise it when groups change."""

SOURCE = "source"
"""The attribute that needs no reading: a shard of documents is of one source."""

COLUMNS = ("language", "license")
"""Columns of documents that say what kind of document it is."""

BUCKET = "bucket"
"""In the part `buckets` of filtered documents: one of `BUCKETS` of the reference's perplexities."""

BUCKETS = ("head", "middle", "tail")

METADATA = re.compile(r"metadata\.(.+)", re.DOTALL)
"""A field of the JSON object in the column `metadata`."""

UNKNOWN = "unknown"
"""The group of documents without a value."""

MOST_GROUPS = 1_000
"""An attribute with more values than this is none that anybody gives shares to: it tells documents apart."""

ALLOWED = f"{SOURCE}, {', '.join(COLUMNS)}, {BUCKET} or metadata.FIELD"


def refuse_unknown(by: str) -> str:
    """The attribute itself. Raises `ValueError`, saying what is allowed, where documents carry no such attribute."""
    if by not in (SOURCE, *COLUMNS, BUCKET) and not METADATA.fullmatch(by):
        raise ValueError(f"documents cannot be mixed by {by!r}; allowed are {ALLOWED}")
    return by


def refuse_too_many(groups: int, by: str) -> None:
    """Raise `ValueError` where an attribute makes more than `MOST_GROUPS` groups."""
    if groups > MOST_GROUPS:
        raise ValueError(
            f"mixture.by: documents have {groups:,} different values of {by}; choose an attribute with at most "
            f"{MOST_GROUPS:,}, that shares can be given to"
        )


@dataclass(frozen=True)
class Grouping:
    """The groups that an attribute makes of filtered documents. by: see `ALLOWED`."""

    by: str

    @property
    def key(self) -> dict[str, Any]:
        """What a task that reads groups has in its key."""
        return {"by": self.by, "groups": VERSION}

    def objects(self, filtered_documents: Version) -> list[tuple[str, ...]]:
        """For every shard of one source's documents, in order, the objects that `read` reads: the documents first.

        Raises `ValueError` where the version lacks a part or its parts do not belong together.
        """
        documents = _objects(filtered_documents, "documents")
        if self.by != BUCKET:
            return [(shard,) for shard in documents]
        buckets = _objects(filtered_documents, "buckets")
        if len(buckets) != len(documents):
            raise ValueError(
                f"mixture.by: {filtered_documents.name} has {len(documents)} shards of documents and {len(buckets)} of "
                "buckets, so they do not belong together; materialize it again"
            )
        return list(zip(documents, buckets, strict=True))

    def read(self, inputs: Inputs, first: int = 0) -> pa.Table:
        """A row for each document of a shard: doc_id, and its group (large_string, never null).

        first: where the shard's `objects` begin among the inputs of the task. Raises `ValueError` where there are more
        than `MOST_GROUPS` of them.
        """
        if self.by == BUCKET:
            documents = inputs.table(first, ["doc_id"])
            values = _looked_up(documents["doc_id"], inputs.table(first + 1, ["doc_id", BUCKET]))
        elif field := METADATA.fullmatch(self.by):
            documents = inputs.table(first, ["doc_id", "metadata"])
            values = _fields(documents["metadata"], field[1])
        else:
            documents = inputs.table(first, ["doc_id", self.by])
            values = documents[self.by]
        groups = named(values)
        refuse_too_many(pc.count_distinct(groups).as_py(), self.by)
        return pa.table({"doc_id": documents["doc_id"], "group": groups})


def named(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The groups of documents with these values, row by row: no value, or an empty one, is the group `UNKNOWN`."""
    text = values.cast(pa.large_string())
    return pc.if_else(pc.equal(pc.fill_null(text, ""), ""), UNKNOWN, text).cast(pa.large_string())


def _objects(version: Version, part: str) -> list[str]:
    return [shard.object for shard in version.parts[part].shards] if part in version.parts else []


def _looked_up(doc_ids: pa.ChunkedArray, buckets: pa.Table) -> pa.ChunkedArray:
    """The bucket of each document. The table of buckets has a row for every document that was filtered."""
    rows = pc.index_in(doc_ids, value_set=buckets["doc_id"])
    if rows.null_count:
        raise ValueError(
            f"mixture.by: {rows.null_count} documents have no row in the buckets of their shard; materialize "
            "filtered_documents again"
        )
    return buckets[BUCKET].take(rows)


def _fields(metadata: pa.ChunkedArray, field: str) -> pa.ChunkedArray:
    """A field of each JSON object: a text as it is, anything else as JSON; null where it is null or not there."""
    return pa.chunked_array([[_field(text, field) for text in metadata.to_pylist()]], pa.large_string())


def _field(text: str | None, field: str) -> str | None:
    value = fields_of(text).get(field)
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
