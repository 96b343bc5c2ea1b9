"""Arrow files, streams and saved datasets; and what Parquet columns hold that Python has no value for."""

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TABLE = pa.table({"text": ["one", None, "three"], "n": [1, 2, 3]})


def write_stream(path: Path, table: pa.Table, rows: int = 2) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def write_file(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


@pytest.mark.parametrize("write", [write_stream, write_file])
def test_arrow_files_and_streams_are_found_by_content(folder: Path, read: Callable, write: Callable) -> None:
    write(folder / "anything.bin", TABLE)
    got = read()
    assert got.texts == {"anything.bin#0": "one", "anything.bin#2": "three"}
    assert got.reasons == {"anything.bin#1": "missing_field"}
    assert got.documents[0]["metadata"] == '{"n":1}'


@pytest.mark.parametrize("write", [write_stream, write_file])
def test_a_truncated_arrow_file_keeps_whole_batches(folder: Path, read: Callable, write: Callable) -> None:
    write(folder / "a.arrow", pa.table({"text": [f"{number} " * 50 for number in range(100)]}))
    data = (folder / "a.arrow").read_bytes()
    (folder / "a.arrow").write_bytes(data[: len(data) // 2])
    got = read()
    assert got.reasons == {"a.arrow": "damaged_file"}
    assert len(got.documents) in range(40, 60)


def test_a_string_that_is_no_utf8_costs_its_row_only(folder: Path, read: Callable) -> None:
    bad = pa.array([b"one", b"\xff\xfe\xfa\xfb", b"three"]).view(pa.string())
    write_stream(folder / "a.arrow", pa.table({"text": bad}))
    got = read()
    assert got.texts == {"a.arrow#0": "one", "a.arrow#2": "three"}
    assert got.reasons == {"a.arrow#1": "not_utf8"}


def test_offsets_that_lead_out_of_the_data_are_damage(folder: Path, read: Callable) -> None:
    write_stream(folder / "a.arrow", pa.table({"text": ["x" * 40]}))
    data = bytearray((folder / "a.arrow").read_bytes())
    at = data.index((40).to_bytes(4, "little") + bytes(4))  # the string's end, padded
    data[at + 2] = 0x7F
    (folder / "a.arrow").write_bytes(data)
    assert read().reasons == {"a.arrow": "damaged_file"}


def test_a_dataset_on_disk_is_its_data_files_and_nothing_beside(folder: Path, read: Callable) -> None:
    for split in ("train", "test"):
        (folder / split).mkdir()
        for shard in range(2):
            write_stream(folder / split / f"data-0000{shard}-of-00002.arrow", pa.table({"text": [f"{split} {shard}"]}))
        names = [{"filename": f"data-0000{shard}-of-00002.arrow"} for shard in range(2)]
        (folder / split / "state.json").write_text(json.dumps({"_data_files": names, "_split": split}))
        (folder / split / "dataset_info.json").write_text('{"features": {}}')
    write_stream(folder / "train" / "cache-0123.arrow", pa.table({"text": ["a cache"]}))
    (folder / "test" / "data-00001-of-00002.arrow").unlink()
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    got = read()
    assert sorted(got.texts.values()) == ["test 0", "train 0", "train 1"]
    assert got.reasons == {"test/data-00001-of-00002.arrow": "vanished_file"}
    assert got.draft.stats["files_left_out"] == {"dataset_description": 5, "not_in_dataset": 1}


def test_names_beside_a_dataset_on_disk_stay_apart(folder: Path, read: Callable) -> None:
    """On Linux a backslash is a letter of a name; a name that is no UTF-8, or holds a '#', has a uri all the same."""
    (folder / "a").mkdir()
    (folder / "a" / "b.txt").write_text("in a folder")
    (folder / "a\\b.txt").write_text("beside it")
    odd = folder / os.fsdecode(b"#\xff")
    odd.mkdir()
    names = ["data-0.arrow", "gone #1.arrow", "gone \ud800.arrow"]
    (odd / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    write_stream(folder / "new", pa.table({"text": ["a row"]}))
    (folder / "new").rename(odd / "data-0.arrow")
    got = read()
    assert got.texts == {"a/b.txt#0": "in a folder", "a\\b.txt#0": "beside it", "%23%FF/data-0.arrow#0": "a row"}
    assert got.reasons == dict.fromkeys(["%23%FF/gone %231.arrow", "%23%FF/gone \ufffd.arrow"], "vanished_file")


@pytest.mark.parametrize("state", ["{", "[]", '{"_data_files": [{}]}', "[" * 100_000])
def test_another_state_json_is_a_file_like_any(folder: Path, read: Callable, state: str) -> None:
    (folder / "state.json").write_text(state)
    write_stream(folder / "rows.arrow", pa.table({"text": ["a row"]}))
    got = read()
    assert got.texts == {"rows.arrow#0": "a row"}
    assert set(got.reasons) <= {"state.json", "state.json#0"} and got.reasons


@pytest.mark.parametrize("write", [write_stream, write_file, lambda path, table: pq.write_table(table, path)])
def test_columns_of_the_same_name_lose_nothing(folder: Path, read: Callable, write: Callable) -> None:
    ones = [pa.array(["one"]), pa.array([1]), pa.array([2])]
    write(folder / "clear", pa.table(ones, names=["text", "n", "n"]))
    write(folder / "unclear", pa.table(ones, names=["text", "text", "n"]))
    got = read()
    assert [row["metadata"] for row in got.documents] == ['{"n":1,"n_2":2}']
    assert got.reasons == {"unclear": "ambiguous_column"}


def test_fields_of_the_same_name_inside_a_column_lose_nothing(folder: Path, read: Callable) -> None:
    twice = pa.StructArray.from_arrays([pa.array([1, 3]), pa.array([2, 4])], names=["a", "a"])
    lists = pa.ListArray.from_arrays([0, 1, 2], twice)
    odd = pa.StructArray.from_arrays([pa.array([1, None], pa.timestamp("ns"))], names=["t"])
    nothing = pa.array([None, None], twice.type)
    columns = [pa.array(["one", "two"]), twice, lists, odd, nothing]
    write_stream(folder / "a.arrow", pa.table(columns, names=["text", "s", "l", "odd", "nothing"]))
    first, second = (json.loads(row["metadata"]) for row in read().documents)
    assert (first["s"], first["l"]) == ({"a": 1, "a_2": 2}, [{"a": 1, "a_2": 2}])
    assert (second["s"], second["odd"], second["nothing"]) == ({"a": 3, "a_2": 4}, {"t": None}, None)
    assert first["odd"]["t"].startswith("1970-01-01 00:00:00.000000001")


def test_values_that_python_does_not_have_become_text(folder: Path, read: Callable) -> None:
    table = pa.table(
        {
            "text": ["one"],
            "nanoseconds": pa.array([1_000_000_001], pa.timestamp("ns")),
            "far": pa.array([300_000_000_000], pa.timestamp("s")),
            "long": pa.array([10**18], pa.duration("s")),
            "day": pa.array([datetime.date(2024, 2, 29)]),
            "words": pa.array(["a"]).dictionary_encode(),
        }
    )
    pq.write_table(table, folder / "a.parquet")
    metadata = json.loads(read().documents[0]["metadata"])
    assert metadata["nanoseconds"].startswith("1970-01-01 00:00:01")
    assert (metadata["day"], metadata["words"]) == ("2024-02-29", "a")
    assert set(metadata) == set(table.column_names) - {"text"}


def test_columns_may_differ_between_files_and_batches_are_small(folder: Path, read: Callable) -> None:
    pq.write_table(pa.table({"text": ["x" * 1000] * 3000}), folder / "a.parquet", row_group_size=100)
    pq.write_table(pa.table({"n": [1], "text": ["y"]}), folder / "b.parquet")
    pq.write_table(pa.table({"m": [None], "text": ["z"]}), folder / "c.parquet")
    got = read()
    assert len(got.documents) == 3002
    assert got.documents[2999]["uri"] == "a.parquet#2999"
