"""Stage contamination_scores: which documents hold evaluation examples, where, and what becomes of them."""

import bz2
import gzip
import hashlib
import json
import lzma
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dataset import Dataset, Draft, read_table
from pipelines.engines import task
from pipelines.engines.local import Engine
from pipelines.filters.contamination import evaluation
from pipelines.filters.contamination.evaluation import Example, read_examples
from pipelines.filters.contamination.overlap import OverlapIndex, index_files, word_bounds
from pipelines.filters.contamination.params import ContaminationParams, EvaluationSet
from pipelines.filters.contamination.rules import without_paragraphs
from pipelines.filters.contamination.stage import contamination_of, score_contamination
from pipelines.filters.decide import filter_documents
from pipelines.filters.params import FilterParams
from pipelines.store import Store
from pipelines.text.words import split_words
from tests.pipelines.filters.corpus import (
    document_table,
    documents,
    paragraphs,
    perplexity_model,
    perplexity_scores,
    published,
    real,
    toxicity_scores,
)

QUESTION = "Anna has seven red apples and gives three of them to her brother. How many apples are left in her basket?"
OTHER = "A train leaves the old harbour at noon with forty travellers, and a third of them get off before the tunnel."
PROSE = "The miller carried the grain to the river in the morning, and nobody knew why he stayed there for so long."


def index_of(folder: Path, sets: dict[str, Sequence[str]], ngram: int = 13, common: int = 10) -> OverlapIndex:
    """An index of sets of texts, by way of its files."""
    named = [(name, [Example(str(n), text) for n, text in enumerate(texts)]) for name, texts in sets.items()]
    paths = []
    for name, content in index_files(named, ngram, common)[0]:
        (folder / name).write_bytes(content)
        paths.append(folder / name)
    return OverlapIndex.open(paths)


def scored(folder: Path, sets: dict[str, Sequence[str]], texts: list[str], **how: int) -> tuple[list[Any], list[Any]]:
    scores, hits = contamination_of(document_table(texts), index_of(folder, sets, **how))
    return scores.to_pylist(), hits.to_pylist()


# -- what matches ---------------------------------------------------------------------------------------------------


def test_a_document_that_holds_an_example_names_it_and_the_passage(tmp_path: Path) -> None:
    text = f"{PROSE}\n\nQ: {QUESTION.upper()} {PROSE}"

    (clean, dirty), (hit,) = scored(tmp_path, {"sums": [OTHER, QUESTION]}, [PROSE, text])

    assert (clean["contamination"], clean["hits"], clean["evaluation_set"]) == (0, 0, None)
    assert (dirty["evaluation_set"], dirty["example"], dirty["example_share"], dirty["hits"]) == ("sums", "1", 1, 1)
    assert dirty["contamination"] == pytest.approx(21 / (21 + 1 + 2 * 21))  # words: PROSE has 21 as well
    assert hit["text"] == QUESTION.upper().rstrip("?")
    assert text.encode()[hit["start"] :][: hit["length"]].decode() == hit["text"]
    assert (hit["doc_id"], hit["example"], hit["ngrams"]) == (dirty["doc_id"], "1", 21 - 13 + 1)


def test_case_punctuation_and_line_breaks_do_not_matter_and_twelve_words_are_no_match(tmp_path: Path) -> None:
    words = re.findall(r"\w+", QUESTION)
    disguised = "... ".join(words[:13]).title()

    found, almost = scored(tmp_path, {"sums": [QUESTION]}, [disguised.replace(" ", "\n"), " ".join(words[:12])])[0]

    assert (found["contamination"], found["example_share"]) == (1, 1 / 9)
    assert almost["hits"] == 0


def test_consecutive_ngrams_are_one_passage_and_a_gap_makes_two(tmp_path: Path) -> None:
    example = f"{QUESTION} {OTHER}"
    broken = f"{QUESTION} And then? {OTHER}"

    _, hits = scored(tmp_path, {"sums": [example]}, [broken])

    assert [hit["text"] for hit in hits] == [QUESTION.rstrip("?"), OTHER.rstrip(".")]
    assert len({hit["example_share"] for hit in hits}) == 1  # of the document, not of the passage


