"""A sample for people, the file that they label, and what their labels say."""

import csv
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.filters.review import Sample, Sampler, review
from pipelines.filters.review_file import TOLD, ReviewError, read_labels, write_rows

SCORES = [0.05] * 60 + [0.35] * 6 + [0.93] * 12 + [0.97] * 12 + [None] * 3


def corpus(scores: list[float | None]) -> pa.Table:
    draw = random.Random(4)
    ids = [f"{draw.getrandbits(128):032x}" for _ in scores]
    return pa.table({"doc_id": pa.array(ids, pa.large_string()), "toxicity": pa.array(scores, pa.float64())})


def drawn(table: pa.Table, shards: int = 1, per_bin: int = 10, without: frozenset[str] = frozenset()) -> Sample:
    sampler = Sampler("toxicity", 0.95, per_bin)
    rows = -(-len(table) // shards)
    for number in range(shards):
        sampler.add("web", number, table.slice(number * rows, rows), without)
    return sampler.sample([("toxicity_scores", "web", "v1")])


def document(doc_id: str, text: str = "A text.") -> dict[str, str | None]:
    return {"doc_id": doc_id, "source": "web", "uri": "a.txt", "language": None, "text": text}


def labelled(path: Path, rows: dict[str, str], *, name: str = "label_ann") -> Path:
    path.write_text(f"doc_id,{name}\n" + "".join(f"{doc_id},{label}\n" for doc_id, label in rows.items()))
    return path


# -- the sample -----------------------------------------------------------------------------------------------------


def test_every_bin_gives_as_many_documents_and_the_threshold_is_an_edge() -> None:
    sample = drawn(corpus(SCORES))

    assert sample.edges == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    assert dict(zip(sample.bins, sample.sizes, strict=True)) == dict.fromkeys(sample.bins, 0) | {
        "to 0.1": 60,
        "0.3 to 0.4": 6,
        "0.9 to 0.95": 12,
        "above 0.95": 12,
    }
    scores = [document.score for document in sample.documents]
    assert {score: scores.count(score) for score in set(scores)} == {0.05: 10, 0.35: 6, 0.93: 10, 0.97: 10}
    assert sample.unscored == 3


@given(st.integers(1, 9))
def test_the_sample_does_not_depend_on_the_shards(shards: int) -> None:
    table = corpus(SCORES)

    def ids(sample: Sample) -> list[str]:
        return [document.doc_id for document in sample.documents]

    assert ids(drawn(table, shards)) == ids(drawn(table))


def test_a_document_stands_where_the_sample_says() -> None:
    table = corpus(SCORES)

    sample = drawn(table, 4)

    rows = -(-len(table) // 4)
    for one in sample.documents:
        assert table["doc_id"][one.shard * rows + one.row].as_py() == one.doc_id


def test_the_sample_is_in_no_order_of_scores_and_of_both_folds() -> None:
    sample = drawn(corpus(SCORES))
    scores = [document.score for document in sample.documents]

    assert scores not in (sorted(scores), sorted(scores, reverse=True))
    assert {int(one.doc_id[0], 16) % 2 for one in sample.documents} == {0, 1}


def test_forgotten_documents_are_not_drawn() -> None:
    table = corpus(SCORES)
    first = drawn(table).documents[0].doc_id

    again = drawn(table, without=frozenset([first]))

    assert first not in [document.doc_id for document in again.documents]
    assert len(again.documents) == 36  # another one stands in its place


def test_a_sample_is_read_as_it_was_written() -> None:
    sample = drawn(corpus(SCORES))

    assert Sample.of(sample.record()) == sample


# -- the file -------------------------------------------------------------------------------------------------------


def test_what_a_spreadsheet_would_compute_is_text(tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", " =cmd|' /C calc'!A0", "\t=1", "plain = text", "\x00bell\x07", 'a "b"\nc']
    path = tmp_path / "r.csv"

    write_rows(path, [document("d", text) for text in texts], ["ann", "ben"], 100)

    rows = list(csv.reader(path.open(encoding="utf-8-sig", newline="")))
    assert rows[0] == [*TOLD, "label_ann", "label_ben"]
    shown = [row[TOLD.index("text")] for row in rows[1:]]
    assert shown[:6] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "' =cmd|' /C calc'!A0", "'\t=1"]
    assert shown[6:] == ["plain = text", "\ufffdbell\ufffd", 'a "b"\nc']
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")  # Excel reads UTF-8 by this


def test_long_texts_are_cut_and_tell_their_length(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"

    assert write_rows(path, [document("d", "äöü" * 100), document("e")], ["ann"], 10) == 1

    first = next(csv.DictReader(path.open(encoding="utf-8-sig", newline="")))
    assert (first["text"], first["characters"]) == ("äöüäöüäöüä", "300")


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    write_rows(tmp_path / "r.csv", [], ["ann"], 10)

    with pytest.raises(FileExistsError):
        write_rows(tmp_path / "r.csv", [], ["ann"], 10)


def test_any_part_of_the_rows_is_read_in_any_order_from_several_copies(tmp_path: Path) -> None:
    sample = drawn(corpus(SCORES))
    ids = [document.doc_id for document in sample.documents]
    ann = labelled(tmp_path / "ann.csv", {ids[2]: "1", ids[0]: "0", ids[5]: ""})
    ben = tmp_path / "ben.csv"
    ben.write_text(
        f'text;label_ben;doc_id\r\n"two\nlines; and more";YES;{ids[0]}\r\n;;\r\n;1,0;{ids[1]}\r\n', "utf-8-sig"
    )

    found = read_labels([ann, ben], sample)

    assert found == {"ann": {ids[2]: True, ids[0]: False}, "ben": {ids[0]: True, ids[1]: True}}


def test_mistakes_name_the_line(tmp_path: Path) -> None:
    sample = drawn(corpus(SCORES))
    first, second = (document.doc_id for document in sample.documents[:2])
    path = tmp_path / "r.csv"

    def refused(content: str | bytes) -> str:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(ReviewError) as error:
            read_labels([path], sample)
        return str(error.value).removeprefix(str(path))

    head = "doc_id,text,label_ann\n"
    assert refused(f'{head}{first},"two\nlines",1\n{second},x,maybe\n').startswith(
        ", line 4: label_ann is 'maybe'; write 1"
    )
    assert refused(f"{head}{first},x,1\nother,x,0\n").startswith(", line 3: document 'other' is not in the sample")
    assert refused(f"{head}{first},x,1\n{first},x,0\n").startswith(
        f", line 3: label_ann gives document {first} a second"
    )
    assert refused(f"{head}{first},x,\n").startswith("no label stands in ")
    assert refused("id,text\n").startswith(", line 1: there must be columns doc_id and label_")
    assert refused("") == refused("id,text\n")
    assert refused("doc_id,label_a,label_a\n").startswith(", line 1: the column label_a stands twice")
    assert refused(head.encode() + b"x,\xff,1\n").startswith(", line 2: not UTF-8")
    path.unlink()
    with pytest.raises(ReviewError, match="cannot be read"):
        read_labels([path], sample)


# -- what the labels say --------------------------------------------------------------------------------------------


def test_labels_are_weighed_by_the_documents_that_they_stand_for() -> None:
    sample = drawn(corpus(SCORES))
    by_score = {score: [d.doc_id for d in sample.documents if d.score == score] for score in (0.05, 0.35, 0.93, 0.97)}
    said = dict.fromkeys(by_score[0.05], False) | dict.fromkeys(by_score[0.35], False)
    said |= {doc_id: number < 4 for number, doc_id in enumerate(by_score[0.93])}
    said |= {doc_id: number < 9 for number, doc_id in enumerate(by_score[0.97])}

    found = review(sample, {"ann": said})

    # Above 0.95: 12 documents, 9 of 10 positive: 10.8 of 12. From 0.9 to 0.95: 4 of 10 of 12, so 4.8 are missed.
    assert found.present.dropped == 12
    assert found.present.precision.value == pytest.approx(0.9)
    assert found.present.recall.value == pytest.approx(10.8 / 15.6)
    lower = next(quality for quality in found.thresholds if quality.threshold == 0.9)
    assert (lower.dropped, lower.recall.value) == (24, 1)
    assert lower.precision.value == pytest.approx(15.6 / 24)
    assert found.left_out == 0


def test_bins_that_nobody_labelled_are_told() -> None:
    sample = drawn(corpus(SCORES))
    top = {document.doc_id: True for document in sample.documents if document.score == 0.97}

    found = review(sample, {"ann": top})

    assert found.left_out == 78
    assert found.present.precision.value == 1


def test_a_document_is_what_most_say_and_agreement_is_told_for_each_pair() -> None:
    sample = drawn(corpus(SCORES))
    a, b, c, d = (document.doc_id for document in sample.documents[:4])
    labels = {
        "ann": {a: True, b: False, c: True, d: False},
        "ben": {a: True, b: False, c: False, d: False},
        "cleo": {a: True, b: True},
    }

    found = review(sample, labels)

    assert found.tied == 1  # c
    assert sum(stratum.labelled for stratum in found.strata) == 3
    assert sum(stratum.positive for stratum in found.strata) == 1
    by_pair = {one.annotators: (one.documents, one.kappa) for one in found.cohen}
    assert by_pair["ann", "ben"] == (4, pytest.approx(0.5))
    assert by_pair["ann", "cleo"] == (2, 0)
    assert found.fleiss is not None
    assert found.labelled == {"ann": 4, "ben": 4, "cleo": 2}


def test_without_a_threshold_no_quality_is_in_force() -> None:
    sampler = Sampler("perplexity", None, 2)
    sampler.add("web", 0, corpus([5.0, 200.0]).rename_columns(["doc_id", "perplexity"]))
    sample = sampler.sample([])

    found = review(sample, {"ann": {sample.documents[0].doc_id: True}})

    assert found.present is None
    assert found.record()["present"] is None
