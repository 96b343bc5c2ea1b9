"""Pretraining: the loop from random weights to a model folder, on one process or several ranks.

It reads a work folder (`work.py`), saves checkpoints from which a killed run goes on bit for bit (`checkpoints.py`),
and tells what happens through a `report` function. Who launches it stands in `resources/launcher.py`.
"""

import hashlib
import json
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np

from pipelines.store import digest
from pipelines.tokens.training_dataset import BlendDataset
from pipelines.training.checkpoints import Checkpoint, Checkpoints
from pipelines.training.learner import Batch, Learner
from pipelines.training.model import FLOPS_CONVENTION, flops_per_token, parameter_counts, read_tokenizer
from pipelines.training.owner import StopRequest
from pipelines.training.params import PretrainParams
from pipelines.training.progress import Progress, SpeedMeter
from pipelines.training.ranks import Ranks
from pipelines.training.schedule import learning_rate, step_count
from pipelines.training.work import Event, Report, TrainingError, WorkFolder

ONE_PROCESS = Ranks()


def pretrain(work: WorkFolder, report: Report, stop: StopRequest, ranks: Ranks = ONE_PROCESS) -> bool:
    """Train the job of a work folder, from its newest whole checkpoint where there is one.

    Returns True once the model stands in `work.model`, False when asked to stop: then a checkpoint of the step
    stands. Raises `TrainingError` when the job, the data or the loss does not allow to go on.
    """
    training = Pretraining(work, work.read_job(), ranks, report if ranks.first else _silent)
    training.resume()
    finished = training.run(stop)
    if not finished:
        training.report({"event": "stopped", "step": training.progress.step})
    elif ranks.first:
        summary = training.publish()
        report({"event": "finished", "step": training.progress.step, "summary": summary})
    return finished


