"""The folder that a training process works in: what the stage lays out, the trainer reads, and the launcher watches.
How the trainer fills it stands in `pretrain.py` and `checkpoints.py`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.training.params import PretrainParams

Event = dict[str, Any]
Report = Callable[[Event], None]
"""What the trainer tells while it works: JSON values with an "event" of started, step, validation, checkpoint,
damaged_checkpoint, finished or stopped."""

STOPPED_EXIT_CODE = 75
"""Exit code of a trainer that was asked to stop and saved its state first (EX_TEMPFAIL of sysexits.h: try again)."""


class TrainingError(RuntimeError):
    """Training cannot go on; the message names what is wrong and the way out."""


@dataclass(frozen=True)
class WorkFolder:
    """Where things stand in a training process's folder."""

    root: Path

    @property
    def data(self) -> Path:
        """blend.json and the token shards it names."""
        return self.root / "data"

    @property
    def tokenizer(self) -> Path:
        """Files that `AutoTokenizer.from_pretrained` loads."""
        return self.root / "tokenizer"

    @property
    def job(self) -> Path:
        """The parameters, JSON."""
        return self.root / "job.json"

    @property
    def checkpoints(self) -> Path:
        """One folder per checkpoint."""
        return self.root / "checkpoints"

    @property
    def model(self) -> Path:
        """The finished model: it stands whole under this name, or not at all."""
        return self.root / "model"

    @property
    def summary(self) -> Path:
        """What the training came to, JSON, beside the weights."""
        return self.model / "training.json"

    @property
    def reports(self) -> Path:
        """Reports as JSON lines, where no Dagster listens."""
        return self.root / "reports.jsonl"

    @property
    def log(self) -> Path:
        """What the processes print."""
        return self.root / "trainer.log"

    def write_job(self, config: PretrainParams) -> None:
        """Write the parameters for the trainer."""
        self.job.write_text(config.model_dump_json(indent=1) + "\n")

    def read_job(self) -> PretrainParams:
        """The parameters. Raises `TrainingError` when the file is missing or says what no trainer understands."""
        try:
            return PretrainParams.model_validate_json(self.job.read_text())
        except FileNotFoundError:
            raise TrainingError(f"{self.job} is missing; lay the work folder out before launching a trainer") from None
        except ValidationError as error:
            raise TrainingError(f"{self.job} does not hold valid training parameters: {error}") from None

    def read_summary(self) -> dict[str, Any]:
        """The summary of a finished training. Raises `TrainingError` when the model folder is not whole."""
        for path in (self.model / "config.json", self.summary):
            if not path.is_file():
                raise TrainingError(f"the trainer ended without leaving {path.name} in {self.model}; run it again")
        if not any(self.model.glob("*.safetensors")):
            raise TrainingError(f"the trainer ended without leaving weights in {self.model}; run it again")
        summary: dict[str, Any] = json.loads(self.summary.read_text())
        return summary
