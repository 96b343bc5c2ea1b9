"""Perplexity by a file of KenLM: the package's own scores, how text is cut, and which model it is."""

import json
import math
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dataset import Dataset
from pipelines.engines.local import Engine
from pipelines.filters.perplexity.arpa import write_arpa
from pipelines.filters.perplexity.kenlm_file import OWN_READER, Folded, KenlmFile, Pieces, Whitespace, likelihoods
from pipelines.filters.perplexity.likelihood import score_table
from pipelines.filters.perplexity.ngram_training import NgramTrainer
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.perplexity.stage import score_perplexity, train_perplexity
from pipelines.filters.words import folded_words, language_model_alphabet
from pipelines.pretrained import ModelError
from pipelines.store import Store
from tests.pipelines.filters.corpus import column, documents, published, trained_model

kenlm = pytest.importorskip("kenlm", reason="the kenlm module is not installed")

ARPA = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.5
-0.7\t</s>
-0.6\tcat\t-0.3
-0.8\tsees\t-0.2

\\2-grams:
-0.1\t<s> cat
-0.2\tcat sees
-0.4\tsees </s>

\\end\\
"""
"""Log10 probabilities, and of words that something may follow, the weight of backing off."""


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "small.arpa"
    path.write_text(ARPA)
    return path


def config(path: Path, max_scored_tokens: int = 10**6, **values: Any) -> PerplexityParams:
    asked = {"path": str(path), **values}
    return PerplexityParams(model="kenlm", kenlm=asked, max_scored_tokens=max_scored_tokens)


def found(asked: PerplexityParams, *texts: str, reader: str = "kenlm") -> list[tuple[float, int, int]]:
    """Log10 probability, tokens and bytes of each text."""
    said = likelihoods(KenlmFile.find(asked), reader, column(list(texts)), asked.max_scored_tokens)
    log10 = (said.log_probability / math.log(10)).round(4).tolist()
    return list(zip(log10, said.tokens.tolist(), said.bytes.tolist(), strict=True))


def test_each_line_is_a_sentence_with_its_end_or_the_text_is_one_without(arpa: Path) -> None:
    """By hand: p(cat|<s>) 0.1, p(sees|cat) 0.2, p(</s>|sees) 0.4; a dog is unknown: 0.2 for backing off, and 1."""
    assert found(config(arpa), "cat sees", "cat sees\n\ncat sees\n", "cat sees dog") == [
        (-0.7, 3, 8),
        (-1.4, 6, 19),
        (-0.1 - 0.2 - 1.2 - 0.7, 4, 12),
    ]
    whole = config(arpa, sequence="document")
    assert found(whole, "cat sees", "cat\nsees", "", " \n") == [(-0.3, 2, 8), (-0.3, 2, 8), (0, 0, 0), (0, 0, 2)]


def test_scores_are_those_of_the_package(tmp_path: Path) -> None:
    trainer = NgramTrainer(3, 10**6, 1)
    trainer.add(pa.array(["the cat sees the dog", "the dog sees a cat , and the cat sleeps"] * 3))
    write_arpa(trainer.estimate(), tmp_path / "model.arpa")
    asked = config(tmp_path / "model.arpa")
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    texts = ["the cat sees a dog", "the dog sleeps , and the zebra sees", "日本語 the"]
    scores = score_table(column(["a", "b", "c"]), likelihoods(KenlmFile.find(asked), "kenlm", column(texts), 10**6))
    assert scores["perplexity"].to_pylist() == pytest.approx([theirs.perplexity(text) for text in texts])
    bits = [-theirs.score(text) * math.log2(10) / len(text.encode()) for text in texts]
    assert scores["bits_per_byte"].to_pylist() == pytest.approx(bits)


def test_without_the_package_our_own_reader_gives_the_same(
    store: Store, engine: Engine, arpa: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: Dataset
) -> None:
    texts = ("cat sees", "cat sees dog\n\nsees cat", "", "dog")
    for asked in (config(arpa), config(arpa, sequence="document"), config(arpa, 3)):
        assert found(asked, *texts, reader=OWN_READER) == found(asked, *texts)

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("pipelines.filters.perplexity.kenlm_file.version", missing)
    assert train_perplexity(reference, config(arpa), engine).stats["reference"]["documents"] == 3
    damaged = tmp_path / "damaged.arpa"
    damaged.write_bytes(arpa.read_bytes().replace(b"\\end\\", b""))
    with pytest.raises(ModelError, match=r"kenlm\.path cannot be read: .*damaged\.arpa, line \d+: the file ends here"):
        train_perplexity(reference, config(damaged), engine)
    binary = tmp_path / "model.bin"
    binary.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    with pytest.raises(ModelError, match=r"model\.bin is a binary file, which needs kenlm.*pip install"):
        train_perplexity(reference, config(binary), engine)


@pytest.mark.parametrize(("limit", "expected"), [(2, (-0.3, 2, 8)), (3, (-0.7, 3, 8)), (4, (-0.8, 4, 12))])
def test_a_long_text_is_read_up_to_the_limit(arpa: Path, limit: int, expected: tuple[float, int, int]) -> None:
    assert found(config(arpa, limit), "cat sees\ncat sees") == [expected]


def test_words_of_a_text_that_look_like_marks_are_unknown_words(arpa: Path) -> None:
    marks, unknown = found(config(arpa), "cat <s> </s>", "cat dog dog")
    assert marks[:2] == unknown[:2]


def test_how_text_can_be_cut(tmp_path: Path) -> None:
    import tokenizers

    line = "Zwei  Kätzchen, 22 Räder"
    assert Whitespace().sentence(line).split() == ["Zwei", "Kätzchen,", "22", "Räder"]
    assert Folded().sentence(line).split() == ["zwei", "kätzchen", ",", "00", "räder"]
    assert [Whitespace().reach(line, n) for n in (1, 2, 3)] == [4, 16, 19]
    assert [Folded().reach(line, n) for n in (1, 2, 3)] == [4, 15, 16]
    tokenizer = tokenizers.SentencePieceBPETokenizer()
    tokenizer.train_from_iterator([line], vocab_size=20, show_progress=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    pieces = Pieces(tmp_path / "tokenizer.json")
    words = pieces.sentence("Räder 2").split(" ")
    assert "".join(words) == "▁Räder▁2"
    assert pieces.reach("Räder 2", len(words)) == len("Räder 2".encode())


def test_pieces_are_of_the_whole_text_and_of_nothing_else(tmp_path: Path) -> None:
    """Given a tokenizer.json as models have it: it cuts texts off, fills them up, and knows a mark by its name."""
    import tokenizers

    tokenizer = tokenizers.SentencePieceBPETokenizer(unk_token="<unk>")
    tokenizer.train_from_iterator(["<pad> cat sees"], vocab_size=60, special_tokens=["<pad>"], show_progress=False)
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=20, pad_token="<pad>")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    words = Pieces(tmp_path / "tokenizer.json").sentence("cat <pad> sees cat").split(" ")
    assert "".join(words) == "▁cat▁<pad>▁sees▁cat"
    assert "<pad>" not in words


@given(st.text())
def test_folded_words_are_those_of_our_own_model(line: str) -> None:
    line = line.encode("utf-8", "ignore").decode()
    assert Folded().sentence(line).encode().split() == [
        word.encode() for word in folded_words(line.encode(), language_model_alphabet())
    ]


@pytest.fixture
def reference(store: Store) -> Dataset:
    return documents(store, ["cat sees", "cat sees dog", "dog cat sees", ""], language=["en", "en", "fr", "en"])


def test_the_model_is_not_copied_and_thresholds_follow_its_scores_of_the_reference(
    store: Store, engine: Engine, arpa: Path, reference: Dataset
) -> None:
    model = trained_model(store, reference, config(arpa), engine)
    (file,) = model.shards("perplexity_model")
    described = json.loads(store.get(file.object))
    assert described["model"] == {"kind": "kenlm", "sha256": KenlmFile.find(config(arpa)).identity}
    assert described["documents"] == 3
    assert described["quantiles"][0] == pytest.approx(10 ** (0.7 / 3))
    assert described["by_language"]["en"]["quantiles"] == pytest.approx([10 ** (0.7 / 3), 10 ** (2.2 / 4)])

    draft = score_perplexity(reference, model, config(arpa), engine)
    made = published(store, draft, "perplexity_scores", "book").table("perplexity")
    assert made["perplexity"].is_null().to_pylist() == [False, False, False, True]
    assert made["fold"].null_count == 4
    assert draft.stats["too_short"] == 1
    assert draft.stats["model"] == described["model"]


def test_a_changed_file_or_another_cutting_is_another_model(
    store: Store, engine: Engine, arpa: Path, reference: Dataset
) -> None:
    model = trained_model(store, reference, config(arpa), engine)
    for asked in (config(arpa, words="folded"), config(arpa, sequence="document")):
        with pytest.raises(ValueError, match=r"scored by the model kenlm .*ask for kenlm "):
            score_perplexity(reference, model, asked, engine)
    arpa.write_text(ARPA.replace("-0.6", "-0.9"))
    with pytest.raises(ValueError, match="materialize perplexity_model again"):
        score_perplexity(reference, model, config(arpa), engine)


def test_a_file_that_is_replaced_before_it_is_opened_is_told(arpa: Path) -> None:
    known = KenlmFile.find(config(arpa))
    arpa.write_text(ARPA.replace("-0.6", "-0.9"))
    with pytest.raises(ModelError, match=r"small\.arpa changed while it was read; start the run again"):
        likelihoods(known, "kenlm", column(["cat sees"]), 10)


def test_a_file_that_cannot_be_used_is_told(store: Store, engine: Engine, tmp_path: Path, reference: Dataset) -> None:
    with pytest.raises(ModelError, match=r"missing\.arpa cannot be read .*correct kenlm\.path"):
        train_perplexity(reference, config(tmp_path / "missing.arpa"), engine)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("not a model", r'first non-empty line was "not a model" not \data\ at byte 11'),
        (ARPA[: ARPA.index("\n\n")], "End of file at byte 26"),
        (ARPA.replace("-0.6", "0.6"), "Positive log probability 0.6 in the model at byte 75"),
        (ARPA.replace("\t", " "), "Expected tab after probability in the 1-gram at byte 43"),
        (
            "mmap lm http://kheafield.com/code format version 4\n\0" + "\0" * 99,
            "Binary file has version 4 but this implementation expects version 5 so you'll have to use the ARPA to "
            "rebuild your binary",
        ),
    ],
)
def test_what_kenlm_says_of_a_damaged_file_is_told_in_one_sentence(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "broken.arpa"
    path.write_text(content)
    with pytest.raises(ModelError) as error:
        found(config(path), "cat")
    assert str(error.value) == (
        f"perplexity: kenlm cannot read {path} (kenlm.path): {told}; give a file that KenLM's build_binary made, or a "
        "whole ARPA file"
    )


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"path": None}, r"set kenlm\.path"),
        ({"words": "pieces"}, "set both or none"),
        ({"tokenizer": "tokenizer.json"}, "set both or none"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        PerplexityParams(model="kenlm", kenlm={"path": "model.arpa", **values})


def test_paths_are_placed_but_not_recorded(tmp_path: Path) -> None:
    asked = PerplexityParams(
        model="kenlm", kenlm={"path": "en.bin", "words": "pieces", "tokenizer": "/models/en.json"}
    ).placed(tmp_path)
    assert (asked.kenlm.path, asked.kenlm.tokenizer) == (str(tmp_path / "en.bin"), "/models/en.json")
    assert not {"path", "tokenizer"} & asked.recorded["kenlm"].keys()
    assert PerplexityParams.model_validate(PerplexityParams.restored(asked.recorded, asked)) == asked
