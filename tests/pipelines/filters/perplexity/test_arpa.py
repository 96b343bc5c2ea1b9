"""ARPA files: read, they score as by kenlm; written and read, a model is the same; broken ones are refused by line."""

import gzip
import math
import random
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.filters.perplexity.arpa import read_arpa, write_arpa
from pipelines.filters.perplexity.ngram_model import NgramModel
from pipelines.filters.perplexity.ngram_training import NgramTrainer
from pipelines.filters.words import folded_words, language_model_alphabet
from tests.pipelines.filters.corpus import paragraphs, real

SMALL = r"""
\data\
ngram 1=5
ngram 2=3
ngram 3=1

\1-grams:
-1.5	<unk>
-99	<s>	-0.5
-1	</s>
-0.5	a	-0.25
-0.75	b	-0.125

\2-grams:
-0.2	<s> a	-0.1
-0.3	a b	-0.05
-0.4	b </s>

\3-grams:
-0.15	<s> a b

\end\
"""


def saved(tmp_path: Path, text: str = SMALL) -> Path:
    path = tmp_path / "model.arpa"
    path.write_text(text, encoding="utf-8")
    return path


def said(model: NgramModel, words: list[str]) -> list[float]:
    """Logarithms to base 10 of each word and of the end."""
    return [score / math.log(10) for _, score in model.word_log_probabilities(words, end=True)]


def test_a_small_file_scores_as_it_says(tmp_path: Path) -> None:
    """<s> a b </s>: two n-grams of the file, its 3-gram; after "a b" no end stands, so that backs off once.
    b b a: b after <s> backs off by -0.5; b after b, by -0.125; a after b, by -0.125. zebra is unknown."""
    model = read_arpa(saved(tmp_path))
    assert said(model, ["a", "b"]) == pytest.approx([-0.2, -0.15, -0.05 - 0.4])
    assert said(model, ["b", "b", "a"]) == pytest.approx([-0.5 - 0.75, -0.125 - 0.75, -0.125 - 0.5, -0.25 - 1])
    assert said(model, ["zebra"]) == pytest.approx([-0.5 - 1.5, -1])
    (total,), (tokens,) = model.score(pa.array(["a\tb \n"]), 10, end=True)
    assert (total / math.log(10), tokens) == (pytest.approx(-0.2 - 0.15 - 0.45), 3)


def test_kenlms_own_test_file_scores_as_kenlm_scores_it() -> None:
    """The file has n-grams with <unk>, backoffs above 1, and n-grams whose last words are no n-gram of their own."""
    kenlm = pytest.importorskip("kenlm", reason="the kenlm module is not installed")
    path = real("lm/kenlm_test.arpa")
    ours, theirs, draw = read_arpa(path), kenlm.Model(str(path)), random.Random(1)
    phrases = ["looking on a little more loin .", "also would consider higher looking", "to look a", "foo bar baz"]
    phrases += ["<unk> however <unk>", "zebra however zebra", *(set(ours.vocabulary) - {"<s>", "</s>"})]
    for _ in range(300):
        words = " ".join(draw.choices(phrases, k=draw.randrange(8))).split()
        assert said(ours, words) == pytest.approx([p for p, _, _ in theirs.full_scores(" ".join(words))], abs=1e-4)
        (total,), _ = ours.score(pa.array([" ".join(words)]), 10**6, end=True)
        assert total / math.log(10) == pytest.approx(theirs.score(" ".join(words)), abs=1e-4 * (len(words) + 1))


