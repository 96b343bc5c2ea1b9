"""Corpora laid out by hand, for the tests of what training reads: every token is another number."""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from pipelines.tokens.layout import order_bytes, packed_bytes
from pipelines.tokens.packing import pack


def lay_out(
    folder: Path,
    groups: Mapping[str, Sequence[int]],
    planned: Mapping[str, int],
    held: Collection[tuple[str, int]] = (),
    shard_documents: int = 3,
    packed_for: int | None = None,
) -> dict[str, list[list[int]]]:
    """Write a blend and its files. groups: name → tokens of its documents. held: (group, document) for validation.

    Gives the documents of each group, and of 'validation'.
    """
    folder.mkdir(parents=True)
    documents: dict[str, list[list[int]]] = {"validation": []}
    shards, token = [], 0
    for name, lengths in groups.items():
        documents[name] = []
        for start in range(0, len(lengths), shard_documents):
            made = []
            for index, length in enumerate(lengths[start : start + shard_documents], start):
                made.append((list(range(token, token + length)), (name, index) in held))
                documents["validation" if made[-1][1] else name].append(made[-1][0])
                token += length
            shards.append(_shard(folder, f"{name}{start}", name, made, packed_for))
    content = {
        "version": 2, "dtype": "int32", "vocabulary_size": token + 1, "bos_id": None, "eos_id": token, "pad_id": None,
        "seed": 7, "packing": "best_fit" if packed_for else "concatenate", "sequence_length": packed_for,
        "groups": [{"name": name, "planned_tokens": planned[name]} for name in groups], "shards": shards,
    }  # fmt: skip
    (folder / "blend.json").write_text(json.dumps(content))
    return documents


def _shard(folder: Path, stem: str, name: str, made: list[tuple[list[int], bool]], packed_for: int | None) -> dict:
    base = made[0][0][0]
    (folder / f"{stem}.bin").write_bytes(np.concatenate([ids for ids, _ in made]).astype("<i4").tobytes())
    sides = [[ids for ids, held in made if held == side] for side in (False, True)]
    starts = [np.array([ids[0] - base for ids in side], np.int64) for side in sides]
    lengths = [np.array([len(ids) for ids in side], np.int64) for side in sides]
    ends = np.concatenate([np.cumsum(some) for some in lengths])
    (folder / f"{stem}.order").write_bytes(order_bytes(np.concatenate(starts), ends))
    runs = [
        [0, len(sides[0]), int(lengths[0].sum())],
        [len(sides[0]), len(sides[1]), int(lengths[1].sum())],
    ]
    shard = {
        "bin": f"{stem}.bin", "idx": f"{stem}.idx", "order": f"{stem}.order", "documents": len(made),
        "tokens": int(sum(map(sum, lengths))), "groups": {name: runs[0]}, "validation": runs[1],
    }  # fmt: skip
    if packed_for:
        packs = [pack(some, size, packed_for) for some, size in zip(starts, lengths, strict=True)]
        (folder / f"{stem}.packed").write_bytes(packed_bytes(packs))
        samples = [len(packed.firsts) - 1 for packed in packs]
        shard["packed"] = {
            "file": f"{stem}.packed", "samples": sum(samples), "pieces": sum(len(packed.begins) for packed in packs),
            "groups": {name: [0, samples[0]]}, "validation": samples,
        }  # fmt: skip
    return shard
