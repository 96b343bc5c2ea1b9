"""The index: read where it lies, and understood by datasketch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from datasketch import MinHashLSH, MinHashLSHBloom

from pipelines.dedup.index import Index, index_file, lean_minhashes, open_index
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import document_signatures
from pipelines.store import Store, StoreError
from tests.pipelines.dedup.corpus import deduplicate, doc_id, documents, prose

ALL = DedupParams.model_validate({"simhash": {"enabled": True}, "verify": "shingles"})


def written(path: Path, texts: dict[str, str], config: DedupParams = ALL) -> Path:
    table, _ = document_signatures(documents("s", texts), config)
    path.write_bytes(index_file(table))
    return path


def test_what_was_written_is_read_back_column_by_column(tmp_path: Path) -> None:
    texts = {"a": prose(20), "none": "", "b": prose(30, 5)}
    table, _ = document_signatures(documents("s", texts), ALL)
    assert open_index(written(tmp_path / "i", texts)).equals(table.combine_chunks())


def test_rows_are_counted_over_all_files_also_empty_ones(tmp_path: Path) -> None:
    shards = [{"a": prose(20)}, {}, {"b": prose(30), "c": prose(40)}]
    index = Index.open([written(tmp_path / str(n), texts) for n, texts in enumerate(shards)])
    assert len(index) == 3
    assert index.starts.tolist() == [0, 1, 1, 3]
    assert index.column("doc_id").to_pylist() == [doc_id("s", name) for name in "abc"]
    assert index.numbers("shingles").tolist() == [16, 26, 36]
    both = np.stack([index.exact(0), index.exact(1)], axis=1).tobytes()
    assert both == b"".join(index.column("exact").to_pylist())
    assert [len(matrix) for matrix in index.minhash()] == [1, 0, 2]


def test_addresses_lead_to_the_signatures_and_sets_themselves(tmp_path: Path) -> None:
    import ctypes

    shards = [{"a": prose(20)}, {}, {"b": prose(30), "c": prose(40)}]
    index = Index.open([written(tmp_path / str(n), texts) for n, texts in enumerate(shards)])
    rows, sizes = np.array([2, 0, 1]), index.numbers("shingles")
    for row, signature, held in zip(rows, index.signature_addresses(rows), index.set_addresses(rows), strict=True):
        values = (ctypes.c_uint32 * index.permutations).from_address(int(signature))
        assert list(values) == index.column("minhash")[int(row)].as_py()
        values = (ctypes.c_uint32 * int(sizes[row])).from_address(int(held))
        assert list(values) == index.column("shingle_set")[int(row)].as_py()


def test_an_empty_index_has_no_documents() -> None:
    index = Index(())
    assert len(index) == 0
    assert index.exact(0).tolist() == []


def test_a_damaged_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    file = written(tmp_path / "i", {"a": prose(20)})
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(StoreError, match=r"is damaged .* delete it and run the stage again"):
        open_index(file)


def test_opening_an_index_costs_no_memory(tmp_path: Path) -> None:
    # 60 MB of signatures: their pages belong to the file, not to the process.
    rows = 130_000
    values = pa.array(np.random.default_rng(1).integers(0, 2**32, rows * 112, np.uint32))
    table = pa.table({"minhash": pa.FixedSizeListArray.from_arrays(values, 112)})
    (tmp_path / "i").write_bytes(index_file(table))
    code = f"""
from pathlib import Path
from pipelines.dedup.index import Index
def held():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("RssAnon"))
before = held()
index = Index.open([Path({str(tmp_path / "i")!r})])
assert sum(int(matrix.sum()) for matrix in index.minhash()) > 0
print(held() - before)
"""
    grown = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert grown < 10_000  # kB


def test_datasketch_finds_in_our_index_what_we_find(store: Store) -> None:
    texts = {"long": prose(105), "short": prose(100), "other": prose(100, 5000), "empty": ""}
    made = deduplicate(store, {"s": [texts]})
    banding = DedupParams().banding
    assert banding is not None
    lsh = MinHashLSH(num_perm=112, params=(banding.bands, banding.rows))
    bloom = MinHashLSHBloom(num_perm=112, params=(banding.bands, banding.rows), n=100, fp=0.001)
    seen: dict[str, bool] = {}
    [shard] = made.clusters.shards("index")
    for name, sketch in lean_minhashes(open_index(store.path(shard.object)), DedupParams().seed):
        seen[made.names[name]] = bool(bloom.query(sketch))
        bloom.insert(sketch)
        lsh.insert(name, sketch)
    assert set(seen) == {"long", "short", "other"}
    assert seen == {"long": False, "short": True, "other": False}
    sketches = dict(lean_minhashes(open_index(store.path(shard.object)), DedupParams().seed))
    near = lsh.query(sketches[doc_id("s", "short")])
    assert {made.names[name] for name in near} == {"long", "short"}
    assert {name: kept for name, (kept, _) in made.removed.items()} == {"short": "long"}
