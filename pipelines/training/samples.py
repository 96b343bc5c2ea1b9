"""What a finished model writes when it is given the beginning of a text."""

from pathlib import Path

from pipelines.pretrained import open_causal_model
from pipelines.training.params import SampleParams


def continue_prompts(folder: Path, config: SampleParams, seed: int) -> list[dict[str, str]]:
    """The continuation of every prompt, as `{"prompt", "continuation"}`, on the CPU.

    folder: a model with its tokenizer, as `from_pretrained` loads it. Every prompt starts from the seed, so its
    continuation does not depend on the others. A prompt without tokens starts from the end-of-text token, as a new
    document does; one that leaves no room in the context keeps its last tokens.
    """
    import torch

    model, tokenizer = open_causal_model(folder, torch.float32)
    context = model.config.max_position_embeddings
    new_tokens = min(config.tokens, context - 1)
    how = {"do_sample": True, "temperature": config.temperature} if config.temperature else {"do_sample": False}
    told = []
    for prompt in config.prompts:
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"] or [tokenizer.eos_token_id]
        given = torch.tensor([ids[-(context - new_tokens) :]])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = model.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=new_tokens,
                pad_token_id=tokenizer.pad_token_id,
                **how,
            )
        text = str(tokenizer.decode(made[0, given.shape[1] :], skip_special_tokens=True))
        told.append({"prompt": prompt, "continuation": text})
    return told