def test_a_short_example_is_looked_for_whole_and_a_shorter_one_not_at_all(tmp_path: Path) -> None:
    eight, seven = "Which sea lies between Sweden and old Finland?", "Which sea lies between Sweden and Finland?"
    named = [("quiz", [Example("8", eight), Example("7", seven), Example("0", "")])]

    scores, _ = scored(tmp_path, {"quiz": [eight, seven]}, [f"{PROSE} {eight} {PROSE}", f"{PROSE} {seven} {PROSE}"])

    assert [(row["hits"], row["example_share"]) for row in scores] == [(1, 1), (0, None)]
    counts = index_files(named, 13, 10)[1]["quiz"]
    assert (counts["examples"], counts["too_short"], counts["ngrams"]) == (3, 2, 1)


def test_phrases_that_many_examples_share_are_not_looked_for(tmp_path: Path) -> None:
    phrase = "Read the following passage with care and then answer each of the questions below it"
    examples = [f"{phrase} {number}" for number in range(4)]

    assert scored(tmp_path, {"a": examples[:3]}, [phrase], common=3)[0][0]["hits"] == 3
    assert scored(tmp_path, {"a": examples}, [phrase], common=3)[0][0]["hits"] == 0
    assert scored(tmp_path, {"a": examples[:2], "b": examples[2:]}, [phrase], common=3)[0][0]["hits"] == 0


@pytest.mark.parametrize(
    "nothing",
    [" ".join(map(str, range(1, 40))), "ha " * 40, "A B C D E F G H I J K L M", "aa bb 0 0 0 0 0 0 0 0 0 0 0 " * 3],
)
def test_rows_of_numbers_and_letters_and_repetitions_tell_nothing(tmp_path: Path, nothing: str) -> None:
    assert scored(tmp_path, {"code": [nothing]}, [nothing])[0][0]["hits"] == 0
    assert index_files([("code", [Example("0", nothing)])], 13, 10)[1]["code"]["nothing_telling"] == 1


def test_texts_without_spaces_are_compared_by_characters(tmp_path: Path) -> None:
    question, novel = "安娜有七个红苹果给了弟弟三个还剩几个", "吾輩は猫である名前はまだ無い"

    (found, clean), (hit,) = scored(tmp_path, {"zh": [question]}, [f"题目：{question}。", novel])

    assert (found["hits"], clean["hits"], hit["text"]) == (1, 0, question)


def test_the_example_that_most_is_shared_with_is_named_the_first_of_equals(tmp_path: Path) -> None:
    sets = {"a": [" ".join(QUESTION.split()[:15])], "b": [QUESTION, QUESTION]}

    (score,), hits = scored(tmp_path, sets, [QUESTION])

    assert (score["evaluation_set"], score["example"], score["hits"]) == ("b", "0", 3)
    assert sorted((hit["evaluation_set"], hit["example"], hit["ngrams"]) for hit in hits) == [
        ("a", "0", 3),
        ("b", "0", 9),
        ("b", "1", 9),
    ]


def test_empty_and_wordless_documents_are_clean(tmp_path: Path) -> None:
    scores, _ = scored(tmp_path, {"sums": [QUESTION]}, ["", "...", QUESTION, " \n"])

    assert [row["contamination"] for row in scores] == [0, 0, 1, 0]
    assert scored(tmp_path, {"sums": [QUESTION]}, []) == ([], [])
    assert scored(tmp_path, {"none": []}, [QUESTION])[0][0]["hits"] == 0


# -- against brute force --------------------------------------------------------------------------------------------

WORD = st.sampled_from(["aa", "bb", "c", "dd", "77", "ü"])
EXAMPLES = st.lists(st.lists(WORD, max_size=22), min_size=1, max_size=4)


@st.composite
def planted(draw: st.DrawFn) -> tuple[list[list[str]], list[list[str]]]:
    """Examples, and documents made of pieces of them and of other words."""
    examples = draw(EXAMPLES)
    texts = []
    for _ in range(draw(st.integers(1, 3))):
        text: list[str] = []
        for _ in range(draw(st.integers(0, 3))):
            text += draw(st.lists(WORD, max_size=3))
            source = draw(st.sampled_from(examples))
            start = draw(st.integers(0, 4))
            text += source[start : start + draw(st.integers(0, 22))]
        texts.append(text)
    return examples, texts


