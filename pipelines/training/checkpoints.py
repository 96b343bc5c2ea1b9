"""Checkpoints: whole or not there. Files are written under a temporary name, synced, listed with their hashes in a
manifest, and renamed into place; only what verifies is resumed. What is in them is `pretrain.py`'s business."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.training.work import TrainingError

MANIFEST = "manifest.json"
PREFIX = "step-"
PARTIAL = ".partial-"


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint on disk. validation_loss: of the weights in it, None where none was taken at that step."""

    folder: Path
    step: int
    validation_loss: float | None
    identity: dict[str, Any]

    @property
    def tensors(self) -> Path:
        """The file that holds weights and optimizer state."""
        return self.folder / "tensors.pt"

    def progress(self) -> dict[str, Any]:
        """What else the training remembers, JSON values."""
        progress: dict[str, Any] = json.loads((self.folder / "progress.json").read_text())
        return progress


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training.

    identity: what a run must share with a checkpoint to resume it (parameters, data), JSON values. keep: how many of
    the newest survive; the one with the lowest validation loss survives too.
    """

    root: Path
    identity: dict[str, Any]
    keep: int

    def save(
        self,
        step: int,
        write_tensors: Callable[[Path], None],
        progress: dict[str, Any],
        validation_loss: float | None,
    ) -> Checkpoint:
        """Write the checkpoint of a step, whole, then remove those beyond the retention limit.

        write_tensors: writes weights and optimizer state to the path it is given. Saving a step again replaces it.
        """
        partial = self.root / f"{PARTIAL}{step}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            write_tensors(partial / "tensors.pt")
            (partial / "progress.json").write_text(json.dumps(progress))
            manifest = {
                "step": step,
                "validation_loss": validation_loss,
                "identity": self.identity,
                "sha256": {file.name: _sha256(file) for file in sorted(partial.iterdir())},
            }
            (partial / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
            for path in (*partial.iterdir(), partial):
                _sync(path)
            target = self._folder(step)
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
            _sync(self.root)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self._retain()
        return Checkpoint(target, step, validation_loss, self.identity)

    def newest(self, damaged: Callable[[Path, str], None]) -> Checkpoint | None:
        """The newest checkpoint whose files have the hashes of its manifest, None where there is none.

        damaged: told (folder, reason) of every newer one that is passed over. Raises `TrainingError` when the newest
        was written by a run with other parameters or data.
        """
        for folder in sorted(self.root.glob(f"{PREFIX}*"), reverse=True):
            found = _verified(folder)
            if isinstance(found, str):
                damaged(folder, found)
                continue
            self._must_match(found)
            return found
        return None

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step that another rank has verified."""
        checkpoint, _ = _manifest(self._folder(step))
        if checkpoint is None:
            raise TrainingError(f"{self._folder(step)} can't be read here; all ranks need the same file system")
        return checkpoint

    def best(self) -> Checkpoint | None:
        """The whole checkpoint with the lowest validation loss, the earlier of equals; None where none has a loss."""
        for checkpoint in _by_loss(self._listed()):
            found = _verified(checkpoint.folder)
            if isinstance(found, Checkpoint):
                return found
        return None

    def discard_partial(self) -> None:
        """Remove what a killed run left half written."""
        for partial in self.root.glob(f"{PARTIAL}*"):
            shutil.rmtree(partial, ignore_errors=True)

    def _folder(self, step: int) -> Path:
        return self.root / f"{PREFIX}{step:08d}"

    def _listed(self) -> list[Checkpoint]:
        read = (_manifest(folder) for folder in sorted(self.root.glob(f"{PREFIX}*")))
        return [checkpoint for checkpoint, _ in read if checkpoint is not None]

    def _retain(self) -> None:
        listed = self._listed()
        kept = {checkpoint.step for checkpoint in listed[-self.keep :]}
        kept.update(checkpoint.step for checkpoint in _by_loss(listed)[:1])
        for checkpoint in listed:
            if checkpoint.step not in kept:
                shutil.rmtree(checkpoint.folder)

    def _must_match(self, checkpoint: Checkpoint) -> None:
        theirs, ours = checkpoint.identity, self.identity
        for name in sorted(theirs.keys() | ours.keys()):
            if theirs.get(name) != ours.get(name):
                raise TrainingError(
                    f"the checkpoint {checkpoint.folder} was written with {name} = {theirs.get(name)!r}, this run has "
                    f"{ours.get(name)!r}; resume with the same, or train in another folder"
                )


def _by_loss(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """Those with a validation loss, lowest first, the earlier of equals first."""
    rated = [(c.validation_loss, c.step, c) for c in checkpoints if c.validation_loss is not None]
    return [checkpoint for _, _, checkpoint in sorted(rated, key=lambda entry: entry[:2])]


def _manifest(folder: Path) -> tuple[Checkpoint | None, dict[str, str]]:
    """The checkpoint as its manifest tells it, with the hashes of its files; None where the manifest can't be read."""
    try:
        told = json.loads((folder / MANIFEST).read_text())
        return Checkpoint(folder, told["step"], told["validation_loss"], told["identity"]), told["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None, {}


def _verified(folder: Path) -> Checkpoint | str:
    """The checkpoint if every file has the hash of the manifest, else what is wrong."""
    checkpoint, hashes = _manifest(folder)
    if checkpoint is None:
        return "its manifest is missing or unreadable"
    for name, expected in hashes.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if _sha256(path) != expected:
            return f"{name} does not have the hash of the manifest"
    return checkpoint


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
