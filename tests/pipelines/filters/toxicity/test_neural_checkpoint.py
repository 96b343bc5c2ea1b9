"""Checkpoints of neural models: by what they are known, and why one is refused."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.filters.toxicity import neural, neural_runtime
from pipelines.filters.toxicity.neural import (
    identity,
    open_classifier,
)
from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.pretrained import ModelError
from tests.pipelines.filters.toxicity import checkpoint
from tests.pipelines.filters.toxicity.checkpoint import TEXTS, Checkpoint, of

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(
        importlib.util.find_spec("detoxify") is None, reason="needs detoxify: pip install -e '.[toxicity]'"
    ),
]


# -- the key -------------------------------------------------------------------------------------------------------


def test_the_key_holds_what_moves_numbers_and_nothing_else(made: Checkpoint, tmp_path: Path) -> None:
    known = identity(of(made))
    elsewhere = Checkpoint(tmp_path / "other.ckpt", tmp_path / "folder", made.labels)
    shutil.copy(made.path, elsewhere.path)
    shutil.copytree(made.config, elsewhere.config)
    assert identity(of(elsewhere, threads=1, languages=["en", "fr"])) == known
    assert json.loads(json.dumps(known)) == known
    for setting in (
        {"window_tokens": 100},
        {"overlap_tokens": 0},
        {"batch_tokens": 100},
        {"quantize": True},
        {"precision": "bfloat16"},
        {"runtime": "onnx"},
    ):
        assert identity(of(made, **setting)) != known
    (elsewhere.config / "config.json").write_text((made.config / "config.json").read_text() + " ")
    assert identity(of(elsewhere)) != known
    assert identity(of(checkpoint.unbiased_checkpoint()))["checkpoint"] != known["checkpoint"]


def test_a_model_that_is_replaced_before_it_is_opened_is_not_taken_for_the_one_that_was_known(
    made: Checkpoint, tmp_path: Path
) -> None:
    own = Checkpoint(tmp_path / "own.ckpt", tmp_path / "folder", made.labels)
    shutil.copy(made.path, own.path)
    shutil.copytree(made.config, own.config)
    known = identity(of(own))
    assert (
        open_classifier(of(own), known).score(TEXTS).max.tolist() == open_classifier(of(made)).score(TEXTS).max.tolist()
    )
    saved(own.path, made, lambda one: one["state_dict"]["classifier.bias"].fill_(3))
    with pytest.raises(ModelError, match=r"own\.ckpt and .*folder changed while it was read; start the run again"):
        open_classifier(of(own), known)


# -- errors --------------------------------------------------------------------------------------------------------


def saved(path: Path, made: Checkpoint, change: Callable[[dict[str, Any]], object]) -> Path:
    """The checkpoint with a change."""
    import torch

    loaded = torch.load(made.path, weights_only=False)
    change(loaded)
    torch.save(loaded, path)
    return path


def test_a_model_that_gives_no_number_is_named(made: Checkpoint, tmp_path: Path) -> None:
    broken = saved(tmp_path / "broken.ckpt", made, lambda one: one["state_dict"]["classifier.bias"].fill_(float("nan")))
    with pytest.raises(ModelError, match=r"broken\.ckpt gives no number"):
        open_classifier(of(made, checkpoint=str(broken))).score(TEXTS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: one.pop("state_dict"), "not in Detoxify's format: it lacks state_dict"),
        (lambda one: one["config"].pop("dataset"), r"it lacks config\.dataset\.args\.classes"),
        (lambda one: one["config"]["arch"]["args"].update(model_name="NoModel"), "Detoxify cannot open .*NoModel"),
        (
            lambda one: one["config"]["dataset"]["args"].update(classes=["toxic", "toxicity", "insult"]),
            "two classes of .* are 'toxicity' to Detoxify",
        ),
        (lambda one: one["config"]["dataset"]["args"]["classes"].pop(), "has 2 classes, and .* a model with 3"),
        (
            lambda one: one.update(state_dict={f"model.{key}": value for key, value in one["state_dict"].items()}),
            "lacks 41 of the model's weights, first bert",
        ),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused(
    made: Checkpoint, tmp_path: Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    with pytest.raises(ModelError, match=told):
        open_classifier(of(made, checkpoint=str(saved(tmp_path / "other.ckpt", made, change))))


def test_what_is_not_there_is_named(made: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "text.ckpt").write_text("no checkpoint")
    with pytest.raises(ModelError, match=r"there is no checkpoint at .*gone\.ckpt"):
        identity(of(made, checkpoint=str(tmp_path / "gone.ckpt")))
    with pytest.raises(ModelError, match=r"torch cannot read the checkpoint .*text\.ckpt"):
        identity(of(made, checkpoint=str(tmp_path / "text.ckpt")))
    with pytest.raises(ModelError, match=r"has no config\.json; set huggingface_config_path"):
        identity(of(made, huggingface_config_path=str(tmp_path)))
    with pytest.raises(ModelError, match=r"began as roberta-base, .* set huggingface_config_path"):
        identity(of(checkpoint.unbiased_checkpoint(), huggingface_config_path=None))
    with pytest.raises(ModelError, match=r"weights of 'original' are not on this machine.*set checkpoint"):
        identity(NeuralParams(model="original"))


@pytest.mark.parametrize(("package", "extra"), [("detoxify", "toxicity"), ("onnxruntime", "onnx")])
def test_a_missing_package_is_told_with_its_extra(
    made: Checkpoint, monkeypatch: pytest.MonkeyPatch, package: str, extra: str
) -> None:
    from importlib.metadata import PackageNotFoundError, version

    def without(name: str) -> str:
        if name == package:
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr("pipelines.pretrained.version", without)
    with pytest.raises(ModelError, match=rf"needs {package}, which is not installed: pip install -e '\.\[{extra}\]'"):
        open_classifier(of(made, runtime="onnx"))


def test_a_window_of_marks_alone_is_refused(made: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "context", lambda model, tokenizer: 2)
    with pytest.raises(ModelError, match="reads 2 tokens at once, of which 2 are its marks"):
        open_classifier(of(made))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "needs a checkpoint"),
        ({"model": "original", "window_tokens": 16}, "overlap_tokens 32 is more than half of window_tokens 16"),
        ({"model": "original", "quantize": True, "device": "cuda"}, "quantize is for a CPU"),
        ({"model": "original", "quantize": True, "precision": "bfloat16"}, "without quantize"),
        ({"model": "original", "runtime": "onnx", "precision": "float16"}, "for runtime 'torch'"),
        ({"model": "toxic"}, "'original', 'unbiased'"),
    ],
)
def test_settings_that_contradict_one_another_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        NeuralParams.model_validate(settings)


def test_a_gpu_that_is_not_there_is_told(made: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelError, match="device is 'cuda', and no GPU is there"):
        identity(of(made, device="cuda"))


def test_every_gpu_holds_a_replica(made: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert neural_runtime.devices(of(made)) == ["cuda:0", "cuda:1"]
    assert neural_runtime.devices(of(made, device="cpu")) == ["cpu"]
    assert (identity(of(made))["device"], identity(of(made))["precision"]) == ("cuda", "float16")
    assert identity(of(made, quantize=True))["precision"] == "float16"
    assert identity(of(made, quantize=True, device="cpu"))["precision"] == "int8"