def brute_force(
    examples: list[list[str]], text: list[str], ngram: int, common: int
) -> tuple[float, set[tuple[int, int, int, float]]]:
    """Share of covered words, and (example, first word, words, share of the example) of every passage."""
    wanted: dict[int, set[tuple[str, ...]]] = {}
    for number, example in enumerate(examples):
        size = min(len(example), ngram) if len(example) >= 8 else 0
        grams = zip(*(example[k:] for k in range(size)), strict=False)
        wanted[number] = {
            gram for gram in grams if 3 * len({w for w in gram if len(w.encode()) > 1 and not w.isdigit()}) >= size
        }
    every = [gram for grams in wanted.values() for gram in grams]
    covered, passages = set(), set()
    for number, grams in wanted.items():
        grams = {gram for gram in grams if every.count(gram) <= common}
        size = min(len(examples[number]), ngram)
        at = [k for k in range(len(text) - size + 1) if tuple(text[k : k + size]) in grams]
        share = len({tuple(text[k : k + size]) for k in at}) / len(grams) if grams else 0.0
        for k in at:
            covered |= set(range(k, k + size))
            if k - 1 not in at:
                last = next(end for end in range(k, len(text)) if end + 1 not in at)
                passages.add((number, k, last - k + size, share))
    return len(covered) / max(len(text), 1), passages


@settings(max_examples=150)
@given(planted(), st.integers(8, 13), st.integers(1, 3), st.sampled_from([" ", "\n", ", ", " -- "]))
def test_scores_and_passages_are_those_of_brute_force(
    tmp_path_factory: pytest.TempPathFactory, both: tuple[Any, Any], ngram: int, common: int, between: str
) -> None:
    examples, texts = both
    written = [between.join(word.upper() for word in text) for text in texts]

    index = index_of(tmp_path_factory.getbasetemp(), {"e": [" ".join(e) for e in examples]}, ngram, common)
    scores, hits = contamination_of(document_table(written), index)

    for text, whole, score in zip(texts, written, scores.to_pylist(), strict=True):
        share, passages = brute_force(examples, text, ngram, common)
        assert score["contamination"] == pytest.approx(share)
        assert score["hits"] == len(passages)
        mine = [hit for hit in hits.to_pylist() if hit["doc_id"] == score["doc_id"]]
        found = set()
        for hit in mine:
            before = len(re.findall(r"\w+", whole.encode()[: hit["start"]].decode()))
            words = len(re.findall(r"\w+", hit["text"]))
            assert whole.encode()[hit["start"] :][: hit["length"]].decode() == hit["text"]
            found.add((int(hit["example"]), before, words, hit["example_share"]))
        assert found == passages


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
    | st.text("aB1 ,_漢字かなกั\u00ad\u0301\u200b\ufe0f", max_size=30)
)
def test_places_of_words_are_those_where_they_are_hashed(text: str) -> None:
    array = pa.array(["before", text], pa.large_string())
    words = split_words(array)
    hashes = words.hashes[words.offsets[1] :].tolist()

    bounds = word_bounds(array.slice(1), len(hashes))

    pieces = [text.encode()[start:stop].decode() for start, stop in bounds.tolist()]
    again = [split_words(pa.array([piece], pa.large_string())).hashes.tolist() for piece in pieces]
    assert again == [[value] for value in hashes]


# -- real sets ------------------------------------------------------------------------------------------------------


def real_sets() -> ContaminationParams:
    return ContaminationParams(
        sets={
            "gsm8k": EvaluationSet(path=str(real("benchmarks/gsm8k_test.jsonl")), fields=["question", "answer"]),
            "humaneval": EvaluationSet(
                path=str(real("benchmarks/HumanEval.jsonl.gz")), fields=["prompt", "canonical_solution"], id="task_id"
            ),
        }
    )


def test_every_planted_example_of_real_sets_is_found_and_books_hold_none(store: Store, engine: Engine) -> None:
    config = real_sets()
    book = paragraphs("alice30.txt") + paragraphs("botchan_en.txt")
    planted = []
    for name, wanted in config.sets.items():
        for number, example in enumerate(read_examples(name, wanted)):
            other_case = example.text.upper() if number % 2 else example.text.lower()
            separator = " -- " if number % 3 else "\n\n"
            disguised = re.sub(r"\W+|_+", separator, other_case)
            planted.append(f"{book[number % len(book)]} {disguised} {book[-number % len(book)]}")
    given = documents(store, planted + book)

    draft = score_contamination(given, config, engine)

    made = published(store, draft, "contamination_scores", "book")
    hits = made.table("contamination_hits").to_pylist()
    whole = {(hit["doc_id"], f"{hit['evaluation_set']}#{hit['example']}") for hit in hits if hit["example_share"] == 1}
    names = [f"gsm8k#{n}" for n in range(1319)] + [f"humaneval#HumanEval/{n}" for n in range(164)]
    ids = given.table("documents")["doc_id"].to_pylist()
    assert set(zip(ids, names, strict=False)) <= whole
    assert made.table("contamination")["hits"].to_pylist()[len(planted) :] == [0] * len(book)
    found = draft.stats["evaluation_sets"]
    assert [(s["examples"], s["examples_found"], s["examples_mostly_found"]) for s in found.values()] == [
        (1319, 1319, 1319),
        (164, 164, 164),
    ]
    assert draft.stats["contaminated_documents"] == len(planted)


