"""Filtered documents with attributes, in a store."""

import json

import pyarrow as pa

from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.schemas import BUCKET, DOCUMENTS


def documents(store, sources):
    """source → shards → documents, each a text or a dictionary of columns, with the perplexity bucket as `bucket`.

    Buckets are of the filtered documents and one more, which was dropped, in front.
    """
    versions = []
    for source, shards in sources.items():
        rows = [[row(source, (i, j), one) for j, one in enumerate(shard)] for i, shard in enumerate(shards)]
        written = [write_shard(store, "documents", table(one, DOCUMENTS)) for one in rows]
        dropped = {"doc_id": "dropped", "language": "en", "bucket": "tail"}
        buckets = [write_shard(store, "buckets", table([dropped, *one], BUCKET)) for one in rows]
        draft = Draft({"documents": Part("table", tuple(written)), "buckets": Part("table", tuple(buckets))})
        versions.append(seal(store, draft, asset="filtered_documents", partition=source))
    return Dataset("filtered_documents", tuple(versions), store)


def row(source, place, document):
    given = {"text": document} if isinstance(document, str) else document
    metadata = json.dumps(given["metadata"]) if "metadata" in given else None
    name = f"{source}{place[0]}{place[1]}"
    return {"doc_id": name, "source": source, "uri": f"f#{name}", "text": "x"} | given | {"metadata": metadata}


def table(rows, schema):
    return pa.table([[row.get(name) for row in rows] for name in schema.names], schema=schema)