@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
def test_a_model_that_is_written_and_read_scores_the_same(tmp_path: Path, name: str) -> None:
    pieces = paragraphs("alice_11.txt")
    trainer = NgramTrainer(5, 1000, 2)
    trainer.add(pa.array(pieces[::2]))
    model = trainer.estimate()
    write_arpa(model, tmp_path / name)
    again = read_arpa(tmp_path / name, "folded")
    assert again.facts["ngrams"] == model.facts["ngrams"]
    (ours, tokens), (theirs, _) = (each.score(pa.array(pieces[1::2]), 10**6) for each in (model, again))
    assert theirs / tokens == pytest.approx(ours / tokens, abs=1e-6)
    cut = pa.array([" ".join(folded_words(piece.encode(), language_model_alphabet())) for piece in pieces[1::2]])
    assert read_arpa(tmp_path / name).score(cut, 10**6)[0].tolist() == theirs.tolist()
    write_arpa(again, tmp_path / "again.arpa")
    read = gzip.open if name.endswith(".gz") else open
    with read(tmp_path / name, "rb") as file:
        assert sorted(file) == sorted((tmp_path / "again.arpa").open("rb"))


def test_what_tools_disagree_about_is_read_too(tmp_path: Path) -> None:
    """Text before the file proper, <UNK> in capitals, CRLF, blanks between fields; and no <unk> at all: 10^-100."""
    text = "made by a tool\n" + SMALL.replace("<unk>", "<UNK>").replace("\t", "  ").replace("\n", "\r\n")
    assert said(read_arpa(saved(tmp_path, text)), ["zebra"]) == pytest.approx([-2, -1])
    text = SMALL.replace("-1.5\t<unk>\n", "").replace("1=5", "1=4")
    assert said(read_arpa(saved(tmp_path, text)), ["zebra"]) == pytest.approx([-100.5, -1])


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("\\data\\", "", 23, r"ends here, before \\data\\, so it is no ARPA file"),
        ("ngram 2=3", "ngram 3=3", 4, "'ngram 2=' and a number"),
        ("ngram 2=3", "ngram 2=x", 4, "'ngram 2=' and a number"),
        ("\\2-grams:", "\\3-grams:", 14, r"\\2-grams: should stand"),
        ("2=3", "2=4", 18, "4 lines of 2-grams were promised"),
        ("2=3", "2=2", 17, r"\\3-grams: should stand"),
        ("\ta b\t-0.05", "\ta", 16, "a logarithm and so many words"),
        ("<s> a b", "<s> a b\t-0.5", 20, "a logarithm and so many words$"),
        ("-0.3\ta b", "-0,3\ta b", 16, "'-0,3' is no number"),
        ("-0.3\ta b", "0.3\ta b", 16, "0.3 is no logarithm of a probability"),
        ("-0.3\ta b", "nan\ta b", 16, "nan is no logarithm"),
        ("-0.3\ta b", "-0.3\ta c", 16, "the word 'c' is not among the 1-grams"),
        ("-0.3\ta b", "-0.3\t<s> a", 16, "this 2-gram came before"),
        ("<s> a b", "b a b", 20, "the first words of this 3-gram are no 2-gram"),
        ("\tb\t", "\ta\t", 12, "this word came before"),
        ("\tb\t", "\t</s>\t", 12, "this word came before"),
        ("-1\t</s>\n", "-1\tc\n", 8, "the 1-grams lack </s>"),
        ("\\end\\", "", 23, "ends here, before"),
        ("\\end\\", "more", 22, r"\\end\\ should stand here"),
    ],
)
def test_a_file_that_is_not_whole_or_not_arpa_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, reason: str
) -> None:
    assert old in SMALL
    with pytest.raises(ValueError, match=rf"model\.arpa, line {line}: .*{reason}"):
        read_arpa(saved(tmp_path, SMALL.replace(old, new, 1)))


def test_damaged_bytes_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "model.arpa"
    path.write_bytes(SMALL.encode().replace(b"\ta", b"\t\xff").replace(b" a", b" \xff"))
    with pytest.raises(ValueError, match="line 11: this word is not UTF-8"):
        read_arpa(path)
    packed = gzip.compress(SMALL.encode())
    path.write_bytes(packed[:-30])
    with pytest.raises(ValueError, match=r"line \d+: the file is damaged from here on"):
        read_arpa(path)