class Pretraining:
    """One training: its data, its learner, how far it is, and its checkpoints."""

    def __init__(self, work: WorkFolder, config: PretrainParams, ranks: Ranks, report: Report) -> None:
        self.work, self.config, self.ranks, self.report = work, config, ranks, report
        how = config.sequence_length, config.seed, config.attention
        try:
            self.train_data = BlendDataset(work.data, "train", *how)
            self.validation_data = BlendDataset(work.data, "validation", *how)
        except ValueError as error:
            raise TrainingError(str(error)) from error
        self.steps = step_count(len(self.train_data), config)
        self.vocabulary, special_tokens = read_tokenizer(work.tokenizer)
        self.learner = Learner(config, self.vocabulary, special_tokens, ranks)
        self.progress = Progress()
        self.speed = SpeedMeter()
        self.saved: tuple[int, float | None] | None = None
        self.checkpoints = Checkpoints(
            work.checkpoints,
            {**config.result_params(), "steps": self.steps, "data": _data_digest(work)},
            config.keep_checkpoints,
        )

    # -- to the end, or to the request to stop ------------------------------------------------------------------

    def run(self, stop: StopRequest) -> bool:
        """Train from where it stands; True at the end, False when asked to stop. Either way the state is saved.

        Evaluating and saving come before the next step: whoever stands at a step does what is due there, so a run that
        was stopped in the middle of an evaluation makes up for it when it is resumed.
        """
        self.learner.model.train()
        while not self.ranks.any(stop(), self.learner.device):
            at_end = self.progress.step == self.steps
            if (at_end or self._due(self.config.evaluate_every_steps)) and not self.evaluate(stop):
                break
            if at_end or self._due(self.config.checkpoint_every_steps) or self._best_to_publish():
                self.save()
            if at_end:
                return True
            self.train_step()
        self.save()
        return False

    def train_step(self) -> None:
        """One optimizer step.

        Raises `TrainingError` when loss or gradient is not finite; weights and checkpoints are then as they were.
        """
        started = time.monotonic()
        config, step = self.config, self.progress.step
        batch = range(step * config.batch_size, min((step + 1) * config.batch_size, len(self.train_data)))
        tokens = len(batch) * config.sequence_length
        rate = learning_rate(step, self.steps, config)
        micro_batches = self._micro_batches(self.train_data, self.ranks.share(batch), self.speed)
        loss = self.learner.accumulate(micro_batches, self._predictions(self.train_data, batch))
        norm = self.learner.update(rate) if math.isfinite(loss) else math.nan
        if not math.isfinite(norm):
            raise TrainingError(
                f"step {step + 1} of {self.steps}: the loss is {loss}, the norm of its gradient {norm}; lower "
                f"training.learning_rate ({config.learning_rate:g}) or raise training.warmup_share "
                f"({config.warmup_share:g})"
            )
        seconds = time.monotonic() - started
        self.progress.count(tokens, seconds, self.steps, loss, rate, norm)
        self.speed.count(tokens, seconds)
        if self._due(config.report_every_steps) or self.progress.step in (1, self.steps):
            self.report(
                {
                    "event": "step",
                    "step": self.progress.step,
                    "steps": self.steps,
                    "loss": loss,
                    "learning_rate": rate,
                    "gradient_norm": norm,
                    "tokens": self.progress.tokens,
                    **self.speed.read(),
                }
            )

    def evaluate(self, stop: StopRequest) -> bool:
        """Take the validation loss per token at this step, unless it is there; False when asked to stop meanwhile."""
        import torch

        count = len(self._validation)
        if count == 0 or self.progress.validation_loss() is not None:
            return True
        total = torch.zeros(1, dtype=torch.float64, device=self.learner.device)
        self.learner.model.eval()
        try:
            with torch.no_grad():
                wide = self.config.micro_batch_size * self.ranks.world_size
                for start in range(0, count, wide):
                    if self.ranks.any(stop(), self.learner.device):
                        return False
                    mine = self.ranks.share(range(start, min(start + wide, count)))
                    for samples in self._micro_batches(self.validation_data, mine, SpeedMeter()):
                        total += self.learner.loss_sum(samples)
        finally:
            self.learner.model.train()
        loss = float(self.ranks.sum(total).item()) / self._validation_predictions
        if not math.isfinite(loss):
            raise TrainingError(
                f"step {self.progress.step} of {self.steps}: the validation loss is {loss}; lower "
                f"training.learning_rate ({self.config.learning_rate:g})"
            )
        self.progress.validation.append([self.progress.step, loss])
        self.report({"event": "validation", "step": self.progress.step, "loss": loss, "sequences": count})
        return True

    # -- saving, resuming, publishing ---------------------------------------------------------------------------

    def save(self) -> None:
        """Save the state at this step, once; no rank runs on before the checkpoint stands."""
        state = (self.progress.step, self.progress.validation_loss())
        if state != self.saved and self.ranks.first:
            self.checkpoints.save(state[0], self.learner.write, asdict(self.progress), state[1])
            self.report({"event": "checkpoint", "step": state[0]})
        self.saved = state
        self.ranks.wait()

    def resume(self) -> None:
        """Take up the newest whole checkpoint, the start where there is none. All ranks take up the same one."""
        checkpoint: Checkpoint | None = None
        if self.ranks.first:
            self.checkpoints.discard_partial()
            checkpoint = self.checkpoints.newest(
                lambda folder, reason: self.report(
                    {"event": "damaged_checkpoint", "checkpoint": folder.name, "reason": reason}
                )
            )
        step = self.ranks.from_first(checkpoint.step if checkpoint else -1, self.learner.device)
        if step >= 0:
            checkpoint = checkpoint or self.checkpoints.at(step)
            self.learner.read(checkpoint.tensors)
            self.progress = Progress(**checkpoint.progress())
            self.saved = (step, checkpoint.validation_loss)
        self.report(
            {
                "event": "started",
                "step": self.progress.step,
                "steps": self.steps,
                "parameters": parameter_counts(self.learner.model)[0],
                "ranks": self.ranks.world_size,
                "device": self.learner.device.type,
                "precision": self.learner.precision,
            }
        )

    def publish(self) -> dict[str, Any]:
        """Write the model folder, whole: weights, tokenizer files, `training.json`. Returns what stands in the last."""
        step, loss = self.progress.step, self.progress.validation_loss()
        best = self.checkpoints.best() if self.config.publish == "best" else None
        if best is not None and best.step != step:
            self.learner.read(best.tensors, weights_only=True)
            step, loss = best.step, best.validation_loss
        summary = {**self._summary(), "published_step": step, "validation_loss": loss}
        partial = self.work.root / "model.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        self.learner.model.save_pretrained(partial)
        for file in sorted(self.work.tokenizer.iterdir()):
            shutil.copyfile(file, partial / file.name)
        (partial / self.work.summary.name).write_text(json.dumps(summary, indent=1) + "\n")
        shutil.rmtree(self.work.model, ignore_errors=True)
        partial.rename(self.work.model)
        return summary

    def _summary(self) -> dict[str, Any]:
        config, progress = self.config, self.progress
        total, multiplying = parameter_counts(self.learner.model)
        per_token = flops_per_token(multiplying, config.layers, config.hidden_size, config.sequence_length)
        utilisation: float | str = "N/A"
        if config.device_peak_teraflops and progress.train_seconds:
            peak = config.device_peak_teraflops * 1e12 * self.ranks.world_size
            utilisation = per_token * progress.tokens / progress.train_seconds / peak
        return {
            "steps": progress.step,
            "sequences_trained": progress.tokens // config.sequence_length,
            "sequences_available": len(self.train_data),
            "cut_tokens": self.train_data.cut_tokens,
            "padding_share": self.train_data.padding_share,
            "tokens": progress.tokens,
            "parameters": total,
            "vocabulary": self.vocabulary,
            "loss": progress.curve[-1][1],
            "curve": progress.curve,
            "validation_curve": progress.validation,
            "flops": per_token * progress.tokens,
            "flops_per_token": per_token,
            "flops_convention": FLOPS_CONVENTION,
            "model_flops_utilisation": utilisation,
            "train_seconds": progress.train_seconds,
            "ranks": self.ranks.world_size,
            "device": self.learner.device.type,
            "precision": self.learner.precision,
        }

    # -- small questions ----------------------------------------------------------------------------------------

    def _due(self, every: int) -> bool:
        return self.progress.step > 0 and self.progress.step % every == 0

    def _best_to_publish(self) -> bool:
        """True where the best weights become the model and these are the best so far: they must not be lost."""
        loss = self.progress.validation_loss()
        wanted = self.config.publish == "best" and loss is not None
        return wanted and loss == min(earlier for _, earlier in self.progress.validation)

    @property
    def _validation(self) -> range:
        """The samples that a validation loss is taken over."""
        return range(min(self.config.validation_sequences, len(self.validation_data)))

    @cached_property
    def _validation_predictions(self) -> int:
        return self._predictions(self.validation_data, self._validation)

    def _predictions(self, data: BlendDataset, samples: range) -> int:
        """Labels that count of these samples; 1 where none does, for their loss of 0 to be divided by.

        Each rank counts its share. Every rank must call.
        """
        if data.all_count:
            return data.predictions(samples)
        import torch

        mine = torch.tensor([data.predictions(self.ranks.share(samples))], device=self.learner.device)
        return max(1, int(self.ranks.sum(mine).item()))

    def _micro_batches(self, data: BlendDataset, indices: Sequence[int], meter: SpeedMeter) -> Iterator[Batch]:
        """Samples of the data, stacked, int64 [micro-batch, sequence length], on the device.

        Raises `TrainingError` for a token id that the model has no embedding for.
        """
        import torch

        for start in range(0, len(indices), self.config.micro_batch_size):
            started = time.monotonic()
            samples = [data[index] for index in indices[start : start + self.config.micro_batch_size]]
            stacked = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
            if (highest := max(int(stacked["input_ids"].max()), int(stacked["labels"].max()))) >= self.vocabulary:
                raise TrainingError(
                    f"the blend holds the token id {highest}, the tokenizer ends at {self.vocabulary - 1}: the token "
                    "shards were made with another tokenizer; run the full range of sources"
                )
            meter.waited += time.monotonic() - started
            yield {
                name: torch.from_numpy(ids).to(self.learner.device, non_blocking=True) for name, ids in stacked.items()
            }


def _silent(_event: Event) -> None:
    """The report of ranks that do not report."""


def _data_digest(work: WorkFolder) -> str:
    """A digest of what is trained on: the blend and tokenizer files by content, token shards by name and size."""
    small = [work.data / "blend.json", *sorted(work.tokenizer.iterdir())]
    return digest(
        [
            [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in small],
            sorted([path.name, path.stat().st_size] for path in work.data.iterdir()),
        ]
    )
