"""The blend: the mixture made exact from counted tokens, and the files that tell training what to read.

`blend.json` says which token shards, how many tokens of each group, and where a group's documents stand in the order
files (`order.py`) and packed files (`packing.py`), which are made shard by shard and know nothing of shares: another
mixture writes `blend.json` again, and nothing else. `training_dataset.py` reads all of it. How shares become token
counts is the mixture's planner, what group a document is in the mixture's grouping; both are handed in.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.dataset import Dataset, Draft, Part, Shard, Version
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Result, Task
from pipelines.histograms import added
from pipelines.schemas import MIXTURE
from pipelines.tokens import order, packing
from pipelines.tokens.blend_params import BlendParams
from pipelines.tokens.layout import BLEND_FORMAT, Run
from pipelines.tokens.order import ALL, Grouping, OrderWork
from pipelines.tokens.packing import PackingWork
from pipelines.tokens.shards import NAME_DIGITS
from pipelines.tokens.split import Side, Split, merged, to_hold, to_keep

VERSION = 2

SOURCE = "source"
"""The attribute that a mixture is by where its groups are the sources."""

Planner = Callable[[Mapping[str, int], Mapping[str, Any]], tuple[pa.Table, dict[str, Any]]]
"""From counted tokens and the mixture's stats to a table of schema MIXTURE and what is said of it:
`pipelines.mixture.plan.replan`."""


@dataclass(frozen=True)
class TokenShard:
    """A token shard before it is put in order. described: the table about it. others: what its grouping reads."""

    source: str
    bin: Shard
    idx: Shard
    described: Shard
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of its files, without an ending."""
        return self.bin.name.removesuffix(".bin")


def blend(
    training_mixture: Dataset,
    token_shards: Dataset,
    filtered_documents: Dataset,
    config: BlendParams,
    engine: Engine,
    planner: Planner,
    grouping: Callable[[str], Grouping],
) -> Draft:
    """Plan the mixture again from counted tokens and lay out what training reads.

    training_mixture: what was asked for, from its stats. token_shards: every source as a partition. filtered_documents:
    what they were made from, read where the mixture is not by source. grouping: from `mixture.by` to its grouping. The
    draft has the parts `mixture` (schema MIXTURE, counted) and `blend` (`blend.json`, and the order and packed files).
    Tokens of documents held out for validation are not available to the mixture. Laid out in one folder with the token
    files of all sources (`Dataset.folder`), it is a corpus for `BlendDataset`. Memory: one shard's table and ids per
    worker. Raises `ValueError` when sources were tokenized differently or two shards carry one name.
    """
    facts = _common_facts(token_shards)
    by = training_mixture.version.stats["request"].get("by", SOURCE)
    chosen = None if by == SOURCE else grouping(by)
    shards = _token_shards(token_shards, filtered_documents, chosen)
    ordered = _ordered(shards, chosen, np.dtype(facts["dtype"]).newbyteorder("<"), config, engine)
    packed = _packed(shards, ordered, config, engine) if config.packing == "best_fit" else []
    sides = merged(side for shard, result in zip(shards, ordered, strict=True) for side in _sides(shard, result))
    groups = ({} if chosen else dict.fromkeys(token_shards.partitions, 0)) | {n: s.tokens for n, s in sides.items()}
    table, told = planner(groups, training_mixture.version.stats)
    planned = table.to_pylist()
    content = {
        "version": BLEND_FORMAT,
        **{name: facts[name] for name in ("dtype", "vocabulary_size", "bos_id", "eos_id", "pad_id")},
        "seed": config.seed,
        "packing": config.packing,
        "sequence_length": config.sequence_length,
        "groups": [{"name": row["group"], "planned_tokens": row["planned_tokens"]} for row in planned],
        "shards": [
            _shard_entry(shard, result) | (_packed_entry(shard, result, packed[number]) if packed else {})
            for number, (shard, result) in enumerate(zip(shards, ordered, strict=True))
        ],
    }
    # The parts follow from these values alone, so they are the whole key.
    params = {"blend": content, "mixture": planned}
    result = engine.run(Task(run_blend, "tokens.blend", VERSION, params, payload=params))
    files = [shard for made in (result, *ordered, *packed) for shard in made.parts["blend"].shards]
    parts = {"mixture": result.parts["mixture"], "blend": Part("files", tuple(files))}
    stats = _stats(content, ordered, planned, config)
    if packed:
        stats |= _waste(shards, ordered, packed)
    stats["tokens_by_source"] = {version.partition: version.stats["tokens"] for version in token_shards.versions}
    stats["histograms"] = added(version.stats["histograms"] for version in token_shards.versions)
    return Draft(parts, stats | told | facts)


