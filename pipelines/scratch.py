"""Working folders below a store's scratch that are gone when the work has ended, in whatever way it ended."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pipelines.store import Store


@contextmanager
def working_folder(store: Store, kind: str) -> Iterator[Path]:
    """A folder of its own below the store's `work/<kind>`, removed in the end, on the file system of the store where
    that is local. What processes that were killed left there is removed before.
    """
    with _others_wait(store, kind) as shared:
        for left in shared.iterdir():
            if (lock := _lock(left)) is not None:  # whoever made it was killed
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
        made = TemporaryDirectory(dir=shared)
        lock = _lock(Path(made.name))
    try:
        with made as folder:
            yield Path(folder)
    finally:
        if lock is not None:
            os.close(lock)
        with _others_wait(store, kind) as shared, suppress(OSError):  # others may be at work there
            shared.rmdir()


@contextmanager
def _others_wait(store: Store, kind: str) -> Iterator[Path]:
    """The folder that all workers of a kind share. None of them looks for what was left while one makes its own, which
    is locked a moment later."""
    place = store.scratch_path(kind).parent
    place.mkdir(parents=True, exist_ok=True)
    gate = os.open(place, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(gate, fcntl.LOCK_EX)
        yield store.scratch(kind)
    finally:
        os.close(gate)


def _lock(folder: Path) -> int | None:
    """A lock on a folder, held until the descriptor is closed or the process ends; None where another has it."""
    with suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError:
            os.close(descriptor)
    return None
