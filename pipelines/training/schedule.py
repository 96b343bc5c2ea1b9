"""How many optimizer steps a training takes, and the learning rate of each. Pure functions; `pretrain.py` uses them."""

import math

from pipelines.training.params import PretrainParams
from pipelines.training.work import TrainingError


def learning_rate(step: int, steps: int, config: PretrainParams) -> float:
    """The rate of a step (counted from 0): linear warm-up, then half a cosine down to the final share.

    A cosine schedule without restarts (Loshchilov and Hutter 2017, equation 5).
    """
    warmup = math.ceil(config.warmup_share * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - 1 - warmup)
    share = config.final_learning_rate_share
    return config.learning_rate * (share + (1 - share) * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def step_count(sequences: int, config: PretrainParams) -> int:
    """Optimizer steps: one pass over the blend, its last batch as small as it is, or `max_steps` where that is less.

    Raises `TrainingError` for a blend without a sequence.
    """
    if sequences == 0:
        raise TrainingError(
            f"the blend holds no training sequence of {config.sequence_length + 1} tokens; shorten "
            "training.sequence_length, give the mixture more documents, or raise mixture.token_budget"
        )
    whole = math.ceil(sequences / config.batch_size)
    return min(whole, config.max_steps) if config.max_steps else whole
