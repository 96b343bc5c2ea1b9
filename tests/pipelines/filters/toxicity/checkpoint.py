"""Small checkpoints in Detoxify's format, trained here: nothing is downloaded, and Detoxify itself opens them.

Real ones are of BERT's, RoBERTa's or ALBERT's size; these have their parts, their files and their quirks. Where the
shared data is absent a few sentences are learned.
"""

import atexit
import csv
import functools
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.filters.toxicity.neural_params import NeuralParams
from tests.pipelines.filters.corpus import DATA

COMMENTS, TWEETS = "surge_toxicity_en.csv", "davidson_tweets.csv"

CLASSES = ("toxic", "offensive", "identity_hate")
"""As a training set names them; Detoxify calls the first 'toxicity' and the last 'identity_attack'."""

UNBIASED = ("toxicity", "severe_toxicity", "obscene", "identity_attack", "insult", "threat", "sexual_explicit")
"""The classes of Detoxify's 'unbiased' models."""

RUDE = ["you are a stupid idiot", "shut up you moron", "what an ugly piece of shit", "i hate you fucking idiot"]
KIND = ["what a lovely garden you have", "thank you for the tea", "the train leaves at noon", "i like this book a lot"]


TEXTS = ["you idiot", "", "!!!", "the tea [SEP] you moron", "天气很好", "Thank you for the tea! " * 4, *RUDE, *KIND]
"""Rude, kind, empty, long, and with marks that a tokenizer knows."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk. config: the folder for huggingface_config_path. labels: as Detoxify names them."""

    path: Path
    config: Path
    labels: tuple[str, ...]


def of(made: Checkpoint, **settings: Any) -> NeuralParams:
    """Parameters for a checkpoint on disk."""
    return NeuralParams.model_validate(
        {"checkpoint": str(made.path), "huggingface_config_path": str(made.config), **settings}
    )


@dataclass(frozen=True)
class Labelled:
    """Texts and what people said of them: float32[texts, classes] of 0 and 1, NaN where nobody was asked."""

    texts: list[str]
    values: "np.ndarray[Any, np.dtype[np.float32]]"


def sentences() -> Labelled:
    """A few sentences, so that tests run on a clean clone."""
    texts = [f"{one} {two}" for side in (RUDE, KIND) for one in side for two in side]
    rude = np.arange(len(texts)) < len(texts) / 2
    return Labelled(texts, np.stack([rude, rude, np.zeros(len(texts))], axis=1).astype(np.float32))


