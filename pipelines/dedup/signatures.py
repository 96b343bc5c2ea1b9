"""One row per document by which it is compared: exact hash, length, fingerprint, MinHash signature.

Shard by shard and cached: neither the threshold nor the other sources enter the key. How rows are stored stands in
`index.py`, the comparison itself in `clusters.py`.
"""

import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from pipelines.dataset import Dataset
from pipelines.dedup.index import index_file, index_schema
from pipelines.dedup.minhash import minhash_signatures
from pipelines.dedup.params import DedupParams
from pipelines.dedup.simhash import fingerprints
from pipelines.engines.task import File, Inputs, Made, Stats, Task
from pipelines.text.codepoints import Normalisation
from pipelines.text.repeats import Repeats, drop_repeats
from pipelines.text.shingles import EMPTY_TEXT, is_blank, shingle_hashes, text_hashes
from pipelines.text.words import Words, word_batches

VERSION = 3

AS_WRITTEN = Normalisation(case="keep", punctuation="keep")
"""How lines and paragraphs are compared: all but white space counts."""

COUNTS = (
    "documents",
    "bytes",
    "empty",
    "wordless",
    "short",
    "by_characters",
    "repeated_lines",
    "repeated_paragraphs",
    "repeated_bytes",
)
"""What a signatures task counts: documents; bytes of text; texts that are empty or white space; other texts without a
word; texts shorter than a shingle; texts most of whose words are single characters of a script without spaces; lines,
paragraphs and bytes that a text repeats and that are cut."""


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
            in_threads=True,
        )
        for shard in clean_documents.shards("documents")
    ]


def run(inputs: Inputs, config: DedupParams) -> Iterable[Made]:
    """The part "index" of one documents shard, a file of `index.py`, and its counts."""
    table, counts = document_signatures(inputs.table(columns=["doc_id", "text"]), config)
    yield "index", File("", index_file(table), rows=len(table))
    yield Stats(counts)


def document_signatures(documents: pa.Table, config: DedupParams) -> tuple[pa.Table, dict[str, int]]:
    """Signatures (`index_schema`) of documents (columns doc_id and text), row by row, and the `COUNTS`.

    Memory: the shard's text and signatures, plus some 30 bytes per word of the longest document.
    """
    counts = dict.fromkeys(COUNTS, 0)
    counts["bytes"] = pc.sum(pc.binary_length(documents["text"])).as_py() or 0
    texts, repeats = without_repeats(documents["text"], config)
    for found in repeats:
        counts["repeated_lines"] += int(found.lines.sum())
        counts["repeated_paragraphs"] += int(found.paragraphs.sum())
        counts["repeated_bytes"] += int(found.bytes.sum())
    batches = word_batches(texts, config.normalisation.plain)
    pieces = [_signatures(*batch, config, counts) for batch in batches]
    schema = index_schema(
        config.permutations if config.minhash else 0, simhash=config.simhash.enabled, sets=_wants_sets(config)
    )
    rows = pa.concat_tables(pieces) if pieces else schema.empty_table().drop_columns("doc_id")
    if len(rows) != len(documents):
        raise RuntimeError(f"signatures: {len(documents)} documents went in, {len(rows)} rows came out")
    return rows.add_column(0, "doc_id", documents["doc_id"]).select(schema.names).cast(schema), counts


def without_repeats(texts: pa.ChunkedArray, config: DedupParams) -> tuple[pa.ChunkedArray, list[Repeats]]:
    """Texts without the lines and paragraphs that they repeat, and what was cut; as they are where that is off."""
    if not config.repeats.wanted:
        return texts, []
    found = [
        drop_repeats(
            chunk,
            lines=config.repeats.lines,
            paragraphs=config.repeats.paragraphs,
            min_characters=config.repeats.min_characters,
            normalisation=AS_WRITTEN,
        )
        for chunk in texts.chunks
    ]
    return pa.chunked_array([one.texts for one in found], texts.type), found


def _signatures(texts: pa.Array, words: Words, config: DedupParams, counts: dict[str, int]) -> pa.Table:
    verbatim = config.exact_text == "verbatim"
    exact = _verbatim_hashes(texts) if verbatim else text_hashes(texts, words)
    distinct = np.zeros(len(texts), np.int64)
    columns: dict[str, Any] = {"exact": exact, "length": pc.binary_length(texts)}
    if config.minhash:
        hashes, offsets = shingle_hashes(words, config.shingle_length, config.shingle_of)
        sets = np.empty(len(hashes) if _wants_sets(config) else 0, np.uint32)
        signatures, distinct = minhash_signatures(hashes, offsets, config.permutations, config.seed, sets)
        columns["minhash"] = pa.FixedSizeListArray.from_arrays(pa.array(signatures.ravel()), config.permutations)
        if _wants_sets(config):
            ends = np.concatenate([[0], np.cumsum(distinct)]).astype(np.int64)
            columns["shingle_set"] = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(sets[: ends[-1]]))
        sizes = words.counts if config.shingle_of == "words" else np.diff(words.normalised_offsets)
        counts["short"] += int(np.count_nonzero((sizes > 0) & (sizes < config.shingle_length)))
    if config.simhash.enabled:
        hashes, offsets = shingle_hashes(words, config.simhash.shingle_length, config.shingle_of)
        columns["simhash"] = fingerprints(hashes, offsets)
        distinct = distinct if config.minhash else np.diff(offsets)
    blank = pc.sum(pc.equal(exact, pa.scalar(EMPTY_TEXT, pa.binary(16)))).as_py() or 0
    counts["documents"] += len(texts)
    counts["empty"] += blank
    counts["wordless"] += int(np.count_nonzero(words.counts == 0)) - blank
    counts["by_characters"] += int(np.count_nonzero(2 * words.characters > words.counts))
    return pa.table(columns | {"shingles": distinct})


def _verbatim_hashes(texts: pa.Array) -> pa.Array:
    content = (text.as_buffer().to_pybytes() for text in texts)
    digests = [EMPTY_TEXT if is_blank(text) else xxhash.xxh3_128_digest(text) for text in content]
    return pa.array(digests, pa.binary(16))


def _wants_sets(config: DedupParams) -> bool:
    return config.minhash and config.verify == "shingles"


def _parameters_that_matter(config: DedupParams) -> dict[str, Any]:
    minhash = {
        "shingle_of": config.shingle_of,
        "shingle_length": config.shingle_length,
        "permutations": config.permutations,
        "seed": config.seed,
        "sets": _wants_sets(config),
    }
    simhash = {"shingle_of": config.shingle_of, "shingle_length": config.simhash.shingle_length}
    return {
        "unicode": unicodedata.unidata_version,
        "normalisation": config.normalisation.model_dump(),
        "exact_text": config.exact_text,
        "repeats": config.repeats.model_dump() if config.repeats.wanted else None,
        "minhash": minhash if config.minhash else None,
        "simhash": simhash if config.simhash.enabled else None,
    }
