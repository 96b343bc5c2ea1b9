"""The model that is pretrained: its architecture from the parameters and the tokenizer, its size, and what a token
costs in FLOPs. How it is trained stands in `learner.py` and `pretrain.py`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.training.params import PretrainParams
from pipelines.training.work import TrainingError

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM

FLOPS_CONVENTION = (
    "6N + 12Lhs per token, forward and backward (Chowdhery et al. 2022, PaLM, appendix B): N parameters that multiply "
    "(an embedding that is only looked up does not), L layers, h hidden size, s sequence length; causal masking not "
    "subtracted"
)


def flops_per_token(multiplying_parameters: int, layers: int, hidden_size: int, sequence_length: int) -> int:
    """FLOPs of one trained token: 6N + 12Lhs (PaLM, appendix B)."""
    return 6 * multiplying_parameters + 12 * layers * hidden_size * sequence_length


def build_model(config: PretrainParams, vocabulary: int, special_tokens: dict[str, Any]) -> "LlamaForCausalLM":
    """A Llama with random float32 weights that the seed decides, on the CPU.

    vocabulary: rows of the embedding. special_tokens: ids under `bos_token_id`, `eos_token_id`, `pad_token_id`.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(config.seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=config.sequence_length,
            tie_word_embeddings=config.tied_embeddings,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            initializer_range=0.02,
            dtype="float32",
            **special_tokens,
        )
    )


def document_mask(position_ids: "torch.Tensor") -> "torch.Tensor":
    """Which inputs each input sees, bool [sequences, 1, length, length]: itself and the earlier ones of its document.

    position_ids: [sequences, length], 0 where a document begins. Memory: length² bytes for each sequence.
    """
    documents = (position_ids == 0).cumsum(1)
    return (documents[:, :, None] == documents[:, None, :]).tril()[:, None]


def parameter_counts(model: Any) -> tuple[int, int]:
    """(all parameters, those that multiply): an embedding that is not tied to the output layer is only looked up."""
    total = sum(parameter.numel() for parameter in model.parameters())
    looked_up = 0 if model.config.tie_word_embeddings else model.get_input_embeddings().weight.numel()
    return total, total - looked_up


def read_tokenizer(folder: Path) -> tuple[int, dict[str, Any]]:
    """(largest id + 1, special ids). Raises `TrainingError` where padding could not be told from end of text."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    if special["eos_token_id"] is None or special["pad_token_id"] in (None, special["eos_token_id"]):
        raise TrainingError(
            f"the tokenizer has the special ids {special}: it needs an end-of-text token and another one for padding, "
            "or a later fine-tuning masks the end of every text and never learns to stop"
        )
    return max(tokenizer.get_vocab().values()) + 1, special  # ids may have gaps