def run_blend(inputs: Inputs, payload: dict[str, Any]) -> Iterable[Made]:
    """Write the counted mixture and `blend.json`."""
    yield "mixture", pa.Table.from_pylist(payload["mixture"], schema=MIXTURE)
    text = json.dumps(payload["blend"], indent=1, ensure_ascii=False)
    yield "blend", File("blend.json", (text + "\n").encode())


def _common_facts(token_shards: Dataset) -> dict[str, Any]:
    """Vocabulary size, id type and special tokens, which all sources must share."""
    if not token_shards.versions:
        raise ValueError(f"{token_shards.asset} has no sources: there is nothing to blend")
    names = ("dtype", "vocabulary_size", "bos_id", "eos_id", "pad_id", "bos", "eos", "tokenizer")
    by_source = {version.partition: {n: version.stats.get(n) for n in names} for version in token_shards.versions}
    first, *others = by_source
    for other in others:
        if by_source[other] != by_source[first]:
            raise ValueError(
                f"{first} and {other} were tokenized with different tokenizers; tokenize all sources with the same one"
            )
    return by_source[first]


def _token_shards(token_shards: Dataset, filtered_documents: Dataset, grouping: Grouping | None) -> list[TokenShard]:
    """All token shards, in order, each with what is to be read of it."""
    found: list[TokenShard] = []
    for version in token_shards.versions:
        part = version.parts.get("token_documents")
        described = [shard for shard in (part.shards if part else ()) if shard.rows]
        pairs = _pairs(version)
        if len(described) != len(pairs):
            raise ValueError(
                f"{version.name} has {len(pairs)} token shards and {len(described)} tables about them: materialize "
                f"{version.name} again"
            )
        others = _documents(filtered_documents.of(version.partition).version, grouping) if grouping else {}
        for (bin_shard, idx_shard), table in zip(pairs, described, strict=True):
            name = bin_shard.name[:NAME_DIGITS]
            if grouping and name not in others:
                raise ValueError(
                    f"{version.name}: its token shard {bin_shard.name} was made from documents that "
                    f"{filtered_documents.asset} does not hold; run the full range of sources"
                )
            found.append(TokenShard(version.partition, bin_shard, idx_shard, table, others.get(name, ())))
    names = [shard.name for shard in found]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        sources = [shard.source for shard in found if shard.name == twice]
        raise ValueError(
            f"two token shards carry the name {twice} (of {' and of '.join(sources)}): the same documents stand in two "
            "places; leave one of them out of the sources, or turn on dedup.exact"
        )
    return found


def _documents(filtered_documents: Version, grouping: Grouping) -> dict[str, tuple[str, ...]]:
    """What the grouping reads, by the name of the token shard that was made from it."""
    return {objects[0][:NAME_DIGITS]: objects for objects in grouping.objects(filtered_documents)}


def _pairs(version: Version) -> list[tuple[Shard, Shard]]:
    """(.bin, .idx) of every token shard of a source, in order."""
    part = version.parts.get("tokens")
    shards = part.shards if part else ()
    pairs = list(zip(shards[::2], shards[1::2], strict=False))
    if len(shards) % 2 or any(b.name != f"{a.name.removesuffix('.bin')}.idx" for a, b in pairs):
        raise ValueError(
            f"{version.name}: its token files are not pairs of .bin and .idx: materialize {version.name} again"
        )
    return pairs


def _ordered(
    shards: Sequence[TokenShard], grouping: Grouping | None, kind: np.dtype, config: BlendParams, engine: Engine
) -> list[Result]:
    """Order files of all shards, made again where the split leaves a side of a small corpus empty; see `split.py`."""

    def task(shard: TokenShard, split: Split) -> Task:
        return Task(
            order.run_order,
            "tokens.order",
            order.VERSION,
            split.key | {"name": shard.name, "kind": kind.str, "grouping": grouping.key if grouping else None},
            (shard.described.object, shard.bin.object, *shard.others),
            payload=OrderWork(shard.name, kind, split, grouping),
            rows=shard.described.rows,
        )

    def groups(results: Sequence[Result]) -> dict[str, Side]:
        return merged(side for shard, result in zip(shards, results, strict=True) for side in _sides(shard, result))

    split = Split(config.validation_share, config.seed)
    results = engine.map([task(shard, split) for shard in shards])
    if keep := to_keep(groups(results)):
        split = split.keeping(keep)
        results = engine.map([task(shard, split) for shard in shards])
    if split.validation_share and not any(result.stats["validation"][1] for result in results):
        split = split.holding(to_hold(groups(results)))
        if split.hold:
            results = engine.map([task(shard, split) for shard in shards])
    return results


