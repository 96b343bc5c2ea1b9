"""Text to ids: the library's own results, on text of any size and kind."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer

import pipelines.tokens.encode as encode_module
from pipelines.tokens.encode import byte_ranges, encode, id_space, library_threads, load_tokenizer, pieces, texts
from pipelines.tokens.params import TokenizerParams
from pipelines.tokens.tokenizer import train
from tests.pipelines.tokens.corpus import shared


@pytest.fixture(scope="module")
def tokenizer_json(tmp_path_factory) -> Path:
    trained = train(
        ["to be or not to be, that is the question " * 9], TokenizerParams(vocabulary=300), ["<|endoftext|>"]
    )
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    trained.save(str(path))
    return path


@pytest.mark.parametrize("name", ["gpt_neo_tokenizer.json", "llama_tokenizer.json"])
def test_ids_are_those_of_the_library(name):
    path = shared(f"tokenizers/{name}")
    paragraphs = shared("books/botchan_en.txt").read_text(encoding="utf-8").split("\n\n")[:40]
    ids, counts = encode(load_tokenizer(path), paragraphs, np.dtype("<u2"))
    oracle = Tokenizer.from_file(str(path)).encode_batch(paragraphs, add_special_tokens=False)
    assert counts.tolist() == [len(encoding.ids) for encoding in oracle]
    assert ids.tolist() == [token for encoding in oracle for token in encoding.ids]


def test_small_pieces_give_the_ids_of_the_whole(tokenizer_json, monkeypatch):
    text = shared("books/tinyshakespeare.txt").read_text(encoding="utf-8")[:30_000]
    whole, _ = encode(load_tokenizer(tokenizer_json), [text], np.dtype("<u2"))
    monkeypatch.setattr(encode_module, "PIECE_CHARACTERS", 500)
    monkeypatch.setattr(encode_module, "BATCH_BYTES", 2_000)
    assert len(list(pieces(text))) > 30
    assert "".join(pieces(text)) == text
    in_pieces, counts = encode(load_tokenizer(tokenizer_json), ["", text, "", "x"], np.dtype("<u2"))
    assert in_pieces[:-1].tolist() == whole.tolist()
    assert counts.tolist() == [0, len(whole), 0, 1]


def test_text_without_a_seam_is_cut_anyway_and_decodes_to_itself(tokenizer_json, monkeypatch):
    monkeypatch.setattr(encode_module, "PIECE_CHARACTERS", 7)
    text = "吾輩は猫である。" * 10
    tokenizer = load_tokenizer(tokenizer_json)
    ids, _ = encode(tokenizer, [text], np.dtype("<u2"))
    assert tokenizer.decode(ids.tolist()) == text


def test_a_document_cannot_spell_a_special_token(tokenizer_json):
    tokenizer = load_tokenizer(tokenizer_json)
    ids, _ = encode(tokenizer, ["end<|endoftext|>"], np.dtype("<u2"))
    assert tokenizer.token_to_id("<|endoftext|>") not in ids.tolist()
    assert tokenizer.decode(ids.tolist()) == "end<|endoftext|>"


def test_an_id_that_does_not_fit_is_refused(tokenizer_json):
    with pytest.raises(ValueError, match="does not fit the type uint8"):
        encode(load_tokenizer(tokenizer_json), ["that is the question"], np.dtype("u1"))


def test_padding_and_truncation_of_a_tokenizer_are_switched_off(tokenizer_json, tmp_path):
    tokenizer = Tokenizer.from_file(str(tokenizer_json))
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=50)
    tokenizer.save(str(tmp_path / "t.json"))
    _, counts = encode(load_tokenizer(tmp_path / "t.json"), ["the question", "qqqq"], np.dtype("<u2"))
    assert counts.tolist() == [len(tokenizer_tokens) for tokenizer_tokens in _plain(tokenizer_json)]


def _plain(path):
    tokenizer = Tokenizer.from_file(str(path))
    return [tokenizer.encode(text).ids for text in ("the question", "qqqq")]


def test_a_file_that_is_no_tokenizer_is_named(tmp_path):
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(ValueError, match=r"t\.json is not a tokenizer"):
        load_tokenizer(tmp_path / "t.json")


def test_the_id_space_covers_added_tokens(tokenizer_json):
    tokenizer = load_tokenizer(tokenizer_json)
    assert id_space(tokenizer) == tokenizer.get_vocab_size(with_added_tokens=True)


def test_invalid_utf8_is_none_and_spares_its_neighbours():
    raw = pa.array([b"good", b"\xed\xa0\xb5", b"fine"], pa.large_binary())
    broken = pa.LargeStringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])
    assert list(texts(pa.chunked_array([broken]))) == ["good", None, "fine"]


def test_ranges_hold_at_most_the_limit_and_a_long_row_stands_alone():
    assert list(byte_ranges(np.array([4, 4, 4, 100, 0, 1]), 8)) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert list(byte_ranges(np.array([], np.int64), 8)) == []


def test_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    with library_threads():
        assert os.environ["TOKENIZERS_PARALLELISM"] == "true"
    assert "TOKENIZERS_PARALLELISM" not in os.environ
