"""Token shards: one task per shard of documents, one `.bin` and one `.idx` each, with a table of what is in them.

The file format is `indexed.py`'s, text to ids is `encode.py`'s.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Result, Stats, Task
from pipelines.histograms import SIZE_EDGES, added, histogram
from pipelines.schemas import TOKEN_DOCUMENTS
from pipelines.scratch import working_folder
from pipelines.tokens.boundaries import Boundaries, boundaries, cut, surrounded
from pipelines.tokens.encode import encode, texts
from pipelines.tokens.engines import FAST, EngineFailed, engine_version, opened, reference
from pipelines.tokens.indexed import index_bytes
from pipelines.tokens.parity import Choice, choose, distrust, fallen_back, first_difference, sample, told_of
from pipelines.tokens.tokenize_params import TokenizeParams

VERSION = 3

NAME_DIGITS = 16
"""Hex digits of the documents' object hash that name a shard's files: the same wherever the shard stands."""

REASONS = ("empty", "invalid_utf8", "no_tokens", "too_long")
"""Why a document has no tokens: no text, bytes that are no text, nothing left after the tokenizer's normaliser, or more
tokens than `longest_document` where such are dropped."""

BATCH_BYTES = 8 << 20
"""Text read at a time. Python holds the strings of one batch."""

THREADS = 16
"""Up to so many workers are threads, which share one loaded tokenizer and start at once. More are processes: the lock
of the interpreter, held while texts are handed over, would be their limit."""


@dataclass(frozen=True)
class Work:
    """How a shard is done. name: of its files. rows: documents in it."""

    config: TokenizeParams
    layout: Boundaries
    engine: str
    name: str
    rows: int


def tokenize(filtered_documents: Dataset, tokenizer: Dataset, config: TokenizeParams, engine: Engine) -> Draft:
    """Encode the documents of one source, shard by shard.

    The draft has the part `tokens` (kind tokens: `<name>.bin` with rows = documents, then `<name>.idx`; the name comes
    from the content of the documents' shard, so that a shard keeps it when others come or go) and the part
    `token_documents` (schema TOKEN_DOCUMENTS, one table per pair of files, in the same order). A shard without a single
    token gives neither. Memory: a batch of text and its ids per worker.

    A fast engine is used as long as its ids are those of `tokenizers`, for the tokenizer and for a sample of every
    shard. One difference, and no shard is taken from it: all are encoded by `tokenizers`, and so is every other source
    from then on.
    """
    files = {shard.name: shard.object for shard in tokenizer.shards("tokenizer")}
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if name not in files:
            raise ValueError(f"{tokenizer.asset} holds no {name}; it holds: {', '.join(files) or 'nothing'}")
    path, config_path = (tokenizer.store.path(files[name]) for name in ("tokenizer.json", "tokenizer_config.json"))
    layout = boundaries(reference(path).tokenizer, config_path, config)
    choice = choose(config, files["tokenizer.json"], engine)

    def encoded(choice: Choice) -> list[Result]:
        return engine.map(
            [
                Task(
                    run_tokenize,
                    "tokens.shards",
                    VERSION,
                    config.model_dump(include={"longest_document", "long_documents"}) | _key(layout) | choice.key,
                    inputs=(shard.object,),
                    broadcast=(files["tokenizer.json"],),
                    payload=Work(config, layout, choice.engine, shard.object[:NAME_DIGITS], shard.rows),
                    rows=shard.rows,
                    in_threads=choice.engine == FAST and engine.workers <= THREADS,
                )
                for shard in filtered_documents.shards("documents")
            ]
        )

    results = encoded(choice)
    if different := [result.stats["difference"] for result in results if "difference" in result.stats]:
        why = f"{different[0]} in {filtered_documents.versions[0].name}"
        distrust(files["tokenizer.json"], why, engine)
        choice = fallen_back(config, why, differs=True)
        results = encoded(choice)
    parts = join_parts([result.parts for result in results])
    totals = {
        name: sum(result.stats[name] for result in results)
        for name in ("documents_in", "documents_out", "pieces", "bytes_in", "bytes_out", "tokens")
    }
    dropped = {reason: sum(result.stats["dropped"][reason] for result in results) for reason in REASONS}
    return Draft(
        {"tokens": Part("tokens", ()), "token_documents": Part("table", ())} | parts,
        {
            **totals,
            "dropped": dropped,
            "histograms": added(result.stats["histograms"] for result in results),
            "bytes_per_token": totals["bytes_out"] / totals["tokens"] if totals["tokens"] else 0.0,
            **layout.facts,
            "dtype": layout.kind.name,
            "engine": f"{choice.engine} {engine_version(choice.engine)}",
            **({"engine_because": choice.why} if choice.why else {}),
            **({"attention": _told(choice.why)} if choice.differs else {}),
            "tokenizer": files["tokenizer.json"],
        },
    )


def run_tokenize(inputs: Inputs, work: Work) -> Iterable[Made]:
    """The token files, the table and the counts of one shard of documents; only the difference where the fast engine's
    ids are not those of `tokenizers`, so that none of its ids is stored."""
    with working_folder(inputs.store, "tokens") as folder:
        shard = TokenShard(inputs, work)
        path = folder / f"{work.name}.bin"
        try:
            with path.open("wb") as file:
                for batch in inputs.batches(0, ["doc_id", "text"], BATCH_BYTES):
                    shard.add(batch, file)
        except EngineFailed as error:
            shard.difference = str(error)
        if shard.difference is not None:
            yield Stats({"difference": shard.difference})
            return
        shard.check(path)
        lengths = shard.lengths
        if len(lengths):
            yield "tokens", File(path.name, path, kind="tokens", rows=len(lengths))
            yield "tokens", File(f"{work.name}.idx", index_bytes(lengths, shard.layout.kind), kind="tokens")
            yield "token_documents", pa.concat_tables(shard.tables)
        yield Stats(shard.stats())


class TokenShard:
    """One shard while it is made: what is written so far, counted."""

    def __init__(self, inputs: Inputs, work: Work) -> None:
        path = inputs.broadcast_path(0)
        self.work, self.layout = work, work.layout
        self.encoder = opened(work.engine, path)
        self.slow = reference(path) if work.engine == FAST else None
        self.difference: str | None = None
        self.tables: list[pa.Table] = []
        self.histograms = [_histogram(np.empty(0, np.int64))]
        self.dropped = dict.fromkeys(REASONS, 0)
        self.documents_in = self.documents_out = self.bytes_in = self.bytes_out = self.tokens = 0

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of everything that is written, by document or piece of one."""
        return (
            np.concatenate([np.asarray(table["tokens"]) for table in self.tables]) if self.tables else np.empty(0, int)
        )

    def add(self, batch: pa.RecordBatch, file: BinaryIO) -> None:
        """Encode a batch of documents and write its ids. Raises `EngineFailed`."""
        kind, config = self.layout.kind, self.work.config
        sizes = np.asarray(pc.fill_null(pc.binary_length(batch["text"]), 0)).astype(np.int64)
        found = texts(batch["text"])
        readable = [text or "" for text in found]
        if self.slow is not None and self.difference is None:
            chosen = sample(readable, self.work.rows, self.documents_in)
            different = first_difference(list(chosen.values()), self.encoder, self.slow)
            if different is not None:  # named by its id: its text is not ours to show
                self.difference = told_of(f"document {batch['doc_id'][list(chosen)[different]]}")
        if self.difference is not None:
            return
        ids, counts = encode(self.encoder, readable, kind)
        invalid = np.array([text is None for text in found], dtype=bool)
        kept, full = counts > 0, sizes > 0
        around = (self.layout.before is not None) + (self.layout.after is not None)
        if config.long_documents == "drop":
            long = kept & (counts + around > config.longest_document)
            ids, kept = ids[np.repeat(~long, counts)], kept & ~long
            self.dropped["too_long"] += int(np.count_nonzero(long))
        self.dropped["empty"] += int(np.count_nonzero(~full))
        self.dropped["invalid_utf8"] += int(np.count_nonzero(invalid & full))
        self.dropped["no_tokens"] += int(np.count_nonzero((counts == 0) & ~invalid & full))
        ids, lengths = surrounded(ids, counts[kept], self.layout.before, self.layout.after)
        file.write(ids.data)
        self.documents_in += len(batch)
        self.documents_out += len(lengths)
        self.bytes_in += int(sizes.sum())
        self.bytes_out += int(sizes[kept].sum())
        self.tokens += len(ids)
        if len(ids) and int(ids.max()) >= self.layout.vocabulary_size:
            raise ValueError(f"token shard {self.work.name}: id {ids.max()} of {self.layout.vocabulary_size} tokens")
        self.histograms.append(_histogram(lengths))
        self.tables.append(_rows(batch["doc_id"].filter(pa.array(kept)), lengths, sizes[kept], config.longest_document))

    def check(self, path: Path) -> None:
        """Raise `ValueError` when documents, lengths and bytes written do not add up."""
        told = f"token shard {self.work.name}"
        if self.documents_in != self.documents_out + sum(self.dropped.values()) or self.documents_in != self.work.rows:
            raise ValueError(
                f"{told}: {self.work.rows} documents in, {self.documents_out} kept and {self.dropped} dropped"
            )
        if int(self.lengths.sum()) * self.layout.kind.itemsize != path.stat().st_size:
            raise ValueError(f"{told}: {path.stat().st_size} bytes do not fit {int(self.lengths.sum())} tokens in all")

    def stats(self) -> dict[str, Any]:
        """The counts of the shard, JSON values."""
        return {
            "documents_in": self.documents_in,
            "documents_out": self.documents_out,
            "pieces": len(self.lengths),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "tokens": self.tokens,
            "dropped": self.dropped,
            "histograms": added(self.histograms),
        }


def _rows(doc_ids: pa.Array, lengths: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], longest: int) -> pa.Table:
    """The rows of `token_documents`: one per document, or one per piece, the text's bytes with the first of them."""
    if len(lengths) and int(lengths.max()) > longest:
        lengths, counts = cut(lengths, longest)
        owners = np.repeat(np.arange(len(counts)), counts)
        first = np.diff(owners, prepend=-1) > 0
        doc_ids, sizes = doc_ids.take(pa.array(owners)), np.where(first, sizes[owners], 0)
    return pa.table({"doc_id": doc_ids, "tokens": lengths, "bytes": sizes}, schema=TOKEN_DOCUMENTS)


def _histogram(lengths: npt.NDArray[np.int64]) -> dict[str, Any]:
    return {"tokens per document": histogram(SIZE_EDGES, documents=lengths)}


def _key(layout: Boundaries) -> dict[str, Any]:
    """What of a layout is in the key of a shard."""
    return {"before": layout.before, "after": layout.after, "dtype": layout.kind.name}


def _told(why: str) -> str:
    return f"Encoded by tokenizers, the slow engine, for the fast one cannot be trusted here: {why}."
