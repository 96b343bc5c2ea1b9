"""Content-addressed storage: objects, actions and versions, on any fsspec file system.

Everything in the store is immutable and whole: an object is named by the hash of its content, an action by the hash
of what it was computed from. What a version means is `pipelines/dataset.py`; which version is current stands in the
ledger database, not here.
"""

import atexit
import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

LEASE_SECONDS = 24 * 3600.0
"""How long an object that no version names is safe from `gc`: longer than a stage takes to publish what it made."""


class StoreError(Exception):
    """The store cannot do what was asked; the message names the object and the way out."""


def digest(value: Any) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON of `value`. Floats keep their shortest exact form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class Swept:
    """What `gc` removed, or would remove."""

    objects: int
    actions: int
    bytes: int
    spared_by_lease: int


class Store:
    """Objects, actions and versions under one URL.

    Concurrent writers are safe: every write goes to a temporary name and is moved into place, so a reader or a crash
    sees a whole file or none. The first writer of an action wins; later ones are handed the winner's record.
    """

    def __init__(self, url: str) -> None:
        self.fs, self.root = fsspec.core.url_to_fs(url)
        self.url = url
        self.local = isinstance(self.fs, LocalFileSystem)

    # -- objects ------------------------------------------------------------------------------------------------

    def put(self, data: bytes | memoryview) -> str:
        """Store bytes; returns their hash. Storing the same bytes again only renews their lease."""
        name = hashlib.sha256(data).hexdigest()
        if not self._renew(name, len(data)):
            self._write(self._object(name), bytes(data))
        return name

    def put_file(self, path: Path) -> str:
        """Store the content of a local file, streaming; returns its hash."""
        with path.open("rb") as file:
            name = hashlib.file_digest(file, "sha256").hexdigest()
        if not self._renew(name, path.stat().st_size):
            target = self._object(name)
            if self.local:
                self._write_local(target, source=path)
            else:
                self.fs.put_file(str(path), target)
        return name

    def get(self, name: str) -> bytes:
        """The bytes of an object. Raises `StoreError` when it is gone."""
        try:
            data = self.fs.cat_file(self._object(name))
        except FileNotFoundError:
            raise self._gone(name) from None
        if hashlib.sha256(data).hexdigest() != name:
            raise StoreError(f"object {name[:16]}… is damaged; delete it and run the stage again")
        return data

    def objects(self) -> Iterator[tuple[str, int]]:
        """(hash, bytes) of every stored object, whoever names it, in no order."""
        for path, info in self._files("objects"):
            yield path.rsplit("/", 1)[-1], int(info["size"])

    def holds(self, name: str) -> bool:
        """Whether an object is stored."""
        return self._size(name) >= 0

    def path(self, name: str) -> Path:
        """A local file with the object's bytes, for memory mapping; each process downloads it once if it is remote."""
        if self.local:
            path = Path(self._object(name))
            if not path.exists():
                raise self._gone(name)
            return path
        cached = _downloads() / name
        if not cached.exists():
            partial = cached.with_suffix(f".{uuid.uuid4().hex}")
            self.fs.get_file(self._object(name), str(partial))
            partial.replace(cached)
        return cached

    # -- actions ------------------------------------------------------------------------------------------------

    def action(self, key: str) -> dict[str, Any] | None:
        """The record of an action whose objects are all whole (their leases are renewed), or None."""
        record = self._read_json(self._action(key))
        if record is None:
            return None
        for name, size in _objects_of(record):
            if not self._renew(name, size):
                return None
        return record

    def record_action(self, key: str, record: dict[str, Any]) -> dict[str, Any]:
        """Record what an action made; returns the record that stands, an earlier writer's if there was one."""
        path = self._action(key)
        data = json.dumps(record, sort_keys=True).encode()
        if self._create(path, data):
            return record
        standing = self.action(key)
        if standing is not None:
            return standing
        self._write(path, data)  # the earlier record names objects that are gone
        return record

    def actions(self) -> Iterator[dict[str, Any]]:
        """The records of all actions, in no order; their objects may be gone."""
        return self._records("actions")

    # -- versions -----------------------------------------------------------------------------------------------

    def put_version(self, record: dict[str, Any]) -> None:
        """Record a version under its id; a version that exists already stays as it is, unless its bytes are gone."""
        path, data = f"{self.root}/versions/{record['id']}.json", json.dumps(record, sort_keys=True).encode()
        if not self._create(path, data) and (self._read_json(path) is None or self.missing_objects(record["id"])):
            self._write(path, data)

    def version_ids(self) -> list[str]:
        """Ids of all versions on record, also of those that were never published."""
        return sorted(path.rsplit("/", 1)[-1].removesuffix(".json") for path, _ in self._files("versions"))

    def version(self, version_id: str) -> dict[str, Any]:
        """The record of a version. Raises `StoreError` when there is none."""
        record = self._read_json(f"{self.root}/versions/{version_id}.json")
        if record is None:
            raise StoreError(
                f"no whole version {version_id} in the store at {self.url}; run its asset again to make it"
            )
        return record

    def missing_objects(self, version_id: str) -> list[str]:
        """Objects that a version names and the store no longer holds whole (after `gc` or damage)."""
        return [name for name, size in _objects_of(self.version(version_id)) if self._size(name) != size]

    def scratch(self, key: str) -> Path:
        """A local folder for work in progress on an action, the same one when the action is tried again."""
        folder = self.scratch_path(key)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def scratch_path(self, key: str) -> Path:
        """Where `scratch` has that folder, whether it is there or not."""
        base = Path(self.root) if self.local else Path(tempfile.gettempdir()) / "corpusmill"
        return base / "work" / key

    # -- garbage ------------------------------------------------------------------------------------------------

    def gc(self, keep: Iterable[str], *, lease_seconds: float = LEASE_SECONDS, dry_run: bool = False) -> Swept:
        """Remove what no kept version names and nobody used within the lease.

        keep: version ids. Versions stay on record, so costs and lineage can still be told; only their bytes go.
        Actions go before the objects that they name, so that no action is ever found without its objects.
        """
        named: set[str] = set()
        for version_id in keep:
            named.update(name for name, _ in _objects_of(self.version(version_id)))
        horizon = time.time() - lease_seconds
        doomed: dict[str, int] = {}
        spared = 0
        for path, info in self._files("objects"):
            name = path.rsplit("/", 1)[-1]
            if name in named:
                continue
            if self._modified(path, info) > horizon:
                spared += 1
            else:
                doomed[name] = int(info["size"])
        actions = self._drop_actions(doomed, dry_run=dry_run)
        for name in [] if dry_run else list(doomed):
            path = self._object(name)
            if self._modified(path, self.fs.info(path)) > horizon:  # used since it was listed
                spared, _ = spared + 1, doomed.pop(name)
            else:
                self.fs.rm_file(path)
        if not dry_run:
            for path, info in self._files("tmp"):
                if self._modified(path, info) <= horizon:
                    self.fs.rm_file(path)
        return Swept(len(doomed), actions, sum(doomed.values()), spared)

    def erase(self, objects: Collection[str]) -> Swept:
        """Remove objects at once, whoever names them, after the actions that do. Versions that name them stay on
        record, and are whole again when they are made again."""
        actions = self._drop_actions(objects, dry_run=False)
        sizes = {name: size for name in objects if (size := self._size(name)) >= 0}
        for name in sizes:
            self.fs.rm_file(self._object(name))
        return Swept(len(sizes), actions, sum(sizes.values()), 0)

    def _drop_actions(self, doomed: Collection[str], *, dry_run: bool) -> int:
        """Remove the actions that name one of these objects; gives how many there are."""
        dropped = 0
        for path, _ in self._files("actions"):
            record = self._read_json(path)
            if record is not None and any(name in doomed for name, _ in _objects_of(record)):
                dropped += 1
                if not dry_run:
                    self.fs.rm_file(path)
        return dropped

    # -- files --------------------------------------------------------------------------------------------------

    def _object(self, name: str) -> str:
        return f"{self.root}/objects/{name[:2]}/{name}"

    def _action(self, key: str) -> str:
        return f"{self.root}/actions/{key[:2]}/{key}.json"

    def _gone(self, name: str) -> StoreError:
        return StoreError(f"object {name[:16]}… is not in the store at {self.url}; run the stage again to make it")

    def _size(self, name: str) -> int:
        try:
            return int(self.fs.size(self._object(name)))
        except FileNotFoundError:
            return -1

    def _renew(self, name: str, size: int) -> bool:
        """True if the object is there, whole; its lease starts again."""
        path = self._object(name)
        try:
            if self.local:
                if Path(path).stat().st_size != size:
                    return False
                os.utime(path)
                return True
            info = self.fs.info(path)
        except FileNotFoundError:
            return False
        if int(info["size"]) != size:
            return False
        if self._modified(path, info) < time.time() - LEASE_SECONDS / 2:
            self.fs.cp_file(path, path)
        return True

    def _modified(self, path: str, info: dict[str, Any]) -> float:
        if self.local:
            return float(info["mtime"])
        return float(self.fs.modified(path).timestamp())

    def _files(self, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
        with contextlib.suppress(FileNotFoundError):
            yield from self.fs.find(f"{self.root}/{folder}", detail=True).items()

    def _records(self, folder: str) -> Iterator[dict[str, Any]]:
        for path, _ in self._files(folder):
            record = self._read_json(path)
            if record is not None:
                yield record

    def _read_json(self, path: str) -> dict[str, Any] | None:
        """The record in a file; None where there is none, or a damaged one (nothing here is written by halves)."""
        try:
            record = json.loads(self.fs.cat_file(path))
            _objects_of(record)
            return record
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _write(self, path: str, data: bytes) -> None:
        if self.local:
            self._write_local(path, data=data)
        else:
            self.fs.pipe_file(path, data)

    def _create(self, path: str, data: bytes) -> bool:
        """Write a file that is not there yet; False if it is."""
        if self.local:
            return self._write_local(path, data=data, exclusive=True)
        if self.fs.exists(path):
            return False
        self.fs.pipe_file(path, data)
        return True

    def _write_local(
        self, path: str, *, data: bytes = b"", source: Path | None = None, exclusive: bool = False
    ) -> bool:
        target = Path(path)
        temporary = Path(self.root) / "tmp" / uuid.uuid4().hex
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                if source is None:
                    file.write(data)
                else:
                    with source.open("rb") as content:
                        while block := content.read(1 << 22):
                            file.write(block)
                file.flush()
                os.fsync(file.fileno())
            if not exclusive:
                temporary.replace(target)
                return True
            try:
                target.hardlink_to(temporary)
            except FileExistsError:
                return False
            return True
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM):
                raise StoreError(
                    f"the store at {self.url} cannot be written: {error.strerror}; make space there, or let "
                    "this user write there, and start the same again: finished work is kept"
                ) from error
            raise
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


@functools.cache
def _downloads() -> Path:
    """This process's folder for objects of remote stores; removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="corpusmill-objects-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _objects_of(record: dict[str, Any]) -> list[tuple[str, int]]:
    """(hash, bytes) of every object that an action or a version names."""
    return [(shard["object"], shard["bytes"]) for part in record["parts"].values() for shard in part["shards"]]
