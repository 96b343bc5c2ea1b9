"""The mixture as a stage: measures the documents of every source and plans how many tokens to take of each.

The counts are estimates, from text bytes; the blend counts again once the text is tokenized. The arithmetic is
`plan.py`'s.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import plan

VERSION = 2


def plan_mixture(filtered_documents: Dataset, config: MixtureParams, engine: Engine) -> Draft:
    """Plan the mixture of all sources from the bytes of their texts.

    filtered_documents: every source as a partition. The draft has the part `mixture` (schema MIXTURE), and in its
    stats the `request` (shares, token_budget, max_epochs) that the blend plans again with, from counted tokens.
    Raises `ValueError` when the shares name a source that is not there.
    """
    plan(dict.fromkeys(filtered_documents.partitions, 1), config.shares, config.token_budget, config.max_epochs)
    owners: list[str] = []
    tasks: list[Task] = []
    for version in filtered_documents.versions:
        part = version.parts.get("documents")
        for shard in part.shards if part else ():
            owners.append(version.partition)
            tasks.append(Task(measure, "mixture.measure", VERSION, {}, inputs=(shard.object,), rows=shard.rows))
    documents = dict.fromkeys(filtered_documents.partitions, 0)
    text_bytes = dict.fromkeys(filtered_documents.partitions, 0)
    for owner, measured in zip(owners, engine.map(tasks), strict=True):
        documents[owner] += measured.stats["documents"]
        text_bytes[owner] += measured.stats["bytes"]
    available = {source: estimated_tokens(size, config.bytes_per_token) for source, size in text_bytes.items()}
    request = {"shares": config.shares, "token_budget": config.token_budget, "max_epochs": config.max_epochs}
    # A list of pairs, because the order of the sources is the order of the rows.
    params = {**request, "available_tokens": [[source, tokens] for source, tokens in available.items()]}
    result = engine.run(Task(run_plan, "mixture.plan", VERSION, params, payload=params))
    return Draft(
        result.parts,
        {
            "documents_in": sum(documents.values()),
            "bytes_in": sum(text_bytes.values()),
            "sources": {source: {"documents": documents[source], "bytes": text_bytes[source]} for source in documents},
            "request": request,
            **result.stats,
        },
    )


def estimated_tokens(text_bytes: int, bytes_per_token: float) -> int:
    """Tokens of a text of so many UTF-8 bytes; at least 1 where there is any text."""
    return max(1, round(text_bytes / bytes_per_token)) if text_bytes else 0


def measure(inputs: Inputs, payload: None) -> Iterable[Made]:
    """Documents and text bytes of one shard; documents without text are not counted."""
    lengths = pc.binary_length(inputs.table(0, ["text"])["text"])
    filled = pc.sum(pc.greater(lengths, 0)).as_py() or 0
    yield Stats({"documents": filled, "bytes": pc.sum(lengths).as_py() or 0})


def run_plan(inputs: Inputs, payload: dict[str, Any]) -> Iterable[Made]:
    """The plan as a table, with its totals."""
    table: pa.Table = plan(
        dict(payload["available_tokens"]),
        payload["shares"],
        payload["token_budget"],
        payload["max_epochs"],
    )
    yield "mixture", table
    rows = table.to_pylist()
    yield Stats(
        {
            "planned_tokens": sum(row["planned_tokens"] for row in rows),
            "available_tokens": sum(row["available_tokens"] for row in rows),
            "wanted_shares": {row["source"]: row["wanted_share"] for row in rows},
            "planned_shares": {row["source"]: row["planned_share"] for row in rows},
            "notes": {row["source"]: row["note"] for row in rows if row["note"]},
        }
    )
