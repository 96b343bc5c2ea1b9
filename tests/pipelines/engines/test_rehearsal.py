"""A rehearsal: what is at hand is handed out, nothing is done, and the store stays as it is to the last time stamp."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.dataset import Draft, Version, join_parts, seal
from pipelines.engines.local import Engine
from pipelines.engines.rehearsal import NotDone, Rehearsal, StoreView
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.store import Store, StoreError


def reject(inputs: Inputs, number: int) -> Iterable[Made]:
    yield "rejects", pa.table({"source": ["s"], "uri": [str(number)], "reason": ["r"], "detail": [None]})
    yield Stats({"number": number})


def explode(inputs: Inputs, number: int) -> Iterable[Made]:
    raise AssertionError("a task was done in a rehearsal")


def tasks(numbers: Iterable[int], run=reject) -> list[Task]:
    return [Task(run, "test.reject", 1, {"number": number}, payload=number) for number in numbers]


def contents(store: Store) -> dict[str, tuple[int, int]]:
    """Every file and folder of a store, with size and modification time."""
    return {
        str(path): (path.stat().st_size if path.is_file() else 0, path.stat().st_mtime_ns)
        for path in Path(store.root).rglob("*")
    }


@pytest.fixture
def view(store: Store) -> Iterable[StoreView]:
    with StoreView(store.url) as view:
        yield view


def test_results_at_hand_are_handed_out_and_remembered(store: Store, view: StoreView) -> None:
    made = Engine(store, 1).charged_to("earlier").map(tasks(range(3)))
    rehearsal = Rehearsal(view, 1)

    found = [*rehearsal.map(tasks(range(2), explode)), rehearsal.run(tasks([2], explode)[0])]

    assert [result.parts for result in found] == [result.parts for result in made]
    assert rehearsal.results == found
    assert all(result.reused and result.made_by == "earlier" for result in found)


def test_a_missing_result_ends_the_rehearsal_and_says_which(store: Store, view: StoreView) -> None:
    Engine(store, 1).map(tasks([0, 2]))
    rehearsal = Rehearsal(view, 1)

    with pytest.raises(NotDone, match=r"1 of 3 results of test\.reject are not there yet"):
        rehearsal.map(tasks(range(3), explode))

    assert [(task.payload, result is not None) for task, result in rehearsal.asked] == [
        (0, True),
        (1, False),
        (2, True),
    ]


def test_a_result_whose_bytes_are_gone_is_missing(store: Store, view: StoreView) -> None:
    (result,) = Engine(store, 1).map(tasks([0]))
    store.path(result.parts["rejects"].shards[0].object).unlink()

    with pytest.raises(NotDone):
        Rehearsal(view, 1).map(tasks([0], explode))


def test_the_store_stays_as_it_is_to_the_last_time_stamp(store: Store, view: StoreView) -> None:
    Engine(store, 1).map(tasks([0]))
    work = store.scratch("hints") / "hashes.json"
    work.write_text("{}")
    before = contents(store)

    (result,) = Rehearsal(view, 1).map(tasks([0]))
    version = seal(view, Draft(join_parts([result.parts])), asset="rejected", params={"other": True})
    replacement = view.scratch("hints") / "hashes.tmp"
    replacement.write_text('{"changed": true}')
    replacement.replace(view.scratch("hints") / "hashes.json")
    view.scratch("never used")

    assert Version.load(view, version.id) == version
    assert (view.scratch("hints") / "hashes.json").read_text() == '{"changed": true}'
    assert contents(store) == before
    with pytest.raises(StoreError, match="no whole version"):
        store.version(version.id)


def test_scratch_shows_the_files_of_the_real_folder(store: Store, view: StoreView) -> None:
    (store.scratch("hints") / "hashes.json").write_text("known")

    assert (view.scratch("hints") / "hashes.json").read_text() == "known"


def test_a_version_that_the_store_has_is_the_stores(store: Store, view: StoreView) -> None:
    real = seal(store, Draft({}, {"note": "real"}), asset="a")

    assert seal(view, Draft({}, {"note": "rehearsed"}), asset="a") == real


@pytest.mark.parametrize(
    "write",
    [
        lambda view: view.put(b"bytes"),
        lambda view: view.put_file(Path(__file__)),
        lambda view: view.record_action("0" * 64, {"parts": {}}),
    ],
)
def test_who_wants_to_write_has_work_to_do(store: Store, view: StoreView, write) -> None:
    with pytest.raises(NotDone):
        write(view)

    assert not Path(store.root).exists()


def test_nothing_is_removed_through_a_view(view: StoreView) -> None:
    with pytest.raises(StoreError, match="only looked at"):
        view.gc([])
