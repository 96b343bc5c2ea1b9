"""Rehearse tasks: look each one up, do none. What a run would do is known before anybody pays for it.

A stage's body is called as ever, on this engine and on a view of the store that takes nothing in. The body goes on as
long as every result that it asks for is at hand, and ends with `NotDone` where one is not.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from pipelines.engines.local import Engine
from pipelines.engines.task import Result, Task
from pipelines.store import Store, StoreError


class NotDone(Exception):
    """Work that has to be done first: the rehearsal cannot see past it."""


class StoreView(Store):
    """A store to look at: nothing is written into it and no lease begins again. Use it as a context.

    Versions are recorded in memory. A folder of `scratch` is a temporary one, with links to the files of the real one:
    they can be read and replaced, and the real ones stay as they are.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._versions: dict[str, dict[str, Any]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="corpusmill-rehearsal-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def put(self, data: bytes | memoryview) -> NoReturn:
        """Raises `NotDone`: who wants to store something has work to do."""
        raise NotDone("an object is not stored yet")

    def put_file(self, path: Path) -> NoReturn:
        """Raises `NotDone`, as `put` does."""
        raise NotDone(f"{path.name} is not stored yet")

    def record_action(self, key: str, record: dict[str, Any]) -> NoReturn:
        """Raises `NotDone`, as `put` does."""
        raise NotDone(f"action {key[:16]}… is not done yet")

    def put_version(self, record: dict[str, Any]) -> None:
        """Keep a version in mind, unless the store has it."""
        try:
            super().version(record["id"])
        except StoreError:
            self._versions[record["id"]] = record

    def version(self, version_id: str) -> dict[str, Any]:
        """The record of a version, of the store or of this view."""
        return self._versions.get(version_id) or super().version(version_id)

    def scratch(self, key: str) -> Path:
        """A temporary folder that looks like the real one; it goes with the view."""
        folder = Path(self._folder.name) / key
        folder.mkdir(exist_ok=True)
        real = Path(self.root) / "work" / key if self.local else super().scratch(key)
        for file in real.iterdir() if real.is_dir() else ():
            link = folder / file.name
            if file.is_file() and not link.exists():
                link.symlink_to(file.absolute())
        return folder

    def gc(self, *_: Any, **__: Any) -> NoReturn:
        """Raises `StoreError`: nothing is removed through a view."""
        raise StoreError("nothing is removed from a store that is only looked at")

    def _renew(self, name: str, size: int) -> bool:
        return self._size(name) == size


@dataclass
class Rehearsal(Engine):
    """An engine that only looks up. asked: every task that the body asked for, with its result where there is one."""

    asked: list[tuple[Task, Result | None]] = field(default_factory=list, init=False)

    def run(self, task: Task) -> Result:
        """The standing result of a task. Raises `NotDone` when there is none."""
        return self.map([task])[0]

    def run_each(self, tasks: Sequence[Task]) -> list[Result]:
        """The same as `map`: nothing is done, so none has to wait for another."""
        return self.map(tasks) if tasks else []

    def map(self, tasks: Sequence[Task]) -> list[Result]:
        """The standing results of all tasks, in their order. Raises `NotDone` when one is missing."""
        looked_up = [(task, Result.load(self.store, task.key)) for task in tasks]
        self.asked += looked_up
        found = [result for _, result in looked_up if result is not None]
        self.results += found
        if len(found) < len(tasks):
            raise NotDone(f"{len(tasks) - len(found)} of {len(tasks)} results of {tasks[0].stage} are not there yet")
        return found
