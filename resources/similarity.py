"""How much texts resemble others by SimHash: what `filter_benchmark` compares classifiers with.

Filters and deduplication don't import each other; this function is handed from the one to the other. It loads no
Dagster, since it is measured in a process of its own.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pipelines.dedup import signatures
from pipelines.dedup.params import SimHashParams
from pipelines.dedup.simhash import BITS, fingerprints
from pipelines.filters.comparison import Similarity
from pipelines.text.shingles import shingle_hashes
from pipelines.text.words import word_batches

BLOCK = 512
"""Texts that are compared with all others at once."""


def simhash_similarity(texts: pa.Array, others: pa.Array) -> npt.NDArray[np.float64]:
    """float64[texts]: the share of equal bits with the most similar of the others, the same text left out: an example
    does not find itself. NaN for a text without a word, and where there are no others. Compares all pairs: for samples.
    """
    ours, theirs = _prints(texts), _prints(others)
    named, other_names = _names(texts), _names(others)
    nearest = np.full(len(ours), BITS + 1)
    for start in range(0, len(ours) if len(theirs) else 0, BLOCK):
        rows = slice(start, start + BLOCK)
        distance = np.bitwise_count(ours[rows, None] ^ theirs).astype(np.int64)
        distance[(named[rows, None] == other_names) | (theirs == 0)] = BITS + 1
        nearest[rows] = distance.min(axis=1)
    return np.where((nearest > BITS) | (ours == 0), np.nan, 1 - nearest / BITS)


SIMHASH = Similarity(simhash_similarity, (1, signatures.VERSION))
"""version: of this code, and of what makes the fingerprints."""


def _names(texts: pa.Array) -> npt.NDArray[np.uint64]:
    return np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts.to_pylist()], np.uint64)


def _prints(texts: pa.Array) -> npt.NDArray[np.uint64]:
    length = SimHashParams().shingle_length
    batches = word_batches(pa.chunked_array([texts]))
    return np.concatenate(
        [np.zeros(0, np.uint64), *(fingerprints(*shingle_hashes(words, length)) for _, words in batches)]
    )