def _packed(
    shards: Sequence[TokenShard], ordered: Sequence[Result], config: BlendParams, engine: Engine
) -> list[Result]:
    """Packed files of all shards."""
    assert config.sequence_length is not None  # the parameters see to it
    tasks = []
    for shard, result in zip(shards, ordered, strict=True):
        runs = [*result.stats["groups"].values(), result.stats["validation"]]
        (file,) = result.parts["blend"].shards
        work = PackingWork(shard.name, config.sequence_length, shard.described.rows, tuple(Run(*run) for run in runs))
        params = {"name": shard.name, "sequence_length": config.sequence_length, "runs": runs}
        tasks.append(Task(packing.run_packing, "tokens.packing", packing.VERSION, params, (file.object,), payload=work))
    return engine.map(tasks)


def _sides(shard: TokenShard, ordered: Result) -> Iterable[tuple[str, Side]]:
    """What a shard has of each group."""
    for name, (_, _, tokens) in ordered.stats["groups"].items():
        lowest, highest = ordered.stats["ranks"][name]
        yield _named(shard, name), Side(ordered.stats["documents_by_group"][name], tokens, lowest, highest)


def _named(shard: TokenShard, group: str) -> str:
    return shard.source if group == ALL else group


def _shard_entry(shard: TokenShard, ordered: Result) -> dict[str, Any]:
    runs = [*ordered.stats["groups"].values(), ordered.stats["validation"]]
    return {
        "bin": shard.bin.name,
        "idx": shard.idx.name,
        "order": f"{shard.name}.order",
        "documents": shard.described.rows,
        "tokens": sum(tokens for _, _, tokens in runs),
        "groups": {_named(shard, name): run for name, run in ordered.stats["groups"].items()},
        "validation": ordered.stats["validation"],
    }


def _packed_entry(shard: TokenShard, ordered: Result, packed: Result) -> dict[str, Any]:
    told = packed.stats["runs"]
    firsts = np.cumsum([0, *(run["samples"] for run in told)]).tolist()
    runs = [[first, run["samples"]] for first, run in zip(firsts[:-1], told, strict=True)]
    names = [_named(shard, name) for name in ordered.stats["groups"]]
    return {
        "packed": {
            "file": f"{shard.name}.packed",
            "samples": firsts[-1],
            "pieces": sum(run["pieces"] for run in told),
            "groups": dict(zip(names, runs[:-1], strict=True)),
            "validation": runs[-1],
        }
    }


def _waste(
    shards: Sequence[TokenShard], ordered: Sequence[Result], packed: Sequence[Result]
) -> dict[str, dict[str, Any]]:
    """What packing wastes of one epoch, by group, and of what is held out, for a group may have any name."""
    groups: dict[str, Counter[str]] = {}
    held: Counter[str] = Counter()
    for shard, order_made, packs in zip(shards, ordered, packed, strict=True):
        *runs, validation = packs.stats["runs"]
        held.update(validation)
        for name, told in zip(order_made.stats["groups"], runs, strict=True):
            groups.setdefault(_named(shard, name), Counter()).update(told)
    return {"waste": {name: dict(told) for name, told in groups.items()}, "validation_waste": dict(held)}


def _stats(
    content: Mapping[str, Any], ordered: Sequence[Result], planned: list[dict[str, Any]], config: BlendParams
) -> dict[str, Any]:
    shards = content["shards"]
    trained = sum(sum(result.stats["documents_by_group"].values()) for result in ordered)
    held = sum(result.stats["validation_documents"] for result in ordered)
    off = {
        row["group"]: f"wanted {row['wanted_share']:.4f}, realised {row['planned_share']:.4f}"
        for row in planned
        if abs(row["wanted_share"] - row["planned_share"]) > config.share_tolerance
        or (row["wanted_share"] and not row["planned_tokens"])
    }
    return {
        "documents_in": trained + held,
        "documents_out": trained + held,
        "dropped": {},
        "pieces": sum(shard["documents"] for shard in shards),
        "training_documents": trained,
        "validation_documents": held,
        "training_tokens": sum(row["available_tokens"] for row in planned),
        "validation_tokens": sum(shard["validation"][2] for shard in shards),
        "tokens": sum(row["planned_tokens"] for row in planned),
        "shares_off": off,
    }
