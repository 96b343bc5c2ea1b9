"""The training stage: from a blend, token shards and a tokenizer to a model, as cached tasks.

The work is done by a process of its own (`pretrain.py`), which the caller launches; samples are a task of their own,
so other prompts train nothing again.
"""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from pipelines.dataset import Dataset, Draft, Part
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Progress, Stats, Task
from pipelines.pretrained import minor_versions
from pipelines.training.params import PretrainParams, SampleParams
from pipelines.training.samples import continue_prompts
from pipelines.training.work import Event, Report, TrainingError, WorkFolder

VERSION = 2
SAMPLES_VERSION = 1

Launch = Callable[[Path, Report], None]
"""Runs a trainer in a work folder until the model stands there; raises when it does not."""


@dataclass(frozen=True)
class TrainingWork:
    """How a training is done: none of it is part of the key."""

    config: PretrainParams
    launch: Launch
    folder: Path
    training_blend: Dataset
    token_shards: Dataset
    tokenizer: Dataset
    progress: Progress


@dataclass(frozen=True)
class SampleWork:
    """How samples are made: a folder for the model's files, their names in the order of the inputs, what to say."""

    folder: Path
    names: tuple[str, ...]
    config: SampleParams
    seed: int


def pretrain(
    training_blend: Dataset,
    token_shards: Dataset,
    tokenizer: Dataset,
    config: PretrainParams,
    engine: Engine,
    launch: Launch,
) -> Draft:
    """Train a Llama from random weights on a blend; part `model` holds the folder that `from_pretrained` loads.

    launch: see `resources/launcher.py`. A training that was killed goes on from its newest whole checkpoint when it is
    run again; its work folder is removed once the model is in the store. Stats: the training's summary (losses, curve,
    tokens, FLOPs) and samples. Raises whatever `launch` raises.
    """
    inputs = ((training_blend, "blend"), (token_shards, "tokens"), (tokenizer, "tokenizer"))
    files = sorted((shard.name, shard.object) for dataset, part in inputs for shard in dataset.shards(part))
    task = Task(
        run_pretraining,
        "training.pretrain",
        VERSION,
        {**config.result_params(), "files": [name for name, _ in files], "libraries": _libraries()},
        broadcast=tuple(object_hash for _, object_hash in files),
    )
    folder = engine.store.scratch(task.key)
    work = TrainingWork(config, launch, folder, training_blend, token_shards, tokenizer, engine.progress)
    result = engine.run(replace(task, payload=work))
    shutil.rmtree(folder, ignore_errors=True)
    model = result.parts["model"]
    return Draft(result.parts, result.stats | {"samples": _samples(model, config, engine)})


def run_pretraining(inputs: Inputs, payload: TrainingWork) -> Iterable[Made]:
    """Lay out the work folder, have the trainer run in it, hand over the model's files."""
    work = WorkFolder(payload.folder)
    payload.training_blend.folder("blend", work.data)
    payload.token_shards.folder("tokens", work.data)
    payload.tokenizer.folder("tokenizer", work.tokenizer)
    work.write_job(payload.config)
    payload.launch(work.root, _follow(payload.progress))
    summary = work.read_summary()
    for path in sorted(path for path in work.model.rglob("*") if path.is_file()):
        yield "model", File(path.relative_to(work.model).as_posix(), path)
    yield Stats(summary)


def run_samples(inputs: Inputs, payload: SampleWork) -> Iterable[Made]:
    """Lay out the model and have it continue the prompts."""
    for index, name in enumerate(payload.names):
        place = payload.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(inputs.broadcast_path(index))
    yield Stats({"samples": continue_prompts(payload.folder, payload.config, payload.seed)})


def _samples(model: Part, config: PretrainParams, engine: Engine) -> list[dict[str, str]]:
    """What the model makes of the prompts; from the cache where this model was given these prompts before."""
    if not config.samples.prompts:
        return []
    names = tuple(shard.name for shard in model.shards)
    params = {
        **config.samples.model_dump(mode="json"),
        "seed": config.seed,
        "names": list(names),
        "libraries": _libraries(),
    }
    objects = tuple(shard.object for shard in model.shards)
    task = Task(run_samples, "training.samples", SAMPLES_VERSION, params, broadcast=objects)
    folder = engine.store.scratch(task.key)
    result = engine.run(replace(task, payload=SampleWork(folder, names, config.samples, config.seed)))
    shutil.rmtree(folder, ignore_errors=True)
    told: list[dict[str, str]] = result.stats["samples"]
    return told


def _libraries() -> dict[str, str]:
    """What trains: a patch release is no reason to train again."""
    try:
        return minor_versions("torch", "transformers")
    except PackageNotFoundError as error:
        raise TrainingError(
            f"training needs {error.name}, which is not installed: pip install -e '.[train]', then run again"
        ) from None


def _follow(progress: Progress) -> Report:
    """A report that keeps the attempt's progress up to date: steps as rows, the newest losses beside them."""

    def report(event: Event) -> None:
        if event["event"] in ("started", "step"):
            progress.rows_done, progress.rows_total = event["step"], event["steps"]
            progress.extra["unit"] = "steps"
        if event["event"] == "step":
            progress.extra["loss"] = round(event["loss"], 4)
            progress.extra["tokens_per_second"] = round(event["tokens_per_second"])
        if event["event"] == "validation":
            progress.extra["validation_loss"] = round(event["loss"], 4)

    return report
