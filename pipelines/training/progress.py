"""How far a training is: what a checkpoint remembers besides tensors, and how fast it goes."""

import math
from dataclasses import dataclass, field

CURVE_POINTS = 200
"""The loss curve is kept as this many means at most, so what a checkpoint remembers does not grow with the steps."""


@dataclass
class Progress:
    """What a training remembers besides tensors: counts, and the curves. JSON values, saved with every checkpoint.

    curve: (step, mean loss since the point before, learning rate, gradient norm). validation: (step, loss).
    """

    step: int = 0
    tokens: int = 0
    train_seconds: float = 0.0
    window_loss: float = 0.0
    window_steps: int = 0
    curve: list[list[float]] = field(default_factory=list)
    validation: list[list[float]] = field(default_factory=list)

    def count(self, tokens: int, seconds: float, steps: int, loss: float, rate: float, norm: float) -> None:
        """One more step done, of `steps`."""
        self.step += 1
        self.tokens += tokens
        self.train_seconds += seconds
        self.window_loss += loss
        self.window_steps += 1
        if self.step % math.ceil(steps / CURVE_POINTS) == 0 or self.step == steps:
            self.curve.append([self.step, self.window_loss / self.window_steps, rate, norm])
            self.window_loss, self.window_steps = 0.0, 0

    def validation_loss(self) -> float | None:
        """The validation loss of the weights at this step, None where none was taken."""
        return self.validation[-1][1] if self.validation and self.validation[-1][0] == self.step else None


@dataclass
class SpeedMeter:
    """Speed since the last report: tokens per second, and the share of time spent waiting for data."""

    tokens: int = 0
    seconds: float = 0.0
    waited: float = 0.0

    def count(self, tokens: int, seconds: float) -> None:
        """Tokens trained on, and the time they took."""
        self.tokens += tokens
        self.seconds += seconds

    def read(self) -> dict[str, float]:
        """The figures; the count starts again."""
        seconds = max(self.seconds, 1e-9)
        told = {"tokens_per_second": self.tokens / seconds, "data_wait_share": self.waited / seconds}
        self.tokens, self.seconds, self.waited = 0, 0.0, 0.0
        return told
