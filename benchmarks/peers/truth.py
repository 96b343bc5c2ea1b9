"""Who is similar to whom, by brute force: true Jaccard similarity of shingle sets, and how well a peer found the pairs.

Nothing here is shared with `pipelines/`: words are cut by Python's `re`, shingles counted by a sparse matrix product.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import csr_matrix

SHINGLE = 5
THRESHOLD = 0.75
TOLERANCE = 0.05
WORD = re.compile(r"\w+")
CHUNK = 256


@dataclass(frozen=True)
class Pairs:
    """Pairs of which the first is in the sample, with a similarity of at least THRESHOLD - TOLERANCE.

    first, second: positions in the corpus, never equal. sample: positions of the sampled documents.
    """

    sample: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    similarity: npt.NDArray[np.float64]


def similar_pairs(texts: pa.Array, language: str, sample: npt.NDArray[np.int64]) -> Pairs:
    """The sampled documents compared with every document of the corpus."""
    sets = shingle_sets(texts, language)
    sizes = np.diff(sets.indptr)
    turned = sets.T.tocsr()
    found = []
    for start in range(0, len(sample), CHUNK):
        rows = sample[start : start + CHUNK]
        common = (sets[rows] @ turned).tocoo()
        first, second = rows[common.row], common.col.astype(np.int64)
        similarity = common.data / (sizes[first] + sizes[second] - common.data)
        wanted = (similarity >= THRESHOLD - TOLERANCE) & (first != second)
        found.append((first[wanted], second[wanted], similarity[wanted]))
    first, second, similarity = (np.concatenate(part) for part in zip(*found, strict=True))
    return Pairs(sample, first, second, similarity)


def recall(pairs: Pairs, removed: npt.NDArray[np.bool_]) -> float:
    """Pairs at or above the threshold of which at least one member was removed / all such pairs."""
    wanted = pairs.similarity >= THRESHOLD
    caught = removed[pairs.first] | removed[pairs.second]
    return float(np.count_nonzero(caught & wanted) / np.count_nonzero(wanted))


def precision(pairs: Pairs, removed: npt.NDArray[np.bool_]) -> float:
    """Sampled documents that were removed and have another one within TOLERANCE below the threshold or above / all
    sampled documents that were removed. The tolerance is for similarities that are estimated, as everybody's are."""
    gone = pairs.sample[removed[pairs.sample]]
    return float(np.isin(gone, pairs.first).mean()) if len(gone) else 1.0


def shingle_sets(texts: pa.Array, language: str) -> csr_matrix:
    """A row per document, a column per distinct shingle, ones where the document has it.

    Shingles are 5 consecutive words, \\w+ in lower case, or for Chinese and Japanese 5 consecutive characters of such
    words; a shorter document has one shingle, one without words none. Shingles are told apart by 64 random bits.
    """
    random = np.random.default_rng(5)
    numbers: dict[str, int] = {}
    documents = []
    for text in texts:
        words: Iterable[str] = WORD.findall(text.as_py().lower())
        units = words if language == "en" else "".join(words)
        documents.append(np.array([numbers.setdefault(unit, len(numbers)) for unit in units], np.int64))
    values = random.integers(0, 2**64, len(numbers) + 1, np.uint64)
    odd = random.integers(0, 2**63, SHINGLE, np.uint64) * np.uint64(2) + np.uint64(1)
    sets = [_shingles(values[units], odd) for units in documents]
    lengths = np.array([len(one) for one in sets])
    _, columns = np.unique(np.concatenate(sets), return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return csr_matrix((np.ones(len(columns), np.int32), columns, offsets))


def _shingles(values: npt.NDArray[np.uint64], odd: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    count = max(len(values) - SHINGLE + 1, min(len(values), 1))
    length = min(SHINGLE, len(values))
    parts = (values[place : place + count] * odd[place] for place in range(length))
    return np.unique(sum(parts, np.zeros(count, np.uint64)))
