"""Which document stands for which: the greedy pass over the documents that share a bucket.

Documents are asked in order of priority; each stays unless one that stays is similar to it. So nothing goes that
resembles nothing kept, however long the chain of similar pairs that leads there. Buckets come from `buckets.py`.
"""

from dataclasses import dataclass, field

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pipelines.dedup.buckets import Buckets
from pipelines.dedup.minhash import slots_for
from pipelines.dedup.simhash import hamming

LEVELS = ("exact", "simhash", "minhash")
"""By what one document stands for another; the position is the number that arrays hold."""

KEPT = -1
_SIMHASH, _MINHASH = LEVELS.index("simhash"), LEVELS.index("minhash")
_NO_ADDRESSES = np.zeros(0, np.uint64)
_NO_SIZES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Rules:
    """From when on two documents are similar.

    bands: keys of a document that are bands of its signature, the others are SimHash tables. threshold: Jaccard
    similarity, of the sets where by_sets, else as estimated from the signatures. distance: Hamming distance of the
    fingerprints, negative without that level. bucket_limit: kept documents of one band's bucket that are compared.
    """

    bands: int
    threshold: float
    permutations: int
    by_sets: bool = False
    distance: int = -1
    bucket_limit: int = 1000


@dataclass(frozen=True)
class Prints:
    """What documents are compared by; arrays of levels that are off are empty.

    signatures: uint64[documents], addresses of uint32[permutations]. sets, set_sizes: addresses and lengths of
    uint32 arrays without repeats. simhash: uint64[documents], fingerprints. What addresses point to must not move.
    """

    signatures: npt.NDArray[np.uint64] = field(default_factory=lambda: _NO_ADDRESSES)
    sets: npt.NDArray[np.uint64] = field(default_factory=lambda: _NO_ADDRESSES)
    set_sizes: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_SIZES)
    simhash: npt.NDArray[np.uint64] = field(default_factory=lambda: _NO_ADDRESSES)


@dataclass(frozen=True)
class Leaders:
    """Who stands for whom, by position in the order of priority.

    leader: int32[documents], the position of the document that stays instead, or `KEPT`. level: int8[documents], by
    which of the `LEVELS`. similarity: float64[documents], 1 for those kept. compared, similar: pairs looked at, and
    those of them that were similar. cut: lists of buckets that were not walked to their end (`Rules.bucket_limit`).
    """

    leader: npt.NDArray[np.int32]
    level: npt.NDArray[np.int8]
    similarity: npt.NDArray[np.float64]
    compared: int = 0
    similar: int = 0
    cut: int = 0


def find_leaders(prints: Prints, buckets: Buckets, rules: Rules, fixed: int = 0, settled: int = 0) -> Leaders:
    """Decide on the members of the buckets, in their order: positions in the result are positions among the members.

    prints: of the members. The first `fixed` of them stay in any case; the first `settled` (at least as many) go only
    in favour of one of those. A document joins the one that MinHash calls most similar, else the one with the nearest
    fingerprint; of equals, the first. Memory: 20 bytes and 4 bytes a key for each member, 4 bytes for each bucket,
    whatever the number of copies; time grows with the pairs of kept documents in a bucket, `bucket_limit` of each.
    """
    members, keys = buckets.of.shape
    leader = np.full(members, np.int32(KEPT))
    level = np.zeros(members, np.int8)
    similarity = np.ones(members, np.float64)
    compared, similar, cut = _lead(
        buckets.of,
        rules.bands,
        prints.signatures,
        rules.permutations,
        equal_values_needed(rules.threshold, rules.permutations),
        prints.sets if rules.by_sets else _NO_ADDRESSES,
        prints.set_sizes,
        rules.threshold,
        prints.simhash,
        rules.distance,
        rules.bucket_limit,
        fixed,
        settled,
        np.full(buckets.count, np.int32(KEPT)),
        np.empty((members, keys), np.int32),
        np.full(members, np.int32(-1)),
        leader,
        level,
        similarity,
    )
    return Leaders(leader, level, similarity, compared, similar, cut)


def equal_values_needed(threshold: float, permutations: int) -> int:
    """How many of the signature values must agree for an estimate of at least `threshold`."""
    return int(np.ceil(threshold * permutations - 1e-9))


