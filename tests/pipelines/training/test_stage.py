"""The stage: a model from the cache where there is one, work that survives a failure, progress that people see."""

import pytest

from pipelines.engines.local import Engine
from pipelines.training import pretrain as loop
from pipelines.training import stage
from pipelines.training.owner import StopRequest
from pipelines.training.params import SampleParams
from pipelines.training.stage import pretrain
from pipelines.training.work import TrainingError, WorkFolder
from tests.pipelines.training.corpus import TINY

CONFIG = TINY.model_copy(update={"max_steps": 3, "samples": SampleParams(prompts=["The cat"], tokens=5)})


class InThisProcess:
    """A launcher that trains here and remembers where."""

    def __init__(self):
        self.folders = []

    def __call__(self, work, on_report):
        self.folders.append(work)
        loop.pretrain(WorkFolder(work), on_report, StopRequest())


@pytest.fixture
def launch():
    return InThisProcess()


@pytest.fixture
def train(corpus, tmp_path):
    """Train on the corpus in a store of the test's own: its results must not be found by other tests."""
    from pipelines.store import Store

    store = Store(str(tmp_path / "store"))

    def train(launch, config=CONFIG, engine=None):
        given = corpus.training_blend, corpus.token_shards, corpus.tokenizer
        return pretrain(*given, config, engine or Engine(store, 1), launch)

    train.store = store
    return train


def test_a_model_with_its_figures_and_samples(train, launch):
    draft = train(launch)
    names = {shard.name for shard in draft.parts["model"].shards}
    assert {"config.json", "model.safetensors", "tokenizer.json", "training.json"} <= names
    assert draft.parts["model"].kind == "files"
    assert draft.stats["steps"] == 3
    assert draft.stats["samples"][0]["prompt"] == "The cat"


def test_the_work_folder_is_gone_once_the_model_is_stored(train, launch):
    train(launch)
    assert not launch.folders[0].exists()


def test_a_second_run_trains_nothing(train, launch):
    first, second = train(launch), train(launch)
    assert len(launch.folders) == 1
    assert first == second


@pytest.mark.parametrize(
    ("change", "trainings"),
    [
        ({"samples": SampleParams(prompts=["The dog"], tokens=5)}, 1),
        ({"samples": SampleParams(prompts=[])}, 1),
        ({"checkpoint_every_steps": 1, "micro_batch_size": 2}, 1),
        ({"seed": 2}, 2),
    ],
    ids=["other prompts", "no prompts", "other checkpoints and micro-batches", "another seed"],
)
def test_only_what_decides_the_model_trains_again(train, launch, change, trainings):
    train(launch)
    draft = train(launch, CONFIG.model_copy(update=change))
    assert len(launch.folders) == trainings
    prompts = change.get("samples", CONFIG.samples).prompts
    assert [sample["prompt"] for sample in draft.stats["samples"]] == prompts


def test_another_version_of_the_stage_trains_again(train, launch, monkeypatch):
    # What version 1 trained saw the samples in another order
    assert stage.VERSION == 2
    train(launch)
    monkeypatch.setattr(stage, "VERSION", 1)
    train(launch)
    assert len(launch.folders) == 2


def test_a_killed_training_goes_on_where_it_was(train, launch):
    def killed(work, on_report):
        stop = StopRequest()
        loop.pretrain(WorkFolder(work), lambda event: stop.ask() if event["event"] == "step" else None, stop)
        raise TrainingError("the trainer was killed")

    with pytest.raises(TrainingError, match="was killed"):
        train(killed)
    started = []

    def resumed(work, on_report):
        loop.pretrain(WorkFolder(work), lambda event: started.append(event), StopRequest())

    train(resumed)
    assert started[0] == {**started[0], "event": "started", "step": 1}


def test_a_launcher_that_leaves_no_model_is_an_error(train):
    with pytest.raises(TrainingError, match=r"without leaving config\.json"):
        train(lambda work, on_report: None)


def test_without_torch_it_says_what_to_install(train, launch, monkeypatch):
    from importlib.metadata import PackageNotFoundError

    def not_installed(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("pipelines.pretrained.version", not_installed)
    with pytest.raises(TrainingError, match=r"needs torch, which is not installed: pip install -e '\.\[train\]'"):
        train(launch)


def test_progress_counts_steps(train, launch):
    engine = Engine(train.store, 1)
    seen = []

    def watched(work, on_report):
        def report(event):
            on_report(event)
            seen.append((engine.progress.rows_done, engine.progress.rows_total, engine.progress.extra.get("loss")))

        launch(work, report)

    train(watched, engine=engine)
    assert seen[0] == (0, 3, None)
    assert seen[-1][:2] == (3, 3)
    assert 0 < seen[-1][2] < 6