# -- the stage ------------------------------------------------------------------------------------------------------


def write_set(folder: Path, texts: Sequence[str], name: str = "set.jsonl") -> EvaluationSet:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps({"q": text}) + "\n" for text in texts))
    return EvaluationSet(path=str(path), fields=["q"])


def test_without_sets_no_document_is_read_and_no_task_done(store: Store, engine: Engine) -> None:
    draft = score_contamination(documents(store, [QUESTION]), ContaminationParams(), engine)

    assert engine.results == []
    assert (draft.parts["contamination"].rows, draft.parts["contamination_hits"].rows) == (0, 0)


def test_a_set_is_known_by_its_content_not_by_its_path(tmp_path: Path, store: Store, engine: Engine) -> None:
    def reused(wanted: EvaluationSet) -> list[bool]:
        later = engine.charged_to("later")
        score_contamination(given, ContaminationParams(sets={"sums": wanted}), later)
        return [result.reused for result in later.results]

    given = documents(store, [QUESTION])
    score_contamination(given, ContaminationParams(sets={"sums": write_set(tmp_path, [QUESTION])}), engine)

    assert reused(write_set(tmp_path / "elsewhere", [QUESTION])) == [True, True]
    assert reused(write_set(tmp_path, [QUESTION, OTHER])) == [False, False]


def test_paths_are_no_part_of_what_a_version_records(tmp_path: Path) -> None:
    here, there = (ContaminationParams(sets={"s": write_set(tmp_path / d, [OTHER])}) for d in ("here", "there"))

    assert here.recorded == there.recorded
    assert ContaminationParams.model_validate(ContaminationParams.restored(here.recorded, there)) == there


def test_documents_and_examples_are_counted_by_set(tmp_path: Path, store: Store, engine: Engine) -> None:
    half = " ".join(QUESTION.split()[:14])
    sets = {
        "sums": write_set(tmp_path, [QUESTION, OTHER, "too short"]),
        "more": write_set(tmp_path, [PROSE], "b.jsonl"),
    }
    given = documents(store, [half, OTHER, PROSE, half + " " + OTHER, ""], shard_rows=2)

    draft = score_contamination(given, ContaminationParams(sets=sets), engine)

    told = draft.stats["evaluation_sets"]["sums"]
    assert (told["documents"], told["examples"], told["too_short"]) == (3, 3, 1)
    assert (told["examples_found"], told["examples_mostly_found"]) == (2, 1)
    assert draft.stats["evaluation_sets"]["more"]["examples_found"] == 1
    assert told["sha256"] == hashlib.sha256((tmp_path / "set.jsonl").read_bytes()).hexdigest()
    assert (draft.stats["documents_in"], draft.stats["contaminated_documents"], draft.stats["passages"]) == (5, 4, 5)
    assert [shard.rows for shard in draft.parts["contamination"].shards] == [2, 2, 1]
    assert [shard.rows for shard in draft.parts["contamination_hits"].shards] == [2, 3, 0]


# -- files ----------------------------------------------------------------------------------------------------------

ONE, TWO = (
    b'{"q": "one", "choices": ["a", "b"], "n": 3, "no": null}',
    b'{"q": "two", "choices": [], "n": 4, "no": null}',
)
LINES = b"\xef\xbb\xbf" + ONE + b"\n\n" + TWO
LIST = b"[" + ONE + b", " + TWO + b"]"


@pytest.mark.parametrize("content", [LINES, LIST, LINES.replace(b"\n", b"\r\n")])
@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_a_set_is_read_however_it_is_packed(tmp_path: Path, content: bytes, compress: Any) -> None:
    (tmp_path / "set").write_bytes(compress(content))
    wanted = EvaluationSet(path=str(tmp_path / "set"), fields=["q", "no", "choices"], id="n")

    assert read_examples("s", wanted) == [Example("3", "one\na\nb"), Example("4", "two")]


