"""Token shards as Parquet and Arrow files: every document, in order, with its ids."""

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipelines.tokens.export as export_module
from pipelines.dataset import Dataset
from pipelines.tokens.export import export_tokens
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from tests.pipelines.tokens.corpus import documents, sealed
from tests.pipelines.tokens.test_shards import read

WEB = [{"a": "the cat", "b": "", "c": "dog"}, {"d": "the mat " * 9}]


@pytest.fixture
def shards(store, engine, tokenizer):
    """Two sources, one document of which is in pieces."""
    versions = []
    for source, texts in {"web": WEB, "books": [{"e": "a book"}]}.items():
        draft = tokenize(documents(store, {source: texts}), tokenizer, TokenizeParams(longest_document=7), engine)
        versions += sealed(store, draft, "token_shards", source).versions
    return Dataset("token_shards", tuple(versions), store)


def opened(path):
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("batch_tokens", [1, 15, 1 << 22])
def test_every_document_is_a_row_with_its_ids(shards, tmp_path, monkeypatch, kind, batch_tokens):
    monkeypatch.setattr(export_module, "BATCH_TOKENS", batch_tokens)
    made = export_tokens(shards, tmp_path / "out", kind)
    table = pa.concat_tables(opened(path) for path in made.files)
    assert table["input_ids"].to_pylist() == [
        ids for source in ("web", "books") for shard in read(shards.of(source), tmp_path / source) for ids in shard
    ]
    assert table["doc_id"].to_pylist() == shards.table("token_documents")["doc_id"].to_pylist()
    assert table["source"].to_pylist() == ["web"] * (len(table) - 1) + ["books"]
    assert table.schema.field("input_ids").type == pa.large_list(pa.uint16())
    assert (made.documents, made.pieces) == (4, len(table))
    assert made.pieces > made.documents
    assert made.tokens == sum(shards.table("token_documents")["tokens"].to_pylist())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in made.files)
    assert [path.name[:4] for path in made.files] == ["web-", "web-", "book"]


def test_a_file_that_is_there_is_left_alone(shards, tmp_path):
    *others, last = export_tokens(shards, tmp_path / "out", "parquet").files
    before = last.read_bytes()
    for other in others:
        other.unlink()
    with pytest.raises(FileExistsError, match="exists already; name a new folder"):
        export_tokens(shards, tmp_path / "out", "parquet")
    assert last.read_bytes() == before
    assert list((tmp_path / "out").iterdir()) == [last]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_export_that_breaks_off_leaves_nothing_and_the_next_one_finishes(shards, tmp_path, monkeypatch, kind, at):
    whole = export_tokens(shards, tmp_path / "whole", kind)
    batches, calls = export_module._batches, itertools.count()

    def broken(*arguments):
        yield from batches(*arguments)
        if next(calls) == at:
            raise OSError("disk full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
        patch.setattr(export_module, "_batches", broken)
        export_tokens(shards, tmp_path / "out", kind)
    assert list((tmp_path / "out").iterdir()) == []
    again = export_tokens(shards, tmp_path / "out", kind)
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in whole.files]
