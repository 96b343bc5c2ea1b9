"""Tokenizers that exist: found, known by their content, their roles named, and refused where they do not do."""

import json
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from pipelines.engines.local import Engine
from pipelines.tokens.tokenizer import make_tokenizer
from pipelines.tokens.tokenizer_params import TokenizerParams
from pipelines.training.model import read_tokenizer
from resources.settings import load_profile
from tests.pipelines.tokens.corpus import documents, shared
from tests.pipelines.tokens.tokenizers import KINDS, ROLES, SENTENCES, like

NEOX = {"tokenizer_class": "GPTNeoXTokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
LLAMA = {"bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>", "pad_token": "<unk>"}


def neox_like() -> Tokenizer:
    return Tokenizer.from_str(like("neox"))


def llama_like() -> Tokenizer:
    return Tokenizer.from_str(like("llama"))


def bert_like() -> Tokenizer:
    """Whole words without case or accents; all others are unknown."""
    words = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "the", "cat", "sat", "on", "mat", ",", ".", "42", "times"]
    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(words[:4])
    return tokenizer


def saved(tokenizer: Tokenizer, folder: Path, config: dict | None = None) -> Path:
    """The tokenizer in a folder, with a tokenizer_config.json if one is given."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def corpus(store, text="the Cat sat on the mat, 42 times."):
    return documents(store, {"web": [{"a": text}]})


def load(store, engine, path, text="the Cat sat on the mat, 42 times.", **asked):
    """(stats, files by name) of a loaded tokenizer."""
    draft = make_tokenizer(corpus(store, text), TokenizerParams(kind="loaded", path=str(path), **asked), engine)
    return draft.stats, {shard.name: store.get(shard.object) for shard in draft.parts["tokenizer"].shards}


def test_a_neox_like_tokenizer_is_taken_as_it_is(store, engine, tmp_path):
    folder = saved(neox_like(), tmp_path / "neox", NEOX | {"pad_token": "<|padding|>"})
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "config.json").write_text("{}")

    stats, files = load(store, engine, folder)

    assert files["tokenizer.json"] == (folder / "tokenizer.json").read_bytes()
    assert files["tokenizer_config.json"] == (folder / "tokenizer_config.json").read_bytes()
    assert files["chat_template.jinja"] == b"{{ messages }}"
    assert set(files) == {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"}
    assert (stats["bos_id"], stats["eos_id"], stats["pad_id"]) == (0, 0, 1)
    assert stats["vocabulary_size"] == neox_like().get_vocab_size()
    assert stats["round_trip"]["changed"] == stats["round_trip"]["hostile_texts_changed"] == 0
    assert stats["made_by"] == "loaded"


def test_composed_characters_are_counted_and_not_refused(store, engine, tmp_path):
    folder = saved(neox_like(), tmp_path / "neox", NEOX | {"pad_token": "<|padding|>"})
    stats, _ = load(store, engine, folder, text="cafe\u0301")
    assert (stats["round_trip"]["composed_otherwise"], stats["round_trip"]["changed"]) == (1, 0)


def test_a_llama_like_tokenizer_changes_its_own_sign_for_a_space_and_is_refused_unless_that_is_accepted(
    store, engine, tmp_path
):
    folder = saved(llama_like(), tmp_path / "llama", LLAMA)
    with pytest.raises(ValueError, match=r"changes 0 of 1 documents and 2 hostile texts.*tokenizer.lossy to 'accept'"):
        load(store, engine, folder)

    stats, files = load(store, engine, folder, lossy="accept")

    assert (stats["bos_id"], stats["eos_id"], stats["pad_id"]) == (1, 2, 0)
    assert files["tokenizer_config.json"] == (folder / "tokenizer_config.json").read_bytes()
    assert json.loads(files["special_tokens_map.json"])["eos_token"] == "</s>"
    assert stats["round_trip"]["hostile_texts_changed"] == 2  # once in a row of letters
    assert stats["round_trip"]["first_hostile_text_changed"].startswith(r"'\u2581 \u2581\u2581")


@pytest.mark.parametrize("kind", KINDS)
def test_tokenizers_of_every_make_load_and_say_whether_text_comes_back(store, engine, tmp_path, kind):
    folder = saved(Tokenizer.from_str(like(kind)), tmp_path / kind, ROLES[kind])
    asked = {} if "pad_token" in ROLES[kind] else {"pad_token": "<|pad|>", "reserved_tokens": ["<|pad|>"]}
    stats, files = load(store, engine, folder, text="  To be?\r\n\tÜber 吾輩 \U0001f600 42 ", lossy="accept", **asked)
    assert stats["round_trip"]["changed"] == (kind == "metaspace")  # it puts no sign before a text that begins with one
    assert None not in (stats["bos_id"], stats["eos_id"], stats["pad_id"])
    tokenizer = Tokenizer.from_buffer(files["tokenizer.json"])
    assert tokenizer.encode("to be").ids == Tokenizer.from_str(like(kind)).encode("to be").ids


def test_what_is_accepted_does_not_change_the_tokenizer(store, tmp_path):
    folder = saved(llama_like(), tmp_path / "llama", LLAMA)
    load(store, Engine(store, 1, attempt="1"), folder, lossy="accept")
    second = Engine(store, 1, attempt="2")
    with pytest.raises(ValueError, match="lossy"):
        load(store, second, folder)
    assert second.results[0].reused


def test_a_tokenizer_without_case_is_refused_and_names_the_document(store, engine, tmp_path):
    folder = saved(bert_like(), tmp_path / "bert", {"eos_token": "[SEP]", "pad_token": "[PAD]"})
    with pytest.raises(ValueError, match=r"changes 1 of 1 documents \(first a\) and \d+ hostile texts, first "):
        load(store, engine, folder)


def test_a_tokenizer_that_knows_no_bytes_loses_what_it_never_saw(store, engine, tmp_path):
    tokenizer = Tokenizer(models.BPE({"a": 0, "?": 1, "</s>": 2, "<pad>": 3}, [], unk_token="?"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["</s>", "<pad>"])
    folder = saved(tokenizer, tmp_path / "plain", {"eos_token": "</s>", "pad_token": "<pad>"})
    stats, _ = load(store, engine, folder, text="aab", lossy="accept")
    assert stats["round_trip"]["changed"] == 1


def test_roles_of_a_lone_tokenizer_json_are_named_in_the_profile(store, engine, tmp_path):
    file = saved(neox_like(), tmp_path / "neox") / "tokenizer.json"
    with pytest.raises(ValueError, match=r"which token ends a document: name it by tokenizer.eos_token; its special"):
        load(store, engine, file)
    with pytest.raises(ValueError, match=r"which token fills batches: name it by tokenizer.pad_token"):
        load(store, engine, file, eos_token="<|endoftext|>")

    stats, files = load(store, engine, file, eos_token="<|endoftext|>", pad_token="<|padding|>")

    config = json.loads(files["tokenizer_config.json"])
    assert (config["eos_token"], config["pad_token"]) == ("<|endoftext|>", "<|padding|>")
    assert (stats["bos_id"], stats["eos_id"], stats["pad_id"]) == (None, 0, 1)


def test_padding_that_is_the_end_of_text_is_refused_and_another_can_be_added(store, engine, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = saved(neox_like(), tmp_path / "neox", NEOX | {"pad_token": "<|endoftext|>"})
    with pytest.raises(ValueError, match=r"'<\|endoftext\|>' as end of text and as padding.*its special tokens are"):
        load(store, engine, folder)
    with pytest.raises(ValueError, match=r"has no token '<\|pad\|>'; name one of its own, or add it by"):
        load(store, engine, folder, pad_token="<|pad|>")

    stats, files = load(store, engine, folder, pad_token="<|pad|>", reserved_tokens=["<|pad|>", "<|user|>"])

    size = neox_like().get_vocab_size()
    assert (stats["pad_id"], stats["vocabulary_size"]) == (size, size + 2)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "config.json").unlink(missing_ok=True)
    found = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert (found.pad_token_id, found.eos_token_id, len(found)) == (size, 0, size + 2)
    assert found.convert_tokens_to_ids("<|user|>") == size + 1


def test_ids_with_gaps_count_up_to_the_largest(store, engine, tmp_path):
    said = json.loads(neox_like().to_str())
    said["model"]["vocab"] = {token: 10 * number for token, number in said["model"]["vocab"].items()}
    said["added_tokens"] = [token | {"id": 10 * token["id"]} for token in said["added_tokens"] if token["special"]]
    folder = saved(Tokenizer.from_str(json.dumps(said)), tmp_path / "gaps", NEOX | {"pad_token": "<|padding|>"})
    stats, files = load(store, engine, folder)
    assert stats["vocabulary_size"] == max(Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab().values()) + 1
    assert (stats["eos_id"], stats["pad_id"]) == (0, 10)
    pytest.importorskip("transformers")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert read_tokenizer(tmp_path)[0] == stats["vocabulary_size"]


def test_an_id_that_token_files_cannot_hold_is_refused(store, engine, tmp_path):
    tokenizer = neox_like()
    said = json.loads(tokenizer.to_str())
    token = next(iter(said["model"]["vocab"]))
    said["model"]["vocab"][token] = 2**31
    said["model"]["merges"] = []
    said["added_tokens"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "!", "pad_token": "#"}))
    with pytest.raises(ValueError, match="has the id 2,147,483,648, and token files hold ids below 2,147,483,648"):
        load(store, engine, tmp_path)


def test_a_tokenizer_is_known_by_its_content_and_not_by_its_place(store, tmp_path):
    folder = saved(neox_like(), tmp_path / "neox", NEOX | {"pad_token": "<|padding|>"})
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    second, third = Engine(store, 1, attempt="2"), Engine(store, 1, attempt="3")
    load(store, Engine(store, 1, attempt="1"), folder)
    load(store, second, moved)
    (moved / "tokenizer_config.json").write_text(
        json.dumps(NEOX | {"pad_token": "<|padding|>", "padding_side": "left"})
    )
    load(store, third, moved)
    assert (second.results[0].reused, third.results[0].reused) == (True, False)


def test_a_tokenizer_that_changes_while_it_is_read_is_refused(store, engine, tmp_path, monkeypatch):
    folder = saved(neox_like(), tmp_path / "neox", NEOX | {"pad_token": "<|padding|>"})
    run = engine.run

    def changed_first(task):
        (folder / "tokenizer_config.json").write_text("{}")
        return run(task)

    monkeypatch.setattr(engine, "run", changed_first)
    with pytest.raises(ValueError, match="changed while it was read"):
        load(store, engine, folder)


def test_a_vocabulary_with_merges_alone_is_converted(store, engine, tmp_path):
    pytest.importorskip("transformers")
    neox = neox_like()
    neox.normalizer = normalizers.Sequence([])
    neox.model.save(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>", "pad_token": "<|padding|>"})
    )
    _, files = load(store, engine, tmp_path)
    text = "the cat's mat 42"
    assert Tokenizer.from_buffer(files["tokenizer.json"]).encode(text).ids == neox.encode(text).ids


def test_a_sentencepiece_model_is_converted(store, engine, tmp_path):
    pytest.importorskip("transformers")
    sentencepiece = pytest.importorskip("sentencepiece")
    pytest.importorskip("sentencepiece.sentencepiece_model_pb2", exc_type=Exception, reason="it needs another protobuf")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_prefix=str(tmp_path / "tokenizer"),
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        minloglevel=2,
    )
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(LLAMA | {"tokenizer_class": "LlamaTokenizer"}))
    stats, files = load(store, engine, tmp_path, lossy="accept")
    text = "to suffer the slings é"
    original = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    found = Tokenizer.from_buffer(files["tokenizer.json"]).encode(text, add_special_tokens=False)
    assert found.ids == original.encode(text)
    assert (stats["bos_id"], stats["eos_id"], stats["pad_id"]) == (1, 2, 0)


def test_a_sentencepiece_model_that_cannot_be_converted_is_told(store, engine, tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"holds tokenizer.model and no tokenizer.json, and transformers .* did not"):
        load(store, engine, tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no tokenizer.json and no other vocabulary in its folder, which holds: nothing"),
        ({"tokenizer.json": "{"}, "is not a tokenizer that the tokenizers library can read"),
        ({"tokenizer.json": None, "tokenizer_config.json": "[]"}, "of the tokenizer .* holds no keys"),
        (
            {"tokenizer.json": None, "tokenizer_config.json": "{"},
            "of the tokenizer .* is not JSON",
        ),
    ],
)
def test_what_is_no_tokenizer_is_told(store, engine, tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(neox_like().to_str() if content is None else content)
    folder = tmp_path if files else tmp_path / "empty"
    folder.mkdir(exist_ok=True)
    with pytest.raises(ValueError, match=message):
        load(store, engine, folder)


def test_a_place_where_nothing_is_and_a_name_that_is_not_in_the_cache_say_how_to_fetch_it(
    store, engine, tmp_path, monkeypatch
):
    with pytest.raises(ValueError, match=r"no folder and no file at .*hf download NAME"):
        load(store, engine, tmp_path / "missing")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    config = TokenizerParams(kind="loaded", name="nobody/nothing", revision="v1")
    with pytest.raises(ValueError, match="hf download nobody/nothing --revision v1"):
        make_tokenizer(corpus(store), config, engine)


def test_a_name_is_found_in_the_cache(store, engine, tmp_path, monkeypatch):
    cache = tmp_path / "models--someone--neox"
    saved(neox_like(), cache / "snapshots" / "abc123", NEOX | {"pad_token": "<|padding|>"})
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("abc123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    draft = make_tokenizer(corpus(store), TokenizerParams(kind="loaded", name="someone/neox"), engine)
    assert (draft.stats["eos_id"], draft.stats["pad_id"]) == (0, 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "loaded"}, "'loaded' needs a tokenizer, in path or name"),
        ({"path": "x"}, "kind is 'bpe': 'loaded' needs"),
        ({"kind": "loaded", "path": "x", "name": "y"}, "two places of one tokenizer"),
        ({"kind": "loaded", "path": "x", "revision": "y"}, "revision is of a name"),
    ],
)
def test_params_refuse_what_cannot_be(values, message):
    with pytest.raises(ValidationError, match=message):
        TokenizerParams(**values)


def test_a_path_is_placed_at_the_profile_and_not_recorded(tmp_path):
    (tmp_path / "p.yaml").write_text(
        "name: p\nsources: [{name: a, reader: text, path: .}]\ntokenizer: {kind: loaded, path: t}\n"
    )
    here = load_profile(tmp_path / "p.yaml").tokenizer
    assert here.path == str(tmp_path / "t")
    assert "path" not in here.recorded
    assert TokenizerParams.model_validate(TokenizerParams.restored(here.recorded, here)) == here
    trained = TokenizerParams()
    assert TokenizerParams.model_validate(TokenizerParams.restored(trained.recorded, here)) == trained


@pytest.mark.parametrize(
    ("file", "asked", "hostile"),
    [
        ("gpt_neo_tokenizer.json", {"eos_token": "<|endoftext|>", "pad_token": "<|padding|>"}, 0),
        ("llama_tokenizer.json", {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<unk>"}, 2),
    ],
)
def test_real_tokenizers_load(store, engine, file, asked, hostile):
    text = shared("books/alice30.txt").read_text(encoding="utf-8")[:20_000]
    stats, _ = load(store, engine, shared(f"tokenizers/{file}"), text=text, lossy="accept", **asked)
    assert stats["round_trip"]["hostile_texts_changed"] == hostile
    assert stats["round_trip"]["changed"] == 0
    assert 3 < stats["bytes_per_token"]["web"] < 5 and 1 < stats["tokens_per_word"] < 2


def test_the_words_of_a_pre_tokenizer_like_gpt4_are_kept_in_the_file(store, engine):
    draft = make_tokenizer(corpus(store), TokenizerParams(vocabulary=300, pattern="gpt4", digits="three"), engine)
    file = next(shard for shard in draft.parts["tokenizer"].shards if shard.name == "tokenizer.json")
    found = Tokenizer.from_buffer(store.get(file.object)).pre_tokenizer
    assert isinstance(found, pre_tokenizers.PreTokenizer)
    words = [word for word, _ in found.pre_tokenize_str("It's 12345 x!\n")]
    assert words == ["It", "'s", "Ġ", "123", "45", "Ġx", "!Ċ"]


# -- tokens that text can spell out, and ids that are left to chance ---------------------------------------------------


@pytest.mark.parametrize(
    ("added", "asked", "told"),
    [
        ("<eot>", {"eos_token": "<eot>"}, r"tokenizer\.eos_token: plain text can have the id of '<eot>'"),
        ("<eot>", {"eos_token": "a"}, r"tokenizer\.eos_token: plain text can have the id of 'a'"),
        ("<eot>", {"eos_token": "Ġto"}, r"tokenizer\.eos_token: plain text can have the id of 'Ġto'"),
        ("<think>", {"reserved_tokens": ["<think>"]}, r"tokenizer\.reserved_tokens: .*'<think>'"),
    ],
)
def test_a_token_with_a_role_that_text_can_spell_out_is_refused(store, engine, tmp_path, added, asked, told):
    tokenizer = neox_like()
    tokenizer.add_tokens([added])  # one that is not special
    folder = saved(tokenizer, tmp_path / "neox", NEOX | {"pad_token": "<|padding|>"})
    with pytest.raises(ValueError, match=told):
        load(store, engine, folder, **asked)


def test_merges_that_are_dropped_at_random_are_refused(store, engine, tmp_path):
    tokenizer = neox_like()
    tokenizer.model.dropout = 0.3
    folder = saved(tokenizer, tmp_path / "neox", NEOX | {"pad_token": "<|padding|>"})
    with pytest.raises(ValueError, match=r"other ids every time: set model\.dropout"):
        load(store, engine, folder)


def test_an_end_of_text_token_that_the_files_name_may_leave_the_usual_one_for_padding(store, engine, tmp_path):
    folder = saved(neox_like(), tmp_path / "chat", {"eos_token": "<|padding|>"})
    stats, _ = load(store, engine, folder, pad_token="<|endoftext|>")
    assert (stats["eos_id"], stats["pad_id"]) == (1, 0)


def test_a_config_that_describes_no_added_tokens_gets_along_with_reserved_ones(store, engine, tmp_path):
    folder = saved(neox_like(), tmp_path / "neox", NEOX | {"pad_token": "<|padding|>", "added_tokens_decoder": None})
    _, files = load(store, engine, folder, reserved_tokens=["<|user|>"])
    assert Tokenizer.from_buffer(files["tokenizer.json"]).token_to_id("<|user|>") is not None


def test_what_only_training_knows_is_refused_of_a_loaded_one():
    with pytest.raises(ValidationError, match="nfc: a loaded tokenizer is taken as it is"):
        TokenizerParams(kind="loaded", path="x", nfc=True)


def test_values_that_an_earlier_version_recorded_are_restored():
    assert TokenizerParams.restored({"vocabulary": 300}, TokenizerParams()) == {"vocabulary": 300, "path": None}