def test_a_set_with_the_longest_windows_of_zstd_is_read(tmp_path: Path) -> None:
    beyond_the_usual = zstandard.ZstdCompressionParameters(window_log=28, strategy=1, hash_log=6, chain_log=6)
    packer = zstandard.ZstdCompressor(compression_params=beyond_the_usual).compressobj()  # which knows no size
    (tmp_path / "set").write_bytes(packer.compress(LINES) + packer.flush())

    found = read_examples("s", EvaluationSet(path=str(tmp_path / "set"), fields=["q"]))

    assert [example.text for example in found] == ["one", "two"]


@pytest.mark.parametrize("reads", [[QUESTION, OTHER], [QUESTION, OTHER, QUESTION]])
def test_a_set_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, store: Store, engine: Engine, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    """Even where it then changes back: what is compared are the bytes that the index is made of."""
    contents = iter(write_set(tmp_path, [text], str(number)) for number, text in enumerate(reads))
    monkeypatch.setattr(evaluation, "set_content", lambda *_: Path(next(contents).path).read_bytes())

    with pytest.raises(ValueError, match="the evaluation set sums changed while it was read; start the run again"):
        score_contamination(
            documents(store, [QUESTION]), ContaminationParams(sets={"sums": write_set(tmp_path, [])}), engine
        )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, r"the evaluation set sums cannot be read from .*set \(No such file or directory\); correct contamin"),
        (b'{"q": "x"}\n{"a": 1, "b": 2}', "example 1 of sums has no field 'q'; it has a, b"),
        (b'{"q": "x"}\n{"q": ', "line 2 of the evaluation set sums is no JSON"),
        (b"[1]", "example 0 of sums is a JSON int, not an object"),
        (gzip.compress(b'{"q": "x"}' * 99)[:30], "the evaluation set sums at .*set is damaged"),
    ],
)
def test_a_set_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, store: Store, engine: Engine, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "set").write_bytes(content)
    config = ContaminationParams(sets={"sums": EvaluationSet(path=str(tmp_path / "set"), fields=["q"])})

    with pytest.raises(ValueError, match=told) as raised:
        score_contamination(documents(store, ["x"]), config, engine)

    assert "\n" not in str(raised.value)


# -- what becomes of it ---------------------------------------------------------------------------------------------


def decided(store: Store, engine: Engine, folder: Path, texts: list[str], **config: Any) -> tuple[Draft, Dataset]:
    """Documents after the filter, no other rule objecting."""
    given = documents(store, texts, shard_rows=2)
    sets = ContaminationParams(sets={"sums": write_set(folder, [QUESTION, OTHER])})
    draft = filter_documents(
        given,
        toxicity_scores(store, given, [0.0] * len(texts), rows=2),
        perplexity_scores(store, given, [50.0] * len(texts), rows=2),
        published(store, score_contamination(given, sets, engine), "contamination_scores", "book"),
        perplexity_model(store, [10.0, 100.0], {"en": 9}),
        FilterParams(**config),
        engine,
    )
    return draft, published(store, draft, "filtered_documents", "book")


def decisions(data: Dataset) -> list[tuple[Any, ...]]:
    columns = ["keep", "rule", "value", "threshold", "detail"]
    return [tuple(row.values()) for row in data.table("decisions").select(columns).to_pylist()]


def test_a_contaminated_document_is_dropped_and_names_its_example(store: Store, engine: Engine, tmp_path: Path) -> None:
    draft, data = decided(store, engine, tmp_path, [PROSE, f"{PROSE} {OTHER}", QUESTION])

    assert decisions(data) == [
        (True, "kept", None, None, None),
        (False, "contamination", pytest.approx(21 / 42), 0, "sums#1"),
        (False, "contamination", 1, 0, "sums#0"),
    ]
    assert data.table("documents")["text"].to_pylist() == [PROSE]
    assert draft.stats["dropped"]["contamination"] == 2
    assert draft.stats["cut"] == {"documents": 0, "sentences": 0, "paragraphs": 0, "bytes": 0}
    assert draft.stats["limits"]["max_contamination"] == 0