def comments_and_tweets(count: int) -> Labelled:
    """The even rows of the labelled comments and tweets, at most so many of each: odd rows are there to be judged by.

    Comments say only whether they are toxic; a third of the tweets is neither hateful nor offensive.
    """
    texts, values = [], []
    with (DATA / "toxicity" / COMMENTS).open(encoding="utf-8") as file:
        for row in list(csv.DictReader(file))[::2][:count]:
            texts.append(row["text"])
            values.append([float(row["is_toxic"] == "Toxic"), np.nan, np.nan])
    with (DATA / "toxicity" / TWEETS).open(encoding="utf-8") as file:
        tweets = list(csv.DictReader(file))[::2]
    for kind, share in (("0", 4), ("1", 2), ("2", 4)):
        for row in [tweet for tweet in tweets if tweet["class"] == kind][: count // share]:
            texts.append(row["tweet"])
            values.append([float(kind != "2"), float(kind == "1"), float(kind == "0")])
    return Labelled(texts, np.array(values, np.float32))


@functools.cache
def small_checkpoint() -> Checkpoint:
    """BERT with two layers that has learned from sentences: made in a second, once for all tests."""
    return train(_folder(), sentences(), hidden=32, epochs=30)


@functools.cache
def trained_checkpoint() -> Checkpoint:
    """BERT with two layers that has learned from comments and tweets, else from sentences; made in 20 seconds."""
    shared = all((DATA / "toxicity" / name).exists() for name in (COMMENTS, TWEETS))
    return train(_folder(), comments_and_tweets(1500), hidden=64, epochs=6) if shared else small_checkpoint()


@functools.cache
def unbiased_checkpoint() -> Checkpoint:
    """RoBERTa with the seven classes of 'unbiased', which has learned nothing."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import RobertaConfig, RobertaForSequenceClassification, RobertaTokenizer

    folder = _folder()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = ByteLevelBPETokenizer()
    pieces.train_from_iterator(sentences().texts, vocab_size=400, special_tokens=special, show_progress=False)
    pieces.save_model(str(folder))
    tokenizer = RobertaTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=64)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=66,
        num_labels=len(UNBIASED),
        type_vocab_size=1,
    )
    torch.manual_seed(7)
    model = RobertaForSequenceClassification(config)
    with torch.no_grad():
        model.classifier.out_proj.weight.mul_(20)  # else all texts score alike
    return write(folder, model, tokenizer, UNBIASED, model_type="roberta-base")


def train(folder: Path, labelled: Labelled, *, hidden: int, epochs: int, longest: int = 64) -> Checkpoint:
    """BERT with two layers and a WordPiece vocabulary of its own, trained to say what people said."""
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    model, tokenizer = untrained_bert(folder, labelled.texts, hidden=hidden, layers=2, vocabulary=4000)
    wanted = torch.from_numpy(labelled.values)
    known = ~wanted.isnan()
    generator = torch.Generator().manual_seed(7)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two would wait for one another more than they work
    for _ in range(epochs):
        for rows in torch.randperm(len(wanted), generator=generator).split(16):
            texts = [labelled.texts[row] for row in rows.tolist()]
            inputs = tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=longest)
            logits = model.train()(**inputs).logits
            loss = binary_cross_entropy_with_logits(logits[known[rows]], wanted[rows][known[rows]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.set_num_threads(threads)
    return write(folder, model.eval(), tokenizer, CLASSES)


def untrained_bert(
    folder: Path, texts: Sequence[str], *, hidden: int, layers: int, vocabulary: int, classes: int = len(CLASSES)
) -> tuple[Any, Any]:
    """(model, tokenizer): BERT with random weights, and WordPiece that knows the words of the texts. vocabulary: its
    size, at most."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    (folder / "vocab.txt").write_text("\n".join(word_pieces(texts)[:vocabulary]) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer(str(folder / "vocab.txt"), model_max_length=512)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 64),
        intermediate_size=4 * hidden,
        num_labels=classes,
        initializer_range=0.1,  # small models learn sooner from larger weights
    )
    torch.manual_seed(7)
    return BertForSequenceClassification(config), tokenizer


def word_pieces(texts: Sequence[str]) -> list[str]:
    """BERT's special tokens, the letters, and the words, most frequent first. Not learned by the library's trainer,
    which decides ties anew in every run: the same texts have to make the same model."""
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normal, cut = BertNormalizer(lowercase=True), BertPreTokenizer()
    words = Counter(word for text in texts for word, _ in cut.pre_tokenize_str(normal.normalize_str(text)))
    letters = sorted(set("".join(words)))
    common = sorted((word for word in words if len(word) > 1), key=lambda word: (-words[word], word))
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), *common]


def write(
    folder: Path, model: Any, tokenizer: Any, classes: Sequence[str], model_type: str | None = None
) -> Checkpoint:
    """The files that Detoxify opens. model_type: the name by which the checkpoint calls its base, such as
    'bert-base-uncased'; None: the folder, which Detoxify itself finds without a network, too."""
    import torch

    config = folder / "config"
    model.config.save_pretrained(config)
    tokenizer.save_pretrained(config)
    architecture = {
        "num_classes": len(classes),
        "model_type": model_type or str(config),
        "model_name": type(model).__name__,
        "tokenizer_name": type(tokenizer).__name__.removesuffix("Fast"),
    }
    told = {"arch": {"args": architecture}, "dataset": {"args": {"classes": list(classes)}}}
    torch.save({"config": told, "state_dict": model.state_dict()}, folder / "checkpoint.ckpt")
    renamed = {"toxic": "toxicity", "identity_hate": "identity_attack", "severe_toxic": "severe_toxicity"}
    return Checkpoint(folder / "checkpoint.ckpt", config, tuple(renamed.get(name, name) for name in classes))


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="checkpoint-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
