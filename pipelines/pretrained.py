"""Models made elsewhere, as folders and files: found, known by their content, and opened. Nothing is downloaded.

What they are used for stands in `pipelines/training/samples.py`, `pipelines/filters/perplexity/causal.py` and
`pipelines/filters/toxicity/neural.py`.
"""

import functools
import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.store import digest

if TYPE_CHECKING:
    import torch

DESCRIBING = frozenset({".json", ".model", ".txt"})
"""Endings of files of which `from_pretrained` reads configuration and tokenizer."""


class ModelError(ValueError):
    """A model cannot be found or opened; the message names it and the way out."""


def cached_folder(name: str, revision: str | None) -> Path:
    """The folder of a hub's model in this machine's cache. Raises `ModelError` where it is not there."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (OSError, ValueError):
        at = f" --revision {revision}" if revision else ""
        raise ModelError(
            f"the model {name} is not in this machine's Hugging Face cache, and nothing is downloaded in a run; fetch "
            f"it before: hf download {name}{at}"
        ) from None


def content_hash(folder: Path) -> str:
    """SHA-256, hex, of the files that decide what a model says: configuration, tokenizer, weights. Names count, paths
    don't. Raises `ModelError` where the folder holds no model."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()] if folder.is_dir() else []
    weights = [path for path in files if path.suffix == ".safetensors"] or [p for p in files if p.suffix == ".bin"]
    if not weights or not (folder / "config.json").exists():
        raise ModelError(
            f"the folder {folder} holds no model: config.json and weights (*.safetensors or *.bin) must stand in it"
        )
    deciding = [path for path in files if path in weights or path.suffix in DESCRIBING]
    return digest([[path.name, file_hash(path)] for path in deciding])


def file_hash(path: Path) -> str:
    """SHA-256 of a file, hex; a file whose size and time of change are the same is not read twice."""
    found = path.stat()
    return _hash(path.resolve(), found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _hash(path: Path, size: int, modified_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_causal_model(folder: Path, precision: "torch.dtype", device: str = "cpu") -> tuple[Any, Any]:
    """(model, tokenizer), ready to be asked. Raises `ModelError` where transformers cannot load them, or would fill in
    weights of its own because the file lacks them."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype=precision, output_loading_info=True
        )
        model, told = loaded
        model = model.to(device)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, MemoryError, SafetensorError) as error:
        if out_of_memory(error):
            raise ModelError(
                f"the memory of the {device} does not suffice for the model in {folder}; take a smaller one"
            ) from None
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"the folder {folder} holds no causal model that transformers can load: {reason}") from error
    if missing := sorted(told["missing_keys"]):
        raise ModelError(
            f"the folder {folder} holds no whole causal model: {len(missing)} of its weights are missing, the first is "
            f"{missing[0]}"
        )
    return model.eval(), tokenizer


def minor_versions(*packages: str) -> dict[str, str]:
    """Of what runs a model, for keys: a patch release moves rounding at most. Raises `PackageNotFoundError`."""
    return {name: ".".join(version(name).split(".")[:2]) for name in packages}


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory did not suffice to run a model: of a GPU, of the CPU, or of ONNX Runtime, whose
    errors have no class of their own for it."""
    import torch

    told = str(error)
    asked = ("DefaultCPUAllocator", "Failed to allocate memory", "bad_alloc", "out of memory")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in told for words in asked)
