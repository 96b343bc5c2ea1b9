"""Stage contamination_scores: which documents hold evaluation examples, and where."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.engines.local import Engine
from pipelines.filters.contamination.evaluation import Example, read_examples
from pipelines.filters.contamination.overlap import OverlapIndex, index_files, word_bounds
from pipelines.filters.contamination.params import ContaminationParams, EvaluationSet
from pipelines.filters.contamination.stage import contamination_of, score_contamination
from pipelines.store import Store
from pipelines.text.words import split_words
from tests.pipelines.filters.corpus import (
    OTHER,
    PROSE,
    QUESTION,
    document_table,
    documents,
    paragraphs,
    published,
    real,
    write_set,
)


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
