"""The mixture as a stage: measures the documents of every group and plans how many tokens to take of each.

The counts are estimates, from a sample of the text; the blend counts again once the text is tokenized. The arithmetic
is `plan.py`'s, the groups are `groups.py`'s.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.histograms import text_bytes
from pipelines.mixture.estimate import estimated_tokens
from pipelines.mixture.groups import BUCKET, BUCKETS, METADATA, SOURCE, UNKNOWN, Grouping, refuse_too_many
from pipelines.mixture.params import MixtureParams
from pipelines.mixture.plan import plan, refuse_unknown_groups, told_of

VERSION = 3

STAGE = "mixture.measure"

SAMPLE_BYTES = 1 << 18
"""Text of each group of a shard that is looked at, 256 KiB: of documents in the order of their ids, hashes."""


@dataclass
class Measured:
    """What is known of a group, or of a part of it. tokens: an estimate, end-of-document tokens included."""

    documents: int = 0
    bytes: int = 0
    tokens: Fraction = Fraction(0)

    def add(self, found: dict[str, Any]) -> None:
        """Add the counts of one shard (`measure`)."""
        per_byte = Fraction(found["sample_tokens"]) / found["sample_bytes"] if found["sample_bytes"] else Fraction(0)
        self.documents += found["documents"]
        self.bytes += found["bytes"]
        self.tokens += found["documents"] + found["bytes"] * per_byte


def plan_mixture(filtered_documents: Dataset, config: MixtureParams, engine: Engine) -> Draft:
    """Plan the mixture of all groups from the bytes of their texts.

    filtered_documents: every source as a partition. The draft has the part `mixture` (schema MIXTURE), and in its
    stats the `request`, the parameters that the blend plans again with, from counted tokens. Groups stand in the order
    of the sources where they are the sources, else in that of their names. Memory: the groups' names and counts.
    Raises `ValueError` when a parameter names a group that is not there, and where there are too many of them.
    """
    groups: dict[str, Measured] = {}
    if config.by == SOURCE:  # known before anything is read
        groups = {name: Measured() for name in filtered_documents.partitions}
        refuse_unknown_groups(groups, config)
    if config.by == BUCKET:  # there are these, if no document is in one of them
        named = {name for names in config.naming_groups.values() for name in names}
        groups = {name: Measured() for name in (*BUCKETS, UNKNOWN) if name in named}
    sources = {name: Measured() for name in filtered_documents.partitions}
    for source, measured in _measured(filtered_documents, Grouping(config.by), engine):
        for name, found in measured.items():
            groups.setdefault(source if config.by == SOURCE else name, Measured()).add(found)
            sources[source].add(found)
    if config.by != SOURCE:
        refuse_too_many(len(groups), config.by)
        if METADATA.fullmatch(config.by) and list(groups) == [UNKNOWN]:
            raise ValueError(f"mixture.by: no document has {config.by}; see how the field is written")
        groups = dict(sorted(groups.items()))
        refuse_unknown_groups(groups, config)
    available = {name: _tokens(name, found, config) for name, found in groups.items()}
    request = config.model_dump(mode="json")
    # A list of pairs, because the order of the groups is the order of the rows.
    params = {"request": request, "available_tokens": [[name, tokens] for name, tokens in available.items()]}
    result = engine.run(Task(run_plan, "mixture.plan", VERSION, params, payload=params))
    return Draft(
        result.parts,
        {
            "documents_in": sum(found.documents for found in sources.values()),
            "bytes_in": sum(found.bytes for found in sources.values()),
            "sources": _counts(sources),
            **({} if config.by == SOURCE else {"groups": _counts(groups)}),
            "request": request,
            "estimated_tokens": available,
            "bytes_per_token": {name: found.bytes / available[name] for name, found in groups.items() if found.bytes},
            **result.stats,
        },
    )


def measure(inputs: Inputs, grouping: Grouping) -> Iterable[Made]:
    """Documents, text bytes and a sample's tokens of each group of one shard; documents without text don't count.

    Where groups are the sources the one group of a shard has no name here: the shard does not depend on it.
    """
    documents = inputs.table(0, ["doc_id", "text"])
    sizes = text_bytes(documents["text"])
    by_hash = np.asarray(pc.sort_indices(documents["doc_id"]))
    by_hash = by_hash[sizes[by_hash] > 0]
    yield Stats(
        {
            name: {
                "documents": len(rows),
                "bytes": int(sizes[rows].sum()),
                **_sampled(documents["text"], rows, sizes),
            }
            for name, rows in _rows_of_groups(inputs, grouping, by_hash)
        }
    )


def run_plan(inputs: Inputs, payload: dict[str, Any]) -> Iterable[Made]:
    """The plan as a table, with its totals."""
    asked = MixtureParams.model_validate(payload["request"])
    table = plan(dict(payload["available_tokens"]), asked)
    yield "mixture", table
    rows = table.to_pylist()
    yield Stats(
        {
            "planned_tokens": sum(row["planned_tokens"] for row in rows),
            "available_tokens": sum(row["available_tokens"] for row in rows),
            **told_of(rows, asked),
        }
    )


def _measured(filtered_documents: Dataset, grouping: Grouping, engine: Engine) -> Iterator[tuple[str, dict[str, Any]]]:
    """(source, what `measure` found) of every shard."""
    owners: list[str] = []
    tasks: list[Task] = []
    for version in filtered_documents.versions:
        shards = version.parts["documents"].shards if "documents" in version.parts else ()
        for shard, objects in zip(shards, grouping.objects(version), strict=True):
            owners.append(version.partition)
            tasks.append(Task(measure, STAGE, VERSION, grouping.key, objects, payload=grouping, rows=shard.rows))
    return zip(owners, (result.stats for result in engine.map(tasks)), strict=True)


def _rows_of_groups(
    inputs: Inputs, grouping: Grouping, rows: npt.NDArray[np.int64]
) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """(group, those of the rows that are in it, in their order)."""
    if grouping.by == SOURCE:
        yield "", rows
        return
    coded = pc.dictionary_encode(grouping.read(inputs)["group"].combine_chunks())
    codes = np.asarray(coded.indices)[rows]
    for code, name in enumerate(coded.dictionary.to_pylist()):
        members = rows[codes == code]
        if len(members):
            yield name, members


def _sampled(texts: pa.ChunkedArray, rows: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Bytes and estimated tokens of the first texts among these rows."""
    room, tokens = SAMPLE_BYTES, 0.0
    for row in rows.tolist():
        text = texts[row].as_buffer().to_pybytes()[:room]
        tokens += estimated_tokens(text)
        room -= len(text)
        if not room:
            break
    return {"sample_bytes": SAMPLE_BYTES - room, "sample_tokens": round(tokens, 1)}


def _tokens(name: str, found: Measured, config: MixtureParams) -> int:
    """Tokens of a group, estimated; at least 1 where there is any text."""
    known = config.bytes_per_token.get(name)
    tokens = found.tokens if known is None else found.bytes / Fraction(str(known))
    return max(1, round(tokens)) if found.bytes else 0


def _counts(measured: dict[str, Measured]) -> dict[str, dict[str, int]]:
    return {name: {"documents": found.documents, "bytes": found.bytes} for name, found in measured.items()}
