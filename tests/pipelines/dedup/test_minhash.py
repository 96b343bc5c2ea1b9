"""Signatures, with datasketch as the oracle."""

import datasketch
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup.minhash import minhash_signatures, permutation_factors
from pipelines.text.shingles import shingle_hashes
from pipelines.text.words import split_words
from tests.pipelines.dedup.corpus import SHARED_DATA


def datasketch_signature(hashes: list[int], permutations: int, seed: int) -> np.ndarray:
    """The signature that datasketch makes of the same 32-bit hashes."""
    sketch = datasketch.MinHash(permutations, seed, scheme="affine32", hashfunc=int)
    sketch.update_batch(hashes)
    return sketch.hashvalues


def as_shingles(documents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """32-bit hashes as the upper halves of shingle hashes, and their offsets."""
    flat = np.array([h for hashes in documents for h in hashes], np.uint64) << np.uint64(32)
    return flat, np.cumsum([0, *map(len, documents)])


@given(
    st.lists(st.lists(st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 3)), max_size=20), max_size=6),
    st.integers(16, 130),
    st.integers(0, 2**32 - 1),
)
def test_signatures_are_those_of_datasketch(documents: list[list[int]], permutations: int, seed: int) -> None:
    signatures, distinct = minhash_signatures(*as_shingles(documents), permutations, seed)
    assert signatures.shape == (len(documents), permutations)
    for hashes, signature, count in zip(documents, signatures, distinct, strict=True):
        assert signature.tolist() == datasketch_signature(hashes, permutations, seed).tolist()
        assert count == len(set(hashes))


@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000, 40_000])
def test_signatures_of_long_documents_are_those_of_datasketch(size: int) -> None:
    hashes = np.random.default_rng(size).integers(0, 2**32, size).tolist()
    signatures, _ = minhash_signatures(*as_shingles([hashes, hashes[:1]]), 112, 1)
    assert signatures[0].tolist() == datasketch_signature(hashes, 112, 1).tolist()
    assert signatures[1].tolist() == datasketch_signature(hashes[:1], 112, 1).tolist()


def test_the_permutations_are_those_of_datasketch() -> None:
    factors, summands = permutation_factors(112, 42)
    expected = datasketch.MinHash(112, 42, scheme="affine32").permutations
    assert np.array_equal([factors, summands], expected)


def test_a_document_without_shingles_has_the_signature_of_an_empty_sketch() -> None:
    signatures, distinct = minhash_signatures(*as_shingles([[]]), 16, 1)
    assert signatures[0].tolist() == datasketch.MinHash(16, 1).hashvalues.tolist()
    assert distinct.tolist() == [0]


def test_no_documents_have_no_signatures() -> None:
    signatures, distinct = minhash_signatures(*as_shingles([]), 16, 1)
    assert signatures.shape == (0, 16)
    assert distinct.tolist() == []


@pytest.mark.skipif(not SHARED_DATA.exists(), reason="the shared test data is not here")
@pytest.mark.parametrize("language", ["eng", "cmn_hans", "jpn", "tha", "arb", "hin", "kor", "vie"])
def test_signatures_of_texts_in_many_languages_are_those_of_datasketch(language: str) -> None:
    text = (SHARED_DATA / f"multilingual/udhr_{language}.xml").read_text(encoding="utf-8")
    shingles, offsets = shingle_hashes(split_words(pa.array([text, text[:500]], pa.large_string())), 5)
    signatures, _ = minhash_signatures(shingles, offsets, 112, 1)
    for i in range(2):
        hashes = (shingles[offsets[i] : offsets[i + 1]] >> np.uint64(32)).tolist()
        assert len(hashes) > 20
        assert signatures[i].tolist() == datasketch_signature(hashes, 112, 1).tolist()


@given(st.integers(0, 100))
def test_the_share_of_equal_values_estimates_the_jaccard_similarity(shared: int) -> None:
    common, left, right = range(shared), range(1000, 1100 - shared // 2), range(2000, 2100 - shared // 2)
    documents = [[*common, *left], [*common, *right]]
    signatures, _ = minhash_signatures(*as_shingles(documents), 1024, 7)
    jaccard = shared / (shared + len(left) + len(right))
    four_standard_deviations = 4 * np.sqrt(max(jaccard * (1 - jaccard), 0.01) / 1024)
    assert abs((signatures[0] == signatures[1]).mean() - jaccard) < four_standard_deviations