def test_a_limit_lets_smaller_shares_pass_and_null_everything(store: Store, engine: Engine, tmp_path: Path) -> None:
    texts = [f"{PROSE} {OTHER}", QUESTION]

    assert [row[1] for row in decisions(decided(store, engine, tmp_path, texts, max_contamination=0.5)[1])] == [
        "kept",
        "contamination",
    ]
    assert [row[1] for row in decisions(decided(store, engine, tmp_path, texts, max_contamination=None)[1])] == [
        "kept",
        "kept",
    ]


def test_paragraphs_are_cut_and_counted_and_a_document_of_which_nothing_is_left_is_dropped(
    store: Store, engine: Engine, tmp_path: Path
) -> None:
    whole = f"{PROSE}\n\nQ: {QUESTION}\nA: four\n \n{OTHER}\n\nThe end."
    draft, data = decided(store, engine, tmp_path, [PROSE, whole, QUESTION], decontaminate="paragraph")

    assert data.table("documents")["text"].to_pylist() == [PROSE, f"{PROSE}\n\nThe end."]
    size = len(whole) - len(f"{PROSE}\n\nThe end.")
    kept, cut, gone = decisions(data)
    assert kept == (True, "kept", None, None, None)
    assert cut == (True, "kept", None, None, f"sums#0; 2 paragraphs, {size} bytes cut")
    assert gone == (False, "contamination", 1, 0, "sums#0; nothing else is left")
    assert draft.stats["cut"] == {"documents": 1, "sentences": 0, "paragraphs": 2, "bytes": size}
    assert draft.stats["bytes_in"] - draft.stats["bytes_out"] == size + len(QUESTION)
    assert sum(draft.stats["kept_beyond"].values()) == 0


@pytest.mark.parametrize(("by", "read"), [("document", []), ("paragraph", [["doc_id", "start", "length"]])])
def test_hits_are_read_where_paragraphs_are_cut_and_without_their_texts(
    store: Store, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, read: list[Any]
) -> None:
    columns = []

    def spy(store: Store, name: str, wanted: Any = None) -> pa.Table:
        if "start" in pq.read_schema(store.path(name)).names:
            columns.append(wanted)
        return read_table(store, name, wanted)

    monkeypatch.setattr(task, "read_table", spy)

    _, data = decided(store, engine, tmp_path, [QUESTION], decontaminate=by)

    assert decisions(data)[0][:2] == (False, "contamination")
    assert columns == read


def test_a_changed_limit_looks_for_nothing_again(store: Store, engine: Engine, tmp_path: Path) -> None:
    decided(store, engine, tmp_path, [QUESTION])
    later = engine.charged_to("later")

    decided(store, later, tmp_path, [QUESTION], max_contamination=0.5)

    assert [result.reused for result in later.results] == [True, True, False]  # index, scores, decisions


@pytest.mark.parametrize(
    ("passage", "left", "paragraphs"),
    [
        ("one", "two\nzwei\n\n\nthree", 1),
        ("zwei", "one\n\nthree", 1),
        ("three", "one\n\ntwo\nzwei", 1),
        ("one\n\ntwo", "three", 2),
        ("one\n\ntwo\nzwei\n\n\nthree", "", 3),
    ],
)
def test_paragraphs_go_with_the_blank_lines_after_them(passage: str, left: str, paragraphs: int) -> None:
    text = "one\n\ntwo\nzwei\n\n\nthree"
    start = text.index(passage)

    assert without_paragraphs(text, [(start, start + len(passage))]) == (left, paragraphs)


@given(st.text("ab\n ü", max_size=30), st.lists(st.tuples(st.integers(0, 29), st.integers(1, 9)), max_size=3))
def test_what_is_not_hit_stays(text: str, places: list[tuple[int, int]]) -> None:
    size = len(text.encode())
    passages = [(start, min(start + length, size)) for start, length in places if start < size]

    left, count = without_paragraphs(text, passages)

    assert (left == text) if not passages else count > 0
    paragraphs = [match for match in re.finditer(rb"(?s).*?(?:\n *\n\s*|\Z)", text.encode()) if match[0]]
    hit = [any(start < p.end() and p.start() < stop for start, stop in passages) for p in paragraphs]
    stay = [p[0].decode().rstrip() for p, gone in zip(paragraphs, hit, strict=True) if not gone]
    assert count == sum(hit)
    remaining = [block.rstrip() for block in re.split(r"\n *\n\s*", left)]
    assert list(filter(None, remaining)) == list(filter(None, stay))
