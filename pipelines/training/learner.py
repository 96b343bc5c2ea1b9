"""Model and optimizer on a device: the loss of sequences, the gradient of a batch, one update, the tensors on disk.
It knows no data and no schedule; the loop stands in `pretrain.py`."""

import contextlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.tokens.training_dataset import IGNORED
from pipelines.training.model import build_model, document_mask
from pipelines.training.params import PretrainParams
from pipelines.training.ranks import Ranks
from pipelines.training.work import TrainingError

if TYPE_CHECKING:
    import torch

Batch = dict[str, "torch.Tensor"]
"""Samples as `BlendDataset` gives them, stacked."""

ADAM_BETAS = (0.9, 0.95)
"""Decay rates of AdamW's moments, as in Touvron et al. 2023 (Llama), section 2.3."""


def select_device(config: PretrainParams) -> "torch.device":
    """The device this process trains on. Raises `TrainingError` for a GPU that is asked for and not there."""
    import torch

    if config.device == "cuda" and not torch.cuda.is_available():
        raise TrainingError("training.device is cuda, but torch finds no GPU here; set it to auto or cpu")
    if config.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


class Learner:
    """A model that learns, the same on every rank.

    Memory: weights, gradients and two moments (16 bytes per parameter), activations of one micro-batch, and its
    logits (micro-batch × sequence × vocabulary).
    """

    def __init__(self, config: PretrainParams, vocabulary: int, special_tokens: dict[str, Any], ranks: Ranks) -> None:
        import torch

        self.config, self.ranks = config, ranks
        self.device = select_device(config)
        self.precision = _precision(config, self.device)
        self.model = build_model(config, vocabulary, special_tokens)
        torch.nn.Module.to(self.model, self.device)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
                {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0},
            ],
            lr=config.learning_rate,
            betas=ADAM_BETAS,
            fused=True,
        )

    def loss_sum(self, batch: Batch) -> "torch.Tensor":
        """Cross-entropy of every label that counts, summed, in nats: float32 scalar.

        batch: input_ids, labels and position_ids, each int64 [sequences, length].
        """
        import torch

        apart: dict[str, torch.Tensor] = {}
        if self.config.attention == "document":
            positions = batch["position_ids"]
            apart = {"position_ids": positions, "attention_mask": document_mask(positions)}
        low = self.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16) if low else contextlib.nullcontext():
            logits = self.model(input_ids=batch["input_ids"], use_cache=False, **apart).logits
        return torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED, reduction="sum"
        )

    def accumulate(self, micro_batches: Iterable[Batch], batch_tokens: int) -> float:
        """Gather the gradient of one batch over micro-batches and ranks; returns the mean loss per token.

        batch_tokens: labels that count, of the whole batch, over all ranks. Sums are divided by it, never by
        micro-batch or rank, so a short last batch weighs each of its tokens alike.
        """
        import torch

        total = torch.zeros(1, dtype=torch.float64, device=self.device)
        for batch in micro_batches:
            loss = self.loss_sum(batch) / batch_tokens
            loss.backward()
            total += loss.detach()
        self.ranks.sum_gradients(self.parameters)
        return float(self.ranks.sum(total).item())

    def update(self, learning_rate: float) -> float:
        """Clip the gathered gradient and take one optimizer step; returns the gradient's norm before clipping.

        A norm that is not finite changes nothing.
        """
        import torch

        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.config.gradient_clip))
        if math.isfinite(norm):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def write(self, path: Path) -> None:
        """Write weights and optimizer state."""
        import torch

        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def read(self, path: Path, *, weights_only: bool = False) -> None:
        """Take up what `write` wrote. weights_only: leave the optimizer as it is."""
        import torch

        state: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        if not weights_only:
            self.optimizer.load_state_dict(state["optimizer"])


def _precision(config: PretrainParams, device: "torch.device") -> str:
    import torch

    if config.precision != "auto":
        return config.precision
    return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
