"""Token shards as Parquet and Arrow files: every document, in order, with its ids."""

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
        draft = tokenize(documents(store, {source: texts}), tokenizer, TokenizeParams(longest_document=20), engine)
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
    assert (made.documents, made.tokens) == (len(table), sum(shards.table("token_documents")["tokens"].to_pylist()))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in made.files)
    assert [path.name[:4] for path in made.files] == ["web-", "web-", "book"]


def test_a_file_that_is_there_is_left_alone(shards, tmp_path):
    (first, *_) = export_tokens(shards, tmp_path, "parquet").files
    before = first.read_bytes()
    with pytest.raises(FileExistsError, match="exists already; name a new folder"):
        export_tokens(shards, tmp_path, "parquet")
    assert first.read_bytes() == before


def test_an_export_that_breaks_off_leaves_no_file_of_that_name(shards, tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(export_module, "_batches", broken)
    with pytest.raises(OSError, match="disk full"):
        export_tokens(shards, tmp_path, "parquet")
    assert list(tmp_path.glob("*.parquet")) == []