@intrinsic
def _pointer(typing_context, address):  # type: ignore[no-untyped-def]
    """An address as a pointer to uint32."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())

    return types.CPointer(types.uint32)(types.uint64), generate


@numba.njit(nogil=True, cache=True)
def _array(address: np.uint64, length: int) -> npt.NDArray[np.uint32]:
    return numba.carray(_pointer(address), length)  # type: ignore[call-arg]


@numba.njit(nogil=True, cache=True)
def _equal_values(left: np.uint64, right: np.uint64, permutations: int) -> np.int32:
    ours, theirs = _array(left, permutations), _array(right, permutations)
    equal = np.int32(0)
    for k in range(permutations):
        equal += np.int32(ours[k] == theirs[k])
    return equal


@numba.njit(nogil=True, cache=True)
def _fill(table, address, size) -> np.uintp:  # type: ignore[no-untyped-def]
    """Put a set into an open hash table; returns the mask of its slots. 0 marks a free one, so it stands for itself in
    the one behind the last."""
    slots = slots_for(size)
    table[: slots + 1] = 0
    mask = np.uintp(slots - 1)
    values = _array(address, size)
    for i in range(size):
        value = values[i]
        if value == 0:
            table[slots] = 1
            continue
        slot = np.uintp(value) & mask
        while table[slot] != 0:
            slot = (slot + np.uintp(1)) & mask
        table[slot] = value
    return mask


@numba.njit(nogil=True, cache=True)
def _common(table, mask, address, size):  # type: ignore[no-untyped-def]
    """How many values of a set are in the table."""
    values = _array(address, size)
    common = np.int64(0)
    for i in range(size):
        value = values[i]
        if value == 0:
            common += np.int64(table[mask + np.uintp(1)])
            continue
        slot = np.uintp(value) & mask
        while table[slot] != 0 and table[slot] != value:
            slot = (slot + np.uintp(1)) & mask
        common += np.int64(table[slot] == value)
    return common


@numba.njit(nogil=True, cache=True)
def _lead(  # type: ignore[no-untyped-def]
    of, bands, signatures, permutations, needed, sets, set_sizes, threshold, prints, distance, limit, fixed, settled,
    heads, following, compared_with, leader, level, similarity,
):  # fmt: skip
    members, keys = of.shape
    compared = similar = cut = 0
    table = np.empty(slots_for(set_sizes.max() if len(sets) else 0) + 1, np.uint32)
    for document in range(members):
        best, best_level, best_similarity = -1, np.int8(0), 0.0
        candidates = members if document >= settled else fixed
        mask = np.uintp(0)  # of the table, once it holds this document's set
        for key in range(keys if document >= fixed else 0):
            bucket = of[document, key]
            other = heads[bucket] if bucket >= 0 else np.int32(-1)
            walked = 0
            while other >= 0:
                walked += 1
                if key < bands and walked > limit:
                    cut += 1
                    break
                if compared_with[other] != document and other < candidates:
                    compared_with[other] = document
                    compared += 1
                    found_level, found = np.int8(0), 0.0
                    if bands:
                        if len(sets):
                            ours, theirs = set_sizes[document], set_sizes[other]
                            if min(ours, theirs) >= threshold * max(ours, theirs) - 1e-6:
                                if mask == 0:
                                    mask = _fill(table, sets[document], ours)
                                common = _common(table, mask, sets[other], theirs)
                                found = common / (ours + theirs - common)
                            found_level = np.int8(_MINHASH if found >= threshold - 1e-12 else 0)
                        else:
                            equal = _equal_values(signatures[document], signatures[other], permutations)
                            found = equal / permutations
                            found_level = np.int8(_MINHASH if equal >= needed else 0)
                    if found_level == 0 and distance >= 0:
                        differing = hamming(prints[document], prints[other])
                        found = 1.0 - differing / 64.0
                        found_level = np.int8(_SIMHASH if differing <= distance else 0)
                    if found_level:
                        similar += 1
                        better = found_level > best_level or (found_level == best_level and found > best_similarity)
                        if better or (found_level == best_level and found == best_similarity and other < best):
                            best, best_level, best_similarity = int(other), found_level, found
                other = following[other, key]
        if best >= 0:
            leader[document], level[document], similarity[document] = best, best_level, best_similarity
            continue
        for key in range(keys):
            bucket = of[document, key]
            if bucket >= 0:
                following[document, key] = heads[bucket]
                heads[bucket] = document
    return compared, similar, cut
