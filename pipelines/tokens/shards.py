"""Token shards: one task per shard of documents, one `.bin` and one `.idx` each, with a table of what is in them.

The file format is `indexed.py`'s, text to ids is `encode.py`'s.
"""

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tokenizers import Tokenizer

from pipelines.dataset import Dataset, Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Stats, Task
from pipelines.histograms import SIZE_EDGES, added, histogram
from pipelines.schemas import TOKEN_DOCUMENTS
from pipelines.tokens.encode import encode, id_space, library_threads, load_tokenizer, texts
from pipelines.tokens.indexed import index_bytes, token_type
from pipelines.tokens.params import TokenizeParams

VERSION = 2

NAME_DIGITS = 16
"""Hex digits of the documents' object hash that name a shard's files: the same wherever the shard stands."""

REASONS = ("empty", "invalid_utf8", "no_tokens")
"""Why a document has no tokens: no text, bytes that are no text, or nothing left after the tokenizer's normaliser."""


def tokenize(filtered_documents: Dataset, tokenizer: Dataset, config: TokenizeParams, engine: Engine) -> Draft:
    """Encode the documents of one source, shard by shard.

    The draft has the part `tokens` (kind tokens: `<name>.bin` with rows = documents, then `<name>.idx`; the name comes
    from the content of the documents' shard, so that a shard keeps it when others come or go) and the part
    `token_documents` (schema TOKEN_DOCUMENTS, one table per pair of files, in the same order). A shard without a single
    token gives neither. Memory: one shard's text and ids per worker.
    """
    files = {shard.name: shard.object for shard in tokenizer.shards("tokenizer")}
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if name not in files:
            raise ValueError(f"{tokenizer.asset} holds no {name}; it holds: {', '.join(files) or 'nothing'}")
    broadcast = (files["tokenizer.json"], files["tokenizer_config.json"])
    params = config.model_dump() | {"tokenizers": version("tokenizers")}
    tasks = [
        Task(
            run_tokenize,
            "tokens.shards",
            VERSION,
            params,
            inputs=(shard.object,),
            broadcast=broadcast,
            payload=(config, shard.object[:NAME_DIGITS]),
            rows=shard.rows,
        )
        for shard in filtered_documents.shards("documents")
    ]
    results = engine.map(tasks)
    parts = join_parts([result.parts for result in results])
    totals = {
        name: sum(result.stats[name] for result in results)
        for name in ("documents_in", "documents_out", "bytes_in", "bytes_out", "tokens")
    }
    dropped = {reason: sum(result.stats["dropped"][reason] for result in results) for reason in REASONS}
    return Draft(
        {"tokens": Part("tokens", ()), "token_documents": Part("table", ())} | parts,
        {
            **totals,
            "dropped": dropped,
            "histograms": added(result.stats["histograms"] for result in results),
            "bytes_per_token": totals["bytes_out"] / totals["tokens"] if totals["tokens"] else 0.0,
            **_tokenizer_facts(tokenizer.store.path(broadcast[0]), tokenizer.store.path(broadcast[1]), tokenizer.asset),
            "tokenizer": files["tokenizer.json"],
        },
    )


def run_tokenize(inputs: Inputs, payload: tuple[TokenizeParams, str]) -> Iterable[Made]:
    """The token files, the table and the counts of one shard of documents."""
    config, name = payload
    table = inputs.table(0, ["doc_id", "text"])
    encoder = load_tokenizer(inputs.broadcast_path(0))
    vocabulary_size = id_space(encoder)
    kind = token_type(vocabulary_size)
    sizes = np.asarray(pc.fill_null(pc.binary_length(table["text"]), 0)).astype(np.int64)
    readable = list(texts(table["text"]))
    with library_threads():
        ids, counts = encode(encoder, [text or "" for text in readable], kind)
    invalid = np.array([text is None for text in readable], dtype=bool)
    kept = counts > 0
    dropped = {
        "empty": int(np.count_nonzero(sizes == 0)),
        "invalid_utf8": int(np.count_nonzero(invalid & (sizes > 0))),
        "no_tokens": int(np.count_nonzero(~kept & ~invalid & (sizes > 0))),
    }
    lengths = counts[kept]
    if config.append_eos:
        ids = with_end_token(ids, lengths, end_token(encoder, inputs.broadcast_path(1)))
        lengths = lengths + 1
    if len(table) != len(lengths) + sum(dropped.values()):
        raise ValueError(f"token shard {name}: {len(table)} documents in, {len(lengths)} kept and {dropped} dropped")
    if int(lengths.sum()) != len(ids) or (len(ids) and int(ids.max()) >= vocabulary_size):
        raise ValueError(f"token shard {name}: {len(ids)} ids do not fit the lengths {int(lengths.sum())} in all")
    if len(lengths):
        yield "tokens", File(f"{name}.bin", ids.tobytes(), kind="tokens", rows=len(lengths))
        yield "tokens", File(f"{name}.idx", index_bytes(lengths, kind), kind="tokens")
        yield (
            "token_documents",
            pa.table(
                {"doc_id": table["doc_id"].filter(pa.array(kept)), "tokens": lengths, "bytes": sizes[kept]},
                schema=TOKEN_DOCUMENTS,
            ),
        )
    yield Stats(
        {
            "documents_in": len(table),
            "documents_out": len(lengths),
            "bytes_in": int(sizes.sum()),
            "bytes_out": int(sizes[kept].sum()),
            "tokens": len(ids),
            "dropped": dropped,
            "histograms": {"tokens per document": histogram(SIZE_EDGES, documents=lengths)},
        }
    )


def with_end_token(ids: np.ndarray, lengths: np.ndarray, end_id: int) -> np.ndarray:
    """The ids of documents of these lengths with `end_id` after each document."""
    ended = np.full(len(ids) + len(lengths), end_id, ids.dtype)
    is_text = np.ones(len(ended), dtype=bool)
    is_text[np.cumsum(lengths + 1) - 1] = False
    ended[is_text] = ids
    return ended


def end_token(tokenizer: Tokenizer, config_path: Path) -> int:
    """Id of the end-of-text token that `tokenizer_config.json` names. Raises `ValueError` when there is none."""
    named = json.loads(config_path.read_text(encoding="utf-8")).get("eos_token")
    text = named.get("content") if isinstance(named, dict) else named
    found = tokenizer.token_to_id(text) if text else None
    if found is None:
        raise ValueError(f"tokenizer_config.json names the end-of-text token {text!r}, which tokenizer.json lacks")
    return found


def _tokenizer_facts(tokenizer_path: Path, config_path: Path, asset: str) -> dict[str, Any]:
    """What readers of the token files must know, the same for every shard."""
    tokenizer = load_tokenizer(tokenizer_path)
    size = id_space(tokenizer)
    if not size:
        raise ValueError(f"{asset} has an empty vocabulary")
    return {"vocabulary_size": size, "eos_id": end_token(tokenizer, config_path), "dtype": token_type(size).name}
