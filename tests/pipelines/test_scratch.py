"""Working folders of stages: gone when the work has ended, however it ended."""

import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.scratch import working_folder
from pipelines.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def held(store: Store) -> list[Path]:
    return [path for path in Path(store.root).glob("work/ngrams/*") if path.is_dir()]


def _work_for_ever(url: str, started: "multiprocessing.synchronize.Event") -> None:
    with working_folder(Store(url), "ngrams") as folder:
        (folder / "text").write_bytes(b"words")
        started.set()
        signal.pause()


def test_a_folder_goes_with_its_work_also_when_that_fails(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), working_folder(store, "ngrams") as folder:
        (folder / "text").write_bytes(b"words")
        assert held(store) == [folder]
        raise ZeroDivisionError

    assert not (Path(store.root) / "work" / "ngrams").exists()


def test_folders_come_and_go_at_once(store: Store) -> None:
    def work(_: int) -> None:
        for _ in range(300):
            with working_folder(store, "ngrams") as folder:
                (folder / "text").write_bytes(b"words")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    assert not (Path(store.root) / "work" / "ngrams").exists()


def test_what_a_killed_process_left_goes_and_what_one_at_work_holds_stays(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    started = context.Event()
    other = context.Process(target=_work_for_ever, args=(store.url, started))
    other.start()
    assert started.wait(30)
    [theirs] = held(store)

    with working_folder(store, "ngrams") as ours:
        assert sorted(held(store)) == sorted([theirs, ours])
    assert held(store) == [theirs]

    os.kill(other.pid or 0, signal.SIGKILL)
    other.join()
    with working_folder(store, "ngrams") as ours:
        assert held(store) == [ours]
    assert not held(store)
