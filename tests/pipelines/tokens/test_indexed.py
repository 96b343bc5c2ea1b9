"""Megatron-LM's token files: bytes checked by hand, damage told in words."""

import struct

import numpy as np
import pytest

from pipelines.tokens.indexed import IndexedTokens, TokenFileError, index_bytes, token_type


def test_the_index_is_megatrons_byte_for_byte():
    found = index_bytes(np.array([2, 1, 3]), np.dtype("<u2"))
    assert found == b"".join(
        [
            b"MMIDIDX\x00\x00",
            struct.pack("<Q", 1),  # version
            struct.pack("<B", 8),  # uint16
            struct.pack("<Q", 3),  # sequences
            struct.pack("<Q", 4),  # document boundaries
            struct.pack("<3i", 2, 1, 3),  # tokens
            struct.pack("<3q", 0, 4, 6),  # bytes
            struct.pack("<4q", 0, 1, 2, 3),
        ]
    )


def test_int32_has_code_4_and_four_bytes_per_token():
    found = index_bytes(np.array([2, 1]), np.dtype("<i4"))
    assert found[17] == 4
    assert struct.unpack_from("<2q", found, 34 + 8) == (0, 8)


@pytest.mark.parametrize(("vocabulary", "name"), [(300, "uint16"), (65_499, "uint16"), (65_500, "int32")])
def test_the_id_type_follows_megatrons_rule(vocabulary, name):
    assert token_type(vocabulary).name == name


def test_offsets_beyond_two_gibibytes_stay_positive():
    lengths = np.full(3, 2**31 - 1)
    found = index_bytes(lengths, np.dtype("<i4"))
    assert struct.unpack_from("<3q", found, 34 + 12) == (0, 4 * (2**31 - 1), 8 * (2**31 - 1))


def test_a_document_too_long_for_the_index_is_refused():
    with pytest.raises(TokenFileError, match="document 1 of the shard has 2,147,483,648 tokens"):
        index_bytes(np.array([1, 2**31]), np.dtype("<u2"))


@pytest.fixture
def shard(tmp_path):
    (tmp_path / "a.bin").write_bytes(np.array([5, 6, 7, 8, 9, 10], "<u2").tobytes())
    (tmp_path / "a.idx").write_bytes(index_bytes(np.array([2, 1, 3]), np.dtype("<u2")))
    return tmp_path / "a.bin", tmp_path / "a.idx"


def test_documents_are_read_back(shard):
    tokens = IndexedTokens(*shard)
    assert len(tokens) == 3
    assert [tokens.document(i).tolist() for i in range(3)] == [[5, 6], [7], [8, 9, 10]]
    with pytest.raises(IndexError, match="document 3 of a token shard that has 3"):
        tokens.document(3)


def test_documents_of_several_sequences_are_read_whole(tmp_path, shard):
    content = bytearray(shard[1].read_bytes()[: 34 + 36])
    struct.pack_into("<Q", content, 26, 3)
    shard[1].write_bytes(bytes(content) + struct.pack("<3q", 0, 2, 3))
    tokens = IndexedTokens(*shard)
    assert [tokens.document(i).tolist() for i in range(len(tokens))] == [[5, 6, 7], [8, 9, 10]]


def test_an_empty_shard_can_be_read(tmp_path):
    (tmp_path / "e.bin").write_bytes(b"")
    (tmp_path / "e.idx").write_bytes(index_bytes(np.array([], np.int64), np.dtype("<u2")))
    tokens = IndexedTokens(tmp_path / "e.bin", tmp_path / "e.idx")
    assert len(tokens) == 0
    assert tokens.tokens.tolist() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:20], "fewer than the header"),
        (lambda data: data[:-1], "damaged"),
        (lambda data: b"TNTIDX\x00\x00\x00" + data[9:], "not a Megatron-LM token index"),
        (lambda data: data[:9] + struct.pack("<Q", 2) + data[17:], "not a Megatron-LM token index"),
        (lambda data: data[:17] + b"\x06" + data[18:], "id type 6"),
    ],
)
def test_a_damaged_index_is_told(shard, change, message):
    shard[1].write_bytes(change(shard[1].read_bytes()))
    with pytest.raises(TokenFileError, match=message):
        IndexedTokens(*shard)


def test_a_truncated_token_file_is_told(shard):
    shard[0].write_bytes(shard[0].read_bytes()[:-2])
    with pytest.raises(TokenFileError, match=r"a\.bin has 10 bytes where a\.idx tells of 12"):
        IndexedTokens(*shard)
