"""The launcher with real trainer processes: reports as they come, resuming after a kill, and nothing left behind."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import psutil
import pytest

from pipelines.processes import process_identity
from pipelines.training.owner import StopRequest
from pipelines.training.pretrain import pretrain
from pipelines.training.work import STOPPED_EXIT_CODE
from resources.launcher import Launcher, TrainerFailed, _WholeLines
from tests.pipelines.training.corpus import TINY, make_corpus

ROOT = Path(__file__).parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
LONG = TINY.model_copy(
    update={"max_steps": 300, "batch_size": 2, "evaluate_every_steps": 100, "checkpoint_every_steps": 20}
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus"))


def trainers():
    """Trainer processes below this one."""
    below = psutil.Process().children(recursive=True)
    return [child for child in below if "resources.trainer_entry" in (child.as_dict(["cmdline"])["cmdline"] or [])]


def losses(events, kind="step"):
    return {event["step"]: event["loss"] for event in events if event["event"] == kind}


def weights(work):
    return (work.model / "model.safetensors").read_bytes()


def trained_here(work):
    """Reports of the same training without a process of its own, on one thread."""
    import torch

    threads, events = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        assert pretrain(work, events.append, StopRequest())
    finally:
        torch.set_num_threads(threads)
    return events


@pytest.mark.slow
def test_killed_in_the_middle_and_launched_again_gives_the_same_bits(corpus, tmp_path):
    work, launcher = corpus.work(tmp_path / "work", LONG), Launcher(environment=ONE_THREAD)
    before, after = [], []

    def kill_in_the_middle(event):
        before.append(event)
        if event["event"] == "step" and event["step"] >= 30:
            for trainer in trainers():
                trainer.kill()

    with pytest.raises(TrainerFailed, match=r"was killed \(signal 9\) after step \d+, most often by .* out of memory"):
        launcher.launch(work.root, kill_in_the_middle)
    assert not work.model.exists()
    launcher.launch(work.root, after.append)
    assert after[0]["step"] >= 20
    assert after[-1]["event"] == "finished"

    uninterrupted = corpus.work(tmp_path / "uninterrupted", LONG)
    expected = trained_here(uninterrupted)
    assert losses(before) | losses(after) == losses(expected)
    assert weights(work) == weights(uninterrupted)


@pytest.mark.slow
def test_two_ranks_train_the_same_model_as_one(corpus, tmp_path):
    # Batches of 3 and micro-batches of 1: the ranks' shares differ, and a rank may have none in the last evaluation
    config = TINY.model_copy(update={"batch_size": 3, "micro_batch_size": 1, "validation_sequences": 5})
    work, events = corpus.work(tmp_path / "two", config), []
    Launcher(2, ONE_THREAD).launch(work.root, events.append)
    expected = trained_here(corpus.work(tmp_path / "one", config))
    assert events[0]["ranks"] == 2
    assert losses(events) == pytest.approx(losses(expected), rel=1e-4)
    assert losses(events, "validation") == pytest.approx(losses(expected, "validation"), rel=1e-4)
    rates = [event["learning_rate"] for event in events if event["event"] == "step"]
    assert rates == [event["learning_rate"] for event in expected if event["event"] == "step"]


@pytest.mark.slow
def test_an_error_of_the_caller_ends_the_trainer_after_it_has_saved(corpus, tmp_path):
    work = corpus.work(tmp_path / "work", LONG.model_copy(update={"checkpoint_every_steps": 10_000}))

    def cancelled(event):
        if event["event"] == "step":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Launcher(environment=ONE_THREAD, grace_seconds=60).launch(work.root, cancelled)
    assert trainers() == []
    assert len(list(work.checkpoints.glob("step-*/manifest.json"))) == 1


def test_a_trainer_whose_owner_is_killed_saves_and_ends(corpus, tmp_path):
    work = corpus.work(tmp_path / "work", LONG)
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    identity = json.dumps(asdict(process_identity(owner.pid)))
    trainer = subprocess.Popen(
        [sys.executable, "-m", "resources.trainer_entry", "--work", work.root, "--owner", identity, "--grace", "60"],
        start_new_session=True,
        cwd=ROOT,
    )
    while not work.reports.exists() and trainer.poll() is None:
        time.sleep(0.05)
    owner.kill()
    owner.wait()
    assert trainer.wait(timeout=120) in (STOPPED_EXIT_CODE, 0)
    assert list(work.checkpoints.glob("step-*/manifest.json"))


@pytest.mark.slow
def test_in_a_step_reports_come_through_pipes(corpus, tmp_path):
    work, events = corpus.work(tmp_path / "work", TINY.model_copy(update={"max_steps": 3})), []

    @dg.asset
    def model(launcher: dg.ResourceParam[Launcher]) -> dg.Output[str]:
        launcher.launch(work.root, events.append)
        return dg.Output("done")

    result = dg.materialize([model], resources={"launcher": Launcher(environment=ONE_THREAD)})
    assert result.success
    assert [event["event"] for event in events] == ["started", *["step"] * 3, "validation", "checkpoint", "finished"]
    assert not work.reports.exists()
    work.read_summary()


def test_a_message_that_is_still_being_written_is_waited_for(tmp_path):
    # Given two messages, the second of which is written in two halves, long apart
    reader, handled = _WholeLines(str(tmp_path / "messages")), []
    handler = SimpleNamespace(handle_message=handled.append)
    with reader.read_messages(handler) as params, Path(params["path"]).open("a") as file:
        for piece in ('{"number": 1}\n{"num', 'ber": 2}\n'):
            file.write(piece)
            file.flush()
            time.sleep(0.1)
    assert handled == [{"number": 1}, {"number": 2}]


def test_a_trainer_that_refuses_is_quoted(corpus, tmp_path):
    work = corpus.work(tmp_path / "work")
    work.job.write_text('{"learning_rate": -1}')
    with pytest.raises(TrainerFailed, match=r"job\.json does not hold valid training parameters"):
        Launcher().launch(work.root, lambda event: None)


def test_an_unexpected_end_quotes_the_log(corpus, tmp_path):
    # Given data that contradicts the blend: an error that the training itself does not put into words
    work = corpus.work(tmp_path / "work")
    path = work.data / "blend.json"
    content = json.loads(path.read_text())
    del content["packing"]
    path.unlink()  # a link into the store
    path.write_text(json.dumps(content))
    with pytest.raises(TrainerFailed, match=r"KeyError: 'packing'(.|\n)*Its last words:(.|\n)*line \d+, in pretrain"):
        Launcher().launch(work.root, lambda event: None)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("import sys; print('no such kernel', file=sys.stderr); sys.exit(3)", "code 3 before its(.|\n)*no such kernel"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", r"signal 11 \(Segmentation fault\)"),
        ("pass", "without saying that it had finished"),
        ("import sys; sys.exit(75)", "asked to stop before its first step and saved its state; run it again"),
        ("print('exitcode  : -9 (pid: 1)'); raise SystemExit(1)", r"was killed \(signal 9\)"),
    ],
    ids=["exit code", "signal", "no closing message", "stopped", "a rank of torchrun killed"],
)
def test_every_other_end_has_its_sentence(tmp_path, monkeypatch, script, told):
    monkeypatch.setattr("resources.launcher.TRAINER", ("-c", script))
    with pytest.raises(TrainerFailed, match=told):
        Launcher().launch(tmp_path, lambda event: None)


def test_a_trainer_that_does_not_stop_is_killed_after_the_grace(tmp_path, monkeypatch):
    script = (
        "import signal, sys, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "pathlib.Path(sys.argv[2], 'reports.jsonl').write_text('{\"event\": \"started\"}\\n'); time.sleep(600)"
    )
    monkeypatch.setattr("resources.launcher.TRAINER", ("-c", script))
    ended = []
    wait = subprocess.Popen.wait
    monkeypatch.setattr(subprocess.Popen, "wait", lambda self, *timeout: ended.append(self) or wait(self, *timeout))

    def cancelled(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Launcher(grace_seconds=0.1).launch(tmp_path, cancelled)
    assert ended[0].returncode == -signal.SIGKILL
