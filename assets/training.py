"""Models. Training runs in a process of its own; see `resources/launcher.py`."""

from assets.metered import asset
from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.health import LOSS_FALLING, LOSS_FINITE
from pipelines.training.params import PretrainParams
from pipelines.training.stage import SAMPLES_VERSION, VERSION, pretrain
from resources.launcher import Launcher


@asset(
    group="training",
    kinds={"torch", "huggingface"},
    shows="model",
    stage_versions=[VERSION, SAMPLES_VERSION],
    checks=[LOSS_FINITE, LOSS_FALLING],
    volatile_parts=["model"],
)
def pretrained_model(
    training_blend: Dataset,
    token_shards: Dataset,
    tokenizer: Dataset,
    config: PretrainParams,
    engine: Engine,
    launcher: Launcher,
) -> Draft:
    """A Llama trained from random weights on the blend; `AutoModelForCausalLM.from_pretrained` loads it."""
    return pretrain(training_blend, token_shards, tokenizer, config, engine, launcher.launch)
