"""How a classifier's model is run: by torch on a CPU, as float32, under autocast or as int8; on every GPU there is; or
by ONNX Runtime.

Which texts make a batch stands in `neural.py`.
"""

import copy
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.pretrained import ModelError

Replica = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.float32]]
"""A model on one device: from ids[rows, tokens] and mask[rows, tokens], 1 where a token is none of the padding, to
probabilities[rows, labels]."""


def devices(params: NeuralParams) -> list[str]:
    """Names of the devices that hold a replica each: all GPUs, else the CPU."""
    import torch

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if params.device == "cuda" and not there:
        raise ModelError("toxicity: device is 'cuda', and no GPU is there; set it to 'auto' or 'cpu'")
    return [f"cuda:{number}" for number in range(there)] if there and params.device != "cpu" else ["cpu"]


def precision(params: NeuralParams, kind: str) -> str:
    """The dtype in which the model computes on devices of a kind, 'cpu' or 'cuda', by name; 'int8' when quantized."""
    import torch

    if kind == "cpu" or params.runtime == "onnx":
        standard = "int8" if params.quantize and kind == "cpu" else "float32"
    else:
        standard = "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    return standard if params.precision == "auto" or standard == "int8" else params.precision


def replicas(model: Any, places: list[str], params: NeuralParams) -> list[Replica]:
    """The model on each of the devices. It is used up."""
    kind = places[0].partition(":")[0]
    numbers = precision(params, kind)
    model = model.float().eval()
    if params.runtime == "onnx":
        return _sessions(model, places, params.threads, quantize=numbers == "int8")
    if numbers == "int8":
        model = _quantized(model)
    copies = [model, *(copy.deepcopy(model) for _ in places[1:])]
    return [_on_torch(own.to(place), place, numbers) for own, place in zip(copies, places, strict=True)]


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Torch with so many threads of the CPU. They are the whole process's, so they are given back."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the advice that libraries log and warn of while a model is made ready."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# -- torch --------------------------------------------------------------------------------------------------------


def _on_torch(model: Any, place: str, numbers: str) -> Replica:
    import torch

    kind = place.partition(":")[0]
    half = numbers in ("bfloat16", "float16")
    dtype = getattr(torch, numbers) if half else None

    def run(ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        with torch.inference_mode(), torch.autocast(kind, dtype, enabled=half):
            inputs = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
            logits = model(**{name: tensor.to(place) for name, tensor in inputs.items()}).logits
            found: npt.NDArray[np.float32] = logits.float().sigmoid().cpu().numpy()
        return found

    return run


def _quantized(model: Any) -> Any:
    """The same model, its linear layers with weights as int8 by output channel."""
    import torch
    from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

    if torch.backends.quantized.engine == "none":
        raise ModelError(
            "toxicity: this build of torch has no int8 for a CPU; set quantize to false, or runtime 'onnx'"
        )
    with _quiet():  # it is to move to another package, which no release of torch brings yet
        return quantize_dynamic(model, {torch.nn.Linear: per_channel_dynamic_qconfig}, inplace=True)


# -- ONNX Runtime -------------------------------------------------------------------------------------------------


def _sessions(model: Any, places: list[str], threads: int, *, quantize: bool) -> list[Replica]:
    """The model, exported once, in a session on each device. The files are gone when the sessions hold it."""
    import onnxruntime

    on_gpu = places[0] != "cpu"
    if on_gpu and "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise ModelError(
            "toxicity: runtime 'onnx' on a GPU needs onnxruntime-gpu in place of onnxruntime; install it, or set "
            "device to 'cpu' or runtime to 'torch'"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    made: list[Replica] = []
    with tempfile.TemporaryDirectory(prefix="onnx-") as name, _quiet():
        path = _exported(model, Path(name))
        path = _quantized_onnx(path) if quantize else path
        for place in places:
            provider = ("CUDAExecutionProvider", {"device_id": place.partition(":")[2]})
            made.append(
                _on_onnx(
                    onnxruntime.InferenceSession(
                        str(path), options, providers=[provider] if on_gpu else ["CPUExecutionProvider"]
                    )
                )
            )
    return made


def _on_onnx(session: Any) -> Replica:
    def run(ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        [logits] = session.run(["logits"], {"input_ids": ids, "attention_mask": mask})
        # exp(-|x|) cannot overflow
        small = np.exp(-np.abs(logits))
        found: npt.NDArray[np.float32] = np.where(logits >= 0, 1 / (1 + small), small / (1 + small)).astype(np.float32)
        return found

    return run


def _exported(model: Any, folder: Path) -> Path:
    import torch

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
            return logits

    path = folder / "model.onnx"
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 7, 8], [5, 6, 7, 8]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])
    sizes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("tokens")}
    with torch.inference_mode():
        torch.onnx.export(
            Logits().eval(),
            (ids, mask),
            str(path),
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_shapes={"input_ids": sizes, "attention_mask": sizes},
            dynamo=True,
            verbose=False,
        )
    return path


def _quantized_onnx(path: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    smaller = path.with_name("int8.onnx")
    quantize_dynamic(
        path, smaller, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True, weight_type=QuantType.QInt8
    )
    return smaller
