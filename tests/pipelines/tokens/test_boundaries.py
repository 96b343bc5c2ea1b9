"""Tokens around documents: exactly those that are asked for, once, and none that the tokenizer lacks."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors

from pipelines.tokens.boundaries import boundaries, cut, surrounded
from pipelines.tokens.tokenize_params import TokenizeParams
from tests.pipelines.tokens.tokenizers import ROLES, like


@pytest.fixture
def found(tmp_path):
    def find(kind, tokenizer=None, roles=None, **params):
        path = tmp_path / "tokenizer_config.json"
        path.write_text(json.dumps(ROLES[kind] | (roles or {})))
        return boundaries(tokenizer or Tokenizer.from_str(like(kind)), path, TokenizeParams(**params))

    return find


@pytest.mark.parametrize(
    ("kind", "bos", "before", "after"),
    [
        ("neox", "auto", None, 0),  # GPT-NeoX begins a text with nothing
        ("neox", "always", 0, 0),  # its end-of-text token is its beginning-of-text token, too
        ("llama3", "auto", 0, 1),  # Llama's template does
        ("llama3", "always", 0, 1),
        ("llama3", "never", None, 1),
        ("llama", "auto", 1, 2),
        ("metaspace", "never", None, 2),
    ],
)
def test_what_is_put_around_a_document(found, kind, bos, before, after):
    layout = found(kind, bos=bos)
    assert (layout.before, layout.after) == (before, after)
    assert (layout.facts["bos"], layout.facts["eos"]) == (before is not None, True)
    assert layout.facts["eos_id"] == after


def test_roles_are_told_also_where_nothing_is_put(found):
    facts = found("neox", bos="never", eos="never").facts
    size = Tokenizer.from_str(like("neox")).get_vocab_size()
    assert facts == {"vocabulary_size": size, "bos_id": 0, "eos_id": 0, "pad_id": 1, "bos": False, "eos": False}


def test_a_template_that_ends_texts_changes_nothing(found):
    tokenizer = Tokenizer.from_str(like("llama3"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A <|end_of_text|>",
        special_tokens=[("<|begin_of_text|>", 0), ("<|end_of_text|>", 1)],
    )
    layout = found("llama3", tokenizer)
    assert (layout.before, layout.after) == (0, 1)


def test_a_template_with_another_token_is_told(found):
    tokenizer = Tokenizer.from_str(like("llama3"))
    tokenizer.post_processor = processors.TemplateProcessing(single="<|eot_id|> $A", special_tokens=[("<|eot_id|>", 2)])
    with pytest.raises(ValueError, match=r"begins a text with '<\|eot_id\|>', which is not the bos_token"):
        found("llama3", tokenizer)
    assert found("llama3", tokenizer, bos="always").before == 0


@pytest.mark.parametrize(
    ("roles", "params", "message"),
    [
        ({"eos_token": None}, {}, r"names no eos_token, and documents are to end with one.*tokenize\.eos to never"),
        ({"eos_token": "</eos>"}, {}, r"names the end-of-text token '</eos>', which tokenizer\.json lacks"),
        ({"bos_token": None}, {"bos": "always"}, r"names no bos_token.*set tokenize\.bos to auto or never"),
        ({"bos_token": "<b>"}, {}, "names the beginning-of-text token '<b>'"),
        (
            {"pad_token": "<|endoftext|>"},
            {},
            r"pads with its end-of-text token '<\|endoftext\|>'.*pad_token of its own",
        ),
    ],
)
def test_what_is_missing_or_means_two_things_is_refused(found, roles, params, message):
    with pytest.raises(ValueError, match=message):
        found("neox", roles=roles, **params)


def test_padding_with_the_end_token_is_no_matter_where_none_is_put(found):
    assert found("neox", roles={"pad_token": "<|endoftext|>"}, eos="never").after is None
    assert found("neox", roles={"eos_token": None}, eos="never").facts["eos_id"] is None


def test_a_vocabulary_that_does_not_fit_is_refused(found):
    tokenizer = Tokenizer.from_str(like("neox"))
    assert found("neox", tokenizer).kind == np.dtype("<u2")
    assert found("neox", tokenizer, dtype="int32").kind == np.dtype("<i4")
    tokenizer.add_tokens([f"<{number}>" for number in range(65_536 - tokenizer.get_vocab_size())])
    assert found("neox", tokenizer).kind == np.dtype("<i4")  # Megatron-LM's rule leaves some room
    assert found("neox", tokenizer, dtype="uint16").kind == np.dtype("<u2")
    tokenizer.add_tokens(["<one more>"])
    with pytest.raises(
        ValueError, match=r"tokenize\.dtype: the ids of a vocabulary of 65,537 tokens do not fit uint16"
    ):
        found("neox", tokenizer, dtype="uint16")


def test_tokens_stand_around_each_document():
    ids, lengths = np.array([1, 2, 3], np.uint16), np.array([2, 1])
    assert surrounded(ids, lengths, None, 9)[0].tolist() == [1, 2, 9, 3, 9]
    assert surrounded(ids, lengths, 8, None)[0].tolist() == [8, 1, 2, 8, 3]
    made, longer = surrounded(ids, lengths, 8, 9)
    assert (made.tolist(), longer.tolist(), made.dtype) == ([8, 1, 2, 9, 8, 3, 9], [4, 3], np.uint16)
    assert surrounded(ids[:0], lengths[:0], 8, 9)[0].tolist() == []


@given(
    st.lists(st.lists(st.integers(0, 7), min_size=1), max_size=9),
    st.sampled_from([None, 8]),
    st.sampled_from([None, 9]),
)
def test_documents_are_what_stands_between(documents, before, after):
    ids = np.array([token for document in documents for token in document], np.uint16)
    made, lengths = surrounded(ids, np.array([len(d) for d in documents], np.int64), before, after)
    whole = [[*[before] * (before is not None), *d, *[after] * (after is not None)] for d in documents]
    assert made.tolist() == [token for document in whole for token in document]
    assert lengths.tolist() == [len(document) for document in whole]


@given(st.lists(st.integers(1, 50), max_size=9), st.integers(1, 12))
def test_pieces_are_full_but_the_last(lengths, longest):
    pieces, counts = cut(np.array(lengths, np.int64), longest)
    at = iter(pieces.tolist())
    for length, count in zip(lengths, counts.tolist(), strict=True):
        mine = [next(at) for _ in range(count)]
        assert mine[:-1] == [longest] * (count - 1)
        assert 0 < mine[-1] <= longest
        assert sum(mine) == length
    assert next(at, None) is None


def test_three_documents_of_300_million_tokens_are_cut_without_them():
    pieces, counts = cut(np.array([300_000_000] * 3), 1 << 27)
    assert counts.tolist() == [3, 3, 3]
    assert pieces.sum() == 900_000_000
