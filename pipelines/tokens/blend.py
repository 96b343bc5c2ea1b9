"""The blend: the mixture made exact from counted tokens, and the one file that tells training what to read.

`training_dataset.py` reads `blend.json` beside the token files. How shares become token counts is the mixture's
planner, handed in as a function.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from pipelines.dataset import Dataset, Draft, Version
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Task
from pipelines.schemas import MIXTURE
from pipelines.tokens import split
from pipelines.tokens.params import BlendParams
from pipelines.tokens.split import HeldOut, SplitWork

VERSION = 1
BLEND_FORMAT = 1

Planner = Callable[[Mapping[str, int], Mapping[str, float], int, float], pa.Table]
"""From available tokens, shares, budget and most epochs to a table of schema MIXTURE: `pipelines.mixture.plan.plan`."""


def blend(
    training_mixture: Dataset, token_shards: Dataset, config: BlendParams, engine: Engine, planner: Planner
) -> Draft:
    """Plan the mixture again from counted tokens and lay out what training reads.

    training_mixture: what was asked for, from its stats. token_shards: every source as a partition. The draft has the
    parts `mixture` (schema MIXTURE, counted) and `blend` (`blend.json`). Tokens of documents held out for validation
    are not available to the mixture. Laid out in one folder with the token files of all sources
    (`Dataset.folder`), it is a corpus for `BlendDataset`. Memory: the index of held-out documents.
    Raises `ValueError` when sources were tokenized differently or two shards carry one name.
    """
    facts = _common_facts(token_shards)
    layout = _layout(token_shards, config, engine)
    available = {
        name: sum(shard["tokens"] - shard["validation_tokens"] for shard in shards) for name, shards in layout.items()
    }
    request = training_mixture.version.stats["request"]
    planned = planner(available, request["shares"], request["token_budget"], request["max_epochs"]).to_pylist()
    content = {
        "version": BLEND_FORMAT,
        **facts,
        "seed": config.seed,
        "validation_share": config.validation_share,
        "sources": [
            {
                "name": row["source"],
                "planned_tokens": row["planned_tokens"],
                "epochs": row["epochs"],
                "training_tokens": row["available_tokens"],
                "shards": layout[row["source"]],
            }
            for row in planned
        ],
    }
    # The parts follow from these values alone, so they are the whole key.
    params = {"blend": content, "mixture": planned}
    result = engine.run(Task(run_blend, "tokens.blend", VERSION, params, payload=params))
    return Draft(result.parts, _stats(layout, planned, config) | facts)


def run_blend(inputs: Inputs, payload: dict[str, Any]) -> Iterable[Made]:
    """Write the counted mixture and `blend.json`."""
    yield "mixture", pa.Table.from_pylist(payload["mixture"], schema=MIXTURE)
    text = json.dumps(payload["blend"], indent=1, ensure_ascii=False)
    yield "blend", File("blend.json", (text + "\n").encode())


def _common_facts(token_shards: Dataset) -> dict[str, Any]:
    """Vocabulary size, id type and end token, which all sources must share."""
    if not token_shards.versions:
        raise ValueError(f"{token_shards.asset} has no sources: there is nothing to blend")
    by_source = {
        version.partition: {name: version.stats[name] for name in ("dtype", "vocabulary_size", "eos_id", "tokenizer")}
        for version in token_shards.versions
    }
    first, *others = by_source
    for other in others:
        if by_source[other] != by_source[first]:
            raise ValueError(
                f"{first} and {other} were tokenized with different tokenizers; tokenize all sources with the same one"
            )
    return by_source[first]


def _layout(token_shards: Dataset, config: BlendParams, engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Files, counts and held-out documents of every shard, by source."""
    work = SplitWork(config.validation_share, config.seed)
    params = {"validation_share": config.validation_share, "seed": config.seed}
    tasks: list[Task] = []
    files: dict[str, list[tuple[str, str]]] = {}
    for version in token_shards.versions:
        files[version.partition] = _pairs(version)
        part = version.parts.get("token_documents")
        shards = [shard for shard in (part.shards if part else ()) if shard.rows]
        if len(shards) != len(files[version.partition]):
            raise ValueError(
                f"{token_shards.asset}[{version.partition}] has {len(files[version.partition])} token shards and "
                f"{len(shards)} tables about them"
            )
        tasks += [
            Task(split.run_split, "tokens.split", split.VERSION, params, (shard.object,), payload=work, rows=shard.rows)
            for shard in shards
        ]
    names = [name for pairs in files.values() for pair in pairs for name in pair]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two token shards carry the name {twice}: the same documents stand in two places")
    results = iter(engine.map(tasks))
    split_by_source = {name: [split.held_out(next(results).stats) for _ in pairs] for name, pairs in files.items()}
    settled = split.settle(split_by_source, config.validation_share)
    return {
        name: [_shard_entry(pair, shard) for pair, shard in zip(files[name], settled[name], strict=True)]
        for name in files
    }


def _pairs(version: Version) -> list[tuple[str, str]]:
    """(.bin, .idx) of every token shard of a source, in order."""
    part = version.parts.get("tokens")
    names = [shard.name for shard in (part.shards if part else ())]
    pairs = list(zip(names[::2], names[1::2], strict=False))
    if len(names) % 2 or any(b != f"{a.removesuffix('.bin')}.idx" for a, b in pairs):
        raise ValueError(f"{version.asset}[{version.partition}]: its token files are not pairs of .bin and .idx")
    return pairs


def _shard_entry(pair: tuple[str, str], shard: HeldOut) -> dict[str, Any]:
    return {
        "bin": pair[0],
        "idx": pair[1],
        "documents": shard.documents,
        "tokens": shard.tokens,
        "validation_documents": list(shard.places),
        "validation_tokens": sum(shard.lengths),
    }


def _stats(
    layout: Mapping[str, list[dict[str, Any]]], planned: list[dict[str, Any]], config: BlendParams
) -> dict[str, Any]:
    shards = [shard for source in layout.values() for shard in source]
    documents = sum(shard["documents"] for shard in shards)
    held = sum(len(shard["validation_documents"]) for shard in shards)
    off = {
        row["source"]: f"wanted {row['wanted_share']:.4f}, realised {row['planned_share']:.4f}"
        for row in planned
        if abs(row["wanted_share"] - row["planned_share"]) > config.share_tolerance
    }
    return {
        "documents_in": documents,
        "documents_out": documents,
        "dropped": {},
        "training_documents": documents - held,
        "validation_documents": held,
        "training_tokens": sum(row["available_tokens"] for row in planned),
        "validation_tokens": sum(shard["validation_tokens"] for shard in shards),
        "tokens": sum(row["planned_tokens"] for row in planned),
        "wanted_shares": {row["source"]: row["wanted_share"] for row in planned},
        "realised_shares": {row["source"]: row["planned_share"] for row in planned},
        "epochs": {row["source"]: row["epochs"] for row in planned},
        "shares_off": off,
        "notes": {row["source"]: row["note"] for row in planned if row["note"]},
    }
