"""What a model writes: repeatable, from any beginning."""

import pytest

from pipelines.training.model import build_model
from pipelines.training.params import SampleParams
from pipelines.training.samples import continue_prompts
from tests.pipelines.training.corpus import TINY


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    """A model with random weights."""
    folder = corpus.tokenizer.folder("tokenizer", tmp_path_factory.mktemp("model"))
    build_model(TINY, 300, {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 1}).save_pretrained(folder)
    return folder


def written(folder, *prompts, **values):
    return [
        sample["continuation"] for sample in continue_prompts(folder, SampleParams(prompts=list(prompts), **values), 1)
    ]


def test_a_prompt_gives_the_same_text_whatever_its_neighbours(folder):
    assert written(folder, "The cat", "The dog")[1] == written(folder, "The dog")[0]


def test_no_beginning_and_one_longer_than_the_context_are_continued(folder):
    assert len(written(folder, "", "The cat sees the dog. " * 50, tokens=500)) == 2


def test_temperature_zero_takes_the_likeliest_token(folder):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("The cat")["input_ids"]
    for _ in range(5):
        ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    assert written(folder, "The cat", tokens=5, temperature=0.0) == [
        tokenizer.decode(ids[-5:], skip_special_tokens=True)
    ]


def test_no_prompts_no_samples(folder):
    assert written(folder) == []
