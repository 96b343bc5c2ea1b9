"""Checkpoints in Detoxify's format: found, known by their content, and opened by Detoxify. Nothing is downloaded.

A checkpoint is a file of torch: the weights, the classes, and the names of the architecture and of the model that it
began as, whose configuration and tokenizer stand in a folder beside it. What is done with it stands in `neural.py`.
"""

import io
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.pretrained import DESCRIBING, ModelError, cached_folder, file_hash, minor_versions
from pipelines.store import digest

_EXTRAS = {"onnx": "onnx", "onnxruntime": "onnx", "onnxscript": "onnx"}


@dataclass(frozen=True)
class Found:
    """A checkpoint and the folder that describes its model. name: what errors call it. given: the folder was named by
    the user, not found in the cache."""

    name: str
    checkpoint: Path
    folder: Path
    given: bool

    def identity(self) -> dict[str, str]:
        """SHA-256 of what decides the model: the checkpoint, and the folder's configuration and tokenizer."""
        described = [path for path in sorted(self.folder.iterdir()) if path.suffix in DESCRIBING]
        config = digest([[path.name, file_hash(path)] for path in described])
        return {"checkpoint": file_hash(self.checkpoint), "config": config}


def libraries(runtime: str) -> dict[str, str]:
    """Minor versions of what scores. Raises `ModelError`, naming the extra, where one is missing."""
    wanted = ["detoxify", "tokenizers", "torch", "transformers"]
    wanted += ["onnx", "onnxruntime", "onnxscript"] if runtime == "onnx" else []
    try:
        return minor_versions(*wanted)
    except PackageNotFoundError as error:
        extra = _EXTRAS.get(str(error.name), "toxicity")
        raise ModelError(
            f"toxicity: a neural model needs {error.name}, which is not installed: pip install -e '.[{extra}]', then "
            "run again"
        ) from None


def find(params: NeuralParams) -> Found:
    """The model that the parameters name. Raises `ModelError` where it, or what runs it, is not there."""
    libraries(params.runtime)
    path = Path(params.checkpoint) if params.checkpoint else _released(str(params.model))
    name = params.model or str(path)
    if not path.is_file():
        raise ModelError(f"toxicity: there is no checkpoint at {path}; set checkpoint to a file in Detoxify's format")
    base = str(_read(path)["config"]["arch"]["args"]["model_type"])
    if params.huggingface_config_path:
        folder = Path(params.huggingface_config_path)
    else:
        folder = Path(base) if Path(base).is_dir() else _cached(base, path)
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"toxicity: the folder {folder} has no config.json; set huggingface_config_path to a folder with "
            f"configuration and tokenizer of {base}"
        )
    return Found(name, path, folder, params.huggingface_config_path is not None)


def open_detoxify(found: Found) -> Any:
    """The `detoxify.Detoxify` of a checkpoint, on the CPU. Raises `ModelError` where it cannot be opened."""
    import torch
    from detoxify import Detoxify
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    loaded = _read(found.checkpoint)
    # Detoxify asks the hub about model_type even where it has the folder, and fails without a network.
    loaded["config"]["arch"]["args"]["model_type"] = str(found.folder)
    file = io.BytesIO()
    torch.save({name: loaded[name] for name in ("config", "state_dict")}, file)
    file.seek(0)
    try:
        opened = Detoxify(checkpoint=file, huggingface_config_path=str(found.folder) if found.given else None)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError, RuntimeError) as error:
        told = " ".join(str(error).split())[:300]
        raise ModelError(
            f"toxicity: Detoxify cannot open {found.name} with the folder {found.folder}: {told}"
        ) from error
    missing = [name for name, _ in opened.model.named_parameters() if name not in loaded["state_dict"]]
    if missing:  # transformers would leave them random
        raise ModelError(
            f"toxicity: the checkpoint {found.checkpoint} lacks {len(missing)} of the model's weights, first "
            f"{missing[0]}; where its names begin with 'model.', a checkpoint of training has to be converted first"
        )
    if twice := [name for name in opened.class_names if opened.class_names.count(name) > 1]:
        raise ModelError(
            f"toxicity: two classes of the checkpoint {found.checkpoint} are {twice[0]!r} to Detoxify, which renames "
            "those of the training data; name one otherwise"
        )
    if opened.model.config.num_labels != len(opened.class_names):
        raise ModelError(
            f"toxicity: the checkpoint {found.checkpoint} has {len(opened.class_names)} classes, and {found.folder} "
            f"describes a model with {opened.model.config.num_labels}; set huggingface_config_path to its own folder"
        )
    return opened


def _released(name: str) -> Path:
    """Where torch keeps the weights of a model that Detoxify released."""
    import torch
    from detoxify.detoxify import MODEL_URLS

    path = Path(torch.hub.get_dir(), "checkpoints", MODEL_URLS[name].rpartition("/")[2])
    if not path.is_file():
        raise ModelError(
            f"toxicity: the weights of {name!r} are not on this machine, and nothing is downloaded in a run; fetch "
            f"{MODEL_URLS[name]} before, and set checkpoint to that file"
        )
    return path


def _cached(base: str, checkpoint: Path) -> Path:
    try:
        return cached_folder(base, None)
    except ModelError:
        raise ModelError(
            f"toxicity: {checkpoint} began as {base}, whose configuration and tokenizer are not on this machine; set "
            "huggingface_config_path to a folder that has them"
        ) from None


def _read(path: Path) -> dict[str, Any]:
    """A checkpoint as it was saved; weights are read from the file when they are looked at, where its format allows."""
    import torch

    try:
        loaded = torch.load(path, map_location="cpu", weights_only=False, mmap=zipfile.is_zipfile(path))
    except (OSError, EOFError, ImportError, AttributeError, ValueError, RuntimeError, pickle.UnpicklingError) as error:
        told = " ".join(str(error).split())[:200]
        raise ModelError(f"toxicity: torch cannot read the checkpoint {path}: {told}") from error
    for keys in (("state_dict",), ("config", "dataset", "args", "classes"), ("config", "arch", "args", "model_type")):
        inner: Any = loaded
        for key in keys:
            inner = inner.get(key) if isinstance(inner, Mapping) else None
        if not inner:
            raise ModelError(
                f"toxicity: the checkpoint {path} is not in Detoxify's format: it lacks {'.'.join(keys)}; set "
                "checkpoint to a file that Detoxify's training saved"
            )
    return dict(loaded)
