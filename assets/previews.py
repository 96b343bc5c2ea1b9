"""A few texts of a dataset, so that people can see what a stage gives. The profile says where they go."""

import html
import json
from typing import Any, Literal

import dagster as dg

from pipelines.dataset import Dataset, read_table

TEXTS = 3
CHARACTERS = 240


def preview_metadata(made: Dataset, where: Literal["ui", "store", "off"]) -> dict[str, Any]:
    """Metadata with samples of one partition's documents ('ui'), or with the name of the object that holds them."""
    shard = next((shard for shard in made.shards("documents") if shard.rows), None)
    if where == "off" or shard is None:
        return {}
    table = read_table(made.store, shard.object, ["uri", "text"]).slice(0, TEXTS)
    samples = [
        {"uri": uri, "text": text[:CHARACTERS]}
        for uri, text in zip(table["uri"].to_pylist(), table["text"].to_pylist(), strict=True)
    ]
    if where == "store":
        return {"preview": f"object {made.store.put(json.dumps(samples, ensure_ascii=False).encode())}"}
    told = "\n\n".join(f"**{html.escape(s['uri'])}**\n\n<pre>{html.escape(s['text'])}</pre>" for s in samples)
    return {"preview": dg.MarkdownMetadataValue(told)}
