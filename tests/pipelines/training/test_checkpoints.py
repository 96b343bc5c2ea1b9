"""Checkpoints: whole or not there, the right one resumed, the right ones kept."""

import pytest

from pipelines.training.checkpoints import Checkpoints
from pipelines.training.work import TrainingError


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", {"seed": 1}, keep=2)


def save(checkpoints, step, loss=None, content=b"weights"):
    return checkpoints.save(step, lambda path: path.write_bytes(content), {"step": step}, loss)


def steps(checkpoints):
    return [int(folder.name.removeprefix("step-")) for folder in sorted(checkpoints.root.glob("step-*"))]


def newest(checkpoints):
    passed_over = []
    found = checkpoints.newest(lambda folder, reason: passed_over.append((folder.name, reason)))
    return found.step if found else None, passed_over


def test_none_is_none(checkpoints):
    assert newest(checkpoints) == (None, [])
    assert checkpoints.best() is None


def test_the_newest_is_resumed_with_what_was_remembered(checkpoints):
    save(checkpoints, 3)
    save(checkpoints, 20)
    found = checkpoints.newest(lambda folder, reason: None)
    assert (found.step, found.progress(), found.tensors.read_bytes()) == (20, {"step": 20}, b"weights")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: (folder / "tensors.pt").write_bytes(b"weigh"), "tensors.pt does not have the hash"),
        (lambda folder: (folder / "tensors.pt").unlink(), "tensors.pt is missing"),
        (lambda folder: (folder / "progress.json").unlink(), "progress.json is missing"),
        (lambda folder: (folder / "manifest.json").unlink(), "manifest is missing"),
        (lambda folder: (folder / "manifest.json").write_text('{"step": 2'), "manifest is missing or unreadable"),
    ],
    ids=["cut short", "no tensors", "no progress", "no manifest", "manifest cut short"],
)
def test_a_damaged_one_is_passed_over_and_told(checkpoints, harm, reason):
    save(checkpoints, 1)
    harm(save(checkpoints, 2).folder)
    step, [(name, told)] = newest(checkpoints)
    assert (step, name) == (1, "step-00000002")
    assert reason in told


def test_one_that_could_not_be_written_leaves_nothing(checkpoints):
    save(checkpoints, 1)

    def disk_full(path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        checkpoints.save(2, disk_full, {}, None)
    assert [path.name for path in checkpoints.root.iterdir()] == ["step-00000001"]


def test_what_a_killed_run_left_half_written_is_no_checkpoint(checkpoints):
    half = checkpoints.root / ".partial-7"
    half.mkdir(parents=True)
    (half / "tensors.pt").write_bytes(b"half")
    assert newest(checkpoints) == (None, [])
    checkpoints.discard_partial()
    assert not half.exists()


def test_the_last_and_the_best_survive_the_limit(checkpoints):
    for step, loss in [(1, 3.0), (2, 1.0), (3, None), (4, 2.0), (5, 2.0)]:
        save(checkpoints, step, loss)
    assert steps(checkpoints) == [2, 4, 5]
    assert checkpoints.best().step == 2


def test_saving_a_step_again_replaces_it(checkpoints):
    save(checkpoints, 1)
    save(checkpoints, 1, loss=0.5, content=b"other")
    assert checkpoints.newest(lambda *_: None).tensors.read_bytes() == b"other"
    assert checkpoints.best().validation_loss == 0.5


def test_a_run_with_other_parameters_does_not_resume(checkpoints):
    save(checkpoints, 1)
    other = Checkpoints(checkpoints.root, {"seed": 2}, keep=2)
    with pytest.raises(TrainingError, match=r"written with seed = 1, this run has 2; resume with the same"):
        newest(other)
