"""One row per document by which it is compared: exact hash, number of shingles, length, MinHash signature.

Shard by shard and cached: neither the threshold nor the other sources enter the key. The comparison itself stands in
`clusters.py`.
"""

import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset
from pipelines.dedup.minhash import minhash_signatures
from pipelines.dedup.params import DedupParams
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.schemas import SIGNATURES
from pipelines.text.shingles import EMPTY_TEXT, shingle_hashes, text_hashes
from pipelines.text.words import word_batches

VERSION = 1

COUNTS = ("documents", "bytes", "empty", "wordless", "short", "by_characters")
"""What a signatures task counts: documents; bytes of text; texts that are empty or white space; other texts without a
word; texts with fewer words than a shingle; texts most of whose words are single characters of a script without
spaces."""


def signature_tasks(clean_documents: Dataset, config: DedupParams) -> list[Task]:
    """One task per documents shard, in the order of the shards."""
    return [
        Task(
            run=run,
            stage="dedup.signatures",
            version=VERSION,
            params=_parameters_that_matter(config),
            inputs=(shard.object,),
            payload=config,
            rows=shard.rows,
        )
        for shard in clean_documents.shards("documents")
    ]


def run(inputs: Inputs, config: DedupParams) -> Iterable[Made]:
    """The part "signatures" of one documents shard, and its counts."""
    table, counts = document_signatures(inputs.table(columns=["doc_id", "text"]), config)
    yield "signatures", table
    yield Stats(counts)


def document_signatures(documents: pa.Table, config: DedupParams) -> tuple[pa.Table, dict[str, int]]:
    """Signatures (schema SIGNATURES) of documents (columns doc_id and text), row by row, and the `COUNTS`.

    Memory: the shard's text and signatures, plus some 30 bytes per word of the longest document.
    """
    counts = dict.fromkeys(COUNTS, 0)
    pieces: list[pa.Table] = []
    row = 0
    for texts, words in word_batches(documents["text"]):
        exact = text_hashes(texts, words)
        shingles = np.zeros(len(texts), np.int64)
        signatures = np.empty((0, config.permutations), np.uint32)
        if config.minhash:
            hashes, offsets = shingle_hashes(words, config.shingle_words)
            every, shingles = minhash_signatures(hashes, offsets, config.permutations, config.seed)
            signatures = every[shingles > 0]
            counts["short"] += int(np.count_nonzero((words.counts > 0) & (words.counts < config.shingle_words)))
        lengths = pc.binary_length(texts)
        empty = exact.to_pylist().count(EMPTY_TEXT)
        counts["documents"] += len(texts)
        counts["bytes"] += pc.sum(lengths).as_py()
        counts["empty"] += empty
        counts["wordless"] += int(np.count_nonzero(words.counts == 0)) - empty
        counts["by_characters"] += int(np.count_nonzero(2 * words.characters > words.counts))
        columns = [documents["doc_id"].slice(row, len(texts)), exact, shingles, lengths, _lists(signatures, shingles)]
        pieces.append(pa.table(columns, SIGNATURES.names))
        row += len(texts)
    table = pa.concat_tables(pieces) if pieces else SIGNATURES.empty_table()
    if len(table) != len(documents):
        raise RuntimeError(f"signatures: {len(documents)} documents went in, {len(table)} rows came out")
    return table, counts


def _parameters_that_matter(config: DedupParams) -> dict[str, Any]:
    minhash = {
        "shingle_words": config.shingle_words,
        "permutations": config.permutations,
        "seed": config.seed,
    }
    return {"unicode": unicodedata.unidata_version, "minhash": minhash if config.minhash else None}


def _lists(signatures: np.ndarray, shingles: np.ndarray) -> pa.ListArray:
    """A list column: a signature where a document has shingles, an empty list elsewhere."""
    offsets = np.zeros(len(shingles) + 1, np.int64)
    np.cumsum(np.where(shingles > 0, signatures.shape[1], 0), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(signatures.ravel()))
