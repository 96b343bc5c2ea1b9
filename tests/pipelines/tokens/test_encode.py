"""Text to ids: the reference's own results, on text of any size and kind, by every engine."""

import json
import os

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer

import pipelines.tokens.encode as encode_module
from pipelines.tokens.encode import encode, id_space, library_threads, pieces, texts
from pipelines.tokens.engines import EngineFailed, FastokensEncoder, TokenizersEncoder, continuing_definition, reference
from pipelines.tokens.hostile import hostile_texts
from tests.pipelines.tokens.corpus import shared
from tests.pipelines.tokens.tokenizers import KINDS, like

UINT16 = np.dtype("<u2")
ENGINES = [TokenizersEncoder, FastokensEncoder]


@pytest.fixture(params=ENGINES, ids=["tokenizers", "fastokens"])
def engine(request):
    return request.param


every_pair = pytest.mark.parametrize(
    ("engine", "kind"),
    [(TokenizersEncoder, kind) for kind in KINDS] + [(FastokensEncoder, kind) for kind in KINDS if kind != "metaspace"],
)


def test_the_fast_engine_says_what_it_does_not_know():
    with pytest.raises(EngineFailed, match=r"fastokens fails: .*Metaspace"):
        FastokensEncoder(like("metaspace"))
    with pytest.raises(EngineFailed, match="surrogates not allowed"):
        FastokensEncoder(like("neox")).encode(["\ud835"])


@every_pair
def test_ids_are_those_of_the_library(engine, kind):
    paragraphs = ["to be or not to be", "", "that is\n\nthe question", *hostile_texts([])[:40]]
    ids, counts = encode(engine(like(kind)), paragraphs, UINT16)
    library = Tokenizer.from_str(like(kind))
    library.encode_special_tokens = True
    oracle = library.encode_batch(paragraphs, add_special_tokens=False)
    assert counts.tolist() == [len(encoding.ids) for encoding in oracle]
    assert ids.tolist() == [token for encoding in oracle for token in encoding.ids]


@pytest.mark.parametrize("name", ["gpt_neo_tokenizer.json", "llama_tokenizer.json"])
def test_ids_of_real_tokenizers_are_those_of_the_library(name):
    path = shared(f"tokenizers/{name}")
    paragraphs = shared("books/botchan_en.txt").read_text(encoding="utf-8").split("\n\n")[:40]
    ids, counts = encode(FastokensEncoder(path.read_text(encoding="utf-8")), paragraphs, UINT16)
    oracle = Tokenizer.from_file(str(path)).encode_batch(paragraphs, add_special_tokens=False)
    assert counts.tolist() == [len(encoding.ids) for encoding in oracle]
    assert ids.tolist() == [token for encoding in oracle for token in encoding.ids]


@every_pair
def test_small_pieces_give_the_ids_of_the_whole(engine, kind, monkeypatch):
    text = "To be, or not to be:\nthat is the question.\n\n  Whether 'tis nobler in the mind\n" * 60
    encoder = engine(like(kind))
    whole, _ = encode(encoder, [text], UINT16)
    monkeypatch.setattr(encode_module, "PIECE_CHARACTERS", 500)
    monkeypatch.setattr(encode_module, "BATCH_BYTES", 700)
    assert len(list(pieces(text))) > 5
    assert "".join(pieces(text)) == text
    in_pieces, counts = encode(encoder, ["", text, "", "x", "be " * 200, "be"], UINT16)
    assert in_pieces[: len(whole)].tolist() == whole.tolist()
    assert counts.tolist()[:4] == [0, len(whole), 0, *encode(encoder, ["x"], UINT16)[1]]
    alone = [encode(encoder, [other], UINT16)[1][0] for other in ("be " * 200, "be")]
    assert abs(counts[4] - alone[0]) < 3  # it has no seam
    assert counts[5] == alone[1]


@every_pair
def test_text_without_a_seam_is_cut_anyway_and_decodes_to_itself(engine, kind, monkeypatch):
    monkeypatch.setattr(encode_module, "PIECE_CHARACTERS", 7)
    text = "吾輩は猫である。 to be  be\n" * 10
    ids, _ = encode(engine(like(kind)), [text], UINT16)
    assert Tokenizer.from_str(like(kind)).decode(ids.tolist(), skip_special_tokens=False) == text


def test_only_tokenizers_that_begin_texts_with_a_space_have_another_for_later_pieces():
    changed = {kind: continuing_definition(like(kind)) for kind in KINDS}
    assert {kind for kind, definition in changed.items() if definition} == {"llama", "metaspace"}
    assert json.loads(changed["metaspace"])["pre_tokenizer"]["prepend_scheme"] == "never"
    gpt2 = json.dumps({"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}})
    assert json.loads(continuing_definition(gpt2))["pre_tokenizer"]["add_prefix_space"] is False


@every_pair
def test_a_document_cannot_spell_a_special_token(engine, kind):
    tokenizer = Tokenizer.from_str(like(kind))
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
    text = "be" + "".join(special) + " ".join(special)
    ids, _ = encode(engine(like(kind)), [text], UINT16)
    assert not set(ids.tolist()) & {tokenizer.token_to_id(token) for token in special} - {
        tokenizer.token_to_id("<unk>")
    }


def test_an_id_that_does_not_fit_is_refused(engine):
    with pytest.raises(ValueError, match="does not fit the type uint8"):
        encode(engine(like("neox")), ["that is the question"], np.dtype("u1"))


def test_padding_and_truncation_of_a_tokenizer_are_switched_off(engine):
    tokenizer = Tokenizer.from_str(like("neox"))
    bare = [len(tokenizer.encode(text).ids) for text in ("the question", "qqqq")]
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=50)
    _, counts = encode(engine(tokenizer.to_str()), ["the question", "qqqq"], UINT16)
    assert counts.tolist() == bare


def test_a_file_that_is_no_tokenizer_is_named(tmp_path):
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(ValueError, match=r"t\.json is not a tokenizer"):
        reference(tmp_path / "t.json")


def test_the_id_space_covers_added_tokens():
    tokenizer = Tokenizer.from_str(like("neox"))
    assert id_space(tokenizer) == tokenizer.get_vocab_size(with_added_tokens=True)


def test_invalid_utf8_is_none_and_spares_its_neighbours():
    raw = pa.array([b"good", b"\xed\xa0\xb5", b"fine"], pa.large_binary())
    broken = pa.LargeStringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])
    assert texts(broken) == ["good", None, "fine"]


def test_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    with library_threads():
        assert os.environ["TOKENIZERS_PARALLELISM"] == "true"
    assert "TOKENIZERS_PARALLELISM" not in os.environ
