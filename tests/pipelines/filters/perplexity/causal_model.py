"""A causal model small enough to be made in a test, and texts that its tokenizer knows."""

from pathlib import Path

CONTEXT = 32
TEXTS = [
    "The miller sees the river, and the river turns the wheel. " * 4,
    "磨坊主看见河流，河流转动水轮。",
    "चक्की का मालिक नदी को देखता है।",
    "The cat 🐈 likes the miller.",
    "Der Müller mag die Katze und das Rad am Fluss. " * 2,
    "Tiny.",
]


def make_model(folder: Path, start: str | None = "<|endoftext|>", seed: int = 1) -> Path:
    """A GPT-2 with random weights, large enough for tokens to differ, and a byte-level tokenizer that knows TEXTS."""
    import tokenizers
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(TEXTS, vocab_size=300, special_tokens=[start] if start else [], show_progress=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, bos_token=start).save_pretrained(folder)
    torch.manual_seed(seed)
    sizes = {"n_positions": CONTEXT, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.5}
    GPT2LMHeadModel(GPT2Config(vocab_size=300, **sizes)).save_pretrained(folder)
    return folder
