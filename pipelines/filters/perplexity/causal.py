"""Perplexity by a causal language model of transformers: every token scored once, in windows, batched by length.

How a model is found and opened stands in `pipelines/pretrained.py`; what is made of its probabilities, in
`likelihood.py`.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.dataset import Shard
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Result, Stats, Task
from pipelines.filters.perplexity.likelihood import SCORING_VERSION, Likelihoods, score_table, score_tally
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.pretrained import (
    ModelError,
    cached_folder,
    content_hash,
    minor_versions,
    open_causal_model,
    out_of_memory,
)
from pipelines.store import digest

TEXTS_AT_ONCE = 256
"""Texts that are cut into tokens together; their ids are kept as int32, not as Python's integers."""

BATCH_TOKENS = {"cuda": 8192, "cpu": 1024}
"""Unless the parameters say otherwise. On a CPU a batch of 8192 took 1.8 times as long per token as one of 1024."""

ONE_WINDOW = 1
"""A batch of so many tokens holds one window, however long: the last try when memory does not suffice."""


@dataclass(frozen=True)
class Causal:
    """A model that is found, and how it is run. sha256: of its content. device: 'cpu' or 'cuda'. precision: the name of
    a dtype."""

    folder: Path
    sha256: str
    device: str
    precision: str

    @classmethod
    def find(cls, config: PerplexityParams) -> "Causal":
        """The model that the parameters name. Raises `ModelError` where it, or what runs it, is not there."""
        asked = config.causal
        _libraries()
        folder = Path(asked.path) if asked.path else cached_folder(asked.name or "", asked.revision)
        import torch

        there = torch.cuda.is_available()
        if asked.device == "cuda" and not there:
            raise ModelError("perplexity: causal.device is 'cuda', and no GPU is there; set it to 'auto' or 'cpu'")
        device = "cuda" if there and asked.device != "cpu" else "cpu"
        halved = device == "cuda" and torch.cuda.is_bf16_supported()
        precision = ("bfloat16" if halved else "float32") if asked.precision == "auto" else asked.precision
        return cls(folder, content_hash(folder), device, precision)

    def identity(self, config: PerplexityParams) -> str:
        """SHA-256, hex, of all that decides what a perplexity means: the model, and how much it reads at once."""
        return digest([self.sha256, config.causal.window, config.causal.stride])


class Window(NamedTuple):
    """Tokens begin … end - 1 of a text, of which those from `scored` on are scored; tokens count from its start."""

    text: int
    begin: int
    scored: int
    end: int


def windows(text: int, tokens: int, window: int, stride: int) -> Iterator[Window]:
    """The windows that score every token of a text once, but for the first, which nothing precedes.

    The sliding window of Hugging Face's guide "Perplexity of fixed-length models": windows begin `stride` tokens apart,
    and each scores what the one before did not reach, so at least window - stride tokens precede it, or all there are.
    """
    reached = 1
    for begin in range(0, tokens, stride):
        end = min(begin + window, tokens)
        if end > reached:
            yield Window(text, begin, reached, end)
        reached = end
        if end == tokens:
            return


def batches(found: Sequence[Window], batch_tokens: int) -> Iterator[list[Window]]:
    """Windows of like length together, the longest first: at most so many tokens, padding included, or one window."""
    batch: list[Window] = []
    for window in sorted(found, key=lambda w: (w.begin - w.end, w)):
        if batch and (len(batch) + 1) * (batch[0].end - batch[0].begin) > batch_tokens:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


# -- tasks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scoring:
    model: Causal
    config: PerplexityParams
    batch_tokens: int


def score_shards(shards: Sequence[Shard], config: PerplexityParams, engine: Engine) -> list[Result]:
    """Score every shard of documents; part "perplexity".

    A shard for which memory did not suffice is done again with half the batch, under the key of that batch; that it
    did not suffice is a result, too, so a later run goes straight to what did.
    """
    if not shards:
        return []
    model = Causal.find(config)
    batch_tokens = [config.causal.batch_tokens or BATCH_TOKENS[model.device]] * len(shards)
    done: dict[int, Result] = {}
    while waiting := [number for number in range(len(shards)) if number not in done]:
        made = engine.map([_task(shards[number], model, config, batch_tokens[number]) for number in waiting])
        for number, result in zip(waiting, made, strict=True):
            if not result.stats.get("out_of_memory"):
                done[number] = result
            else:
                half = batch_tokens[number] // 2
                batch_tokens[number] = half if half > config.causal.window else ONE_WINDOW
    return [done[number] for number in range(len(shards))]


def _task(shard: Shard, model: Causal, config: PerplexityParams, batch_tokens: int) -> Task:
    params = {
        "model": model.sha256,
        "window": config.causal.window,
        "stride": config.causal.stride,
        "max_scored_tokens": config.max_scored_tokens,
        "batch_tokens": batch_tokens,
        "device": model.device,
        "precision": model.precision,
        "libraries": _libraries(),
    }
    return Task(
        score_shard,
        "filters.perplexity.causal",
        SCORING_VERSION,
        params,
        (shard.object,),
        payload=_Scoring(model, config, batch_tokens),
        rows=shard.rows,
        alone=True,
    )


def _libraries() -> dict[str, str]:
    """What scores. Raises `ModelError` where it is missing."""
    try:
        return minor_versions("tokenizers", "torch", "transformers")
    except PackageNotFoundError as error:
        raise ModelError(
            f"perplexity: a causal model needs {error.name}, which is not installed: pip install -e '.[train]', then "
            "run again"
        ) from None


def score_shard(inputs: Inputs, payload: _Scoring) -> Iterable[Made]:
    """The task of one shard: its scores and their tally; only stats where memory does not suffice for the batch."""
    documents = inputs.table(0, ["doc_id", "text"])
    model = payload.model
    scorer = _open(model)
    if not scorer.reads(payload.config.causal.window):
        raise ModelError(
            f"perplexity: causal.window {payload.config.causal.window} is longer than the context of the model, "
            f"{scorer.context} tokens; set it to that or less"
        )
    try:
        found = scorer.likelihoods(documents["text"], payload.config, payload.batch_tokens)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        if payload.batch_tokens == ONE_WINDOW:  # not a result: memory may be free another time
            raise ModelError(
                f"perplexity: the memory of the {model.device} does not suffice for one window of "
                f"{payload.config.causal.window} tokens; lower causal.window and causal.stride, or take a smaller model"
            ) from None
        yield Stats({"out_of_memory": True})
        return
    scores = score_table(documents["doc_id"], found)
    yield "perplexity", scores
    yield Stats({**score_tally(documents, scores), "shards_by_batch_tokens": {str(payload.batch_tokens): 1}})


# -- the model ---------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _open(model: Causal) -> "CausalScorer":
    """The model, loaded once for all shards of a step. Raises `ModelError` where another one lies there by now."""
    import torch

    opened = open_causal_model(model.folder, getattr(torch, model.precision), model.device)
    if content_hash(model.folder) != model.sha256:
        raise ModelError(f"perplexity: the model in {model.folder} changed while it was read; start the run again")
    return CausalScorer(*opened)


@dataclass(frozen=True, eq=False)
class CausalScorer:
    """A model and its tokenizer, as transformers gives them."""

    model: Any
    tokenizer: Any

    @property
    def context(self) -> int | None:
        """Tokens that the model can read at once; None: it sets no limit."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        return None if limit is None else int(limit)

    @property
    def start(self) -> int | None:
        """The token that stands before a text: the beginning of text, else the end of the one before, else none."""
        first = self.tokenizer.bos_token_id
        found = self.tokenizer.eos_token_id if first is None else first
        return None if found is None else int(found)

    def reads(self, window: int) -> bool:
        """Whether the model can read so many tokens at once."""
        return self.context is None or window <= self.context

    def likelihoods(
        self, texts: pa.ChunkedArray, config: PerplexityParams, batch_tokens: int = BATCH_TOKENS["cpu"]
    ) -> Likelihoods:
        """What the model says of texts, read up to max_scored_tokens tokens each, in batches of so many tokens.

        A text is preceded by `start`; where a tokenizer has no such token, the first token of a text is not scored.
        Memory: four bytes for each token of all texts, and the model's for a batch, of which the logits (batch tokens ×
        vocabulary) are most. Sums depend on the batches in the last digits.
        """
        ids, read = self._encoded(texts, config.max_scored_tokens)
        tokens = np.array([max(len(one) - 1, 0) for one in ids], np.int64)
        found = Likelihoods(np.zeros(len(ids)), tokens, np.array(read, np.int64))
        size = config.causal
        all_windows = [w for n, one in enumerate(ids) for w in windows(n, len(one), size.window, size.stride)]
        for batch in batches(all_windows, batch_tokens):
            sums = self._sums([ids[w.text][w.begin : w.end] for w in batch], [w.scored - w.begin for w in batch])
            np.add.at(found.log_probability, [w.text for w in batch], sums)
        return found

    def _encoded(self, texts: pa.ChunkedArray, max_tokens: int) -> tuple[list[npt.NDArray[np.int32]], list[int]]:
        """Ids of each text, the start before them, and the bytes that those which are scored stand for."""
        start = [] if self.start is None else [self.start]
        self.tokenizer.truncation_side = "right"  # some models' keep the end
        ids, read = [], []
        for at in range(0, len(texts), TEXTS_AT_ONCE):
            some = [text or "" for text in texts[at : at + TEXTS_AT_ONCE].to_pylist()]
            encoded = self.tokenizer(
                some,
                add_special_tokens=False,
                split_special_tokens=True,  # what a text says of special tokens is text
                truncation=True,
                max_length=max_tokens,
                return_attention_mask=False,
                return_offsets_mapping=True,
                verbose=False,
            )
            for text, own, places in zip(some, encoded["input_ids"], encoded["offset_mapping"], strict=True):
                ids.append(np.array(start + own, np.int32))
                begin = 0 if start or not places else places[0][1]
                end = places[-1][1] if len(own) == max_tokens else len(text)
                read.append(len(text[begin:end].encode()))
        return ids, read

    def _sums(self, rows: Sequence[npt.NDArray[np.int32]], scored: Sequence[int]) -> npt.NDArray[np.float64]:
        """float64[rows]: log probability of the tokens of each row from `scored` on. Padding stands at the end, where a
        causal model cannot see it: a mask would only keep it from its fast path."""
        import torch
        from torch.nn.functional import cross_entropy

        lengths = [len(row) for row in rows]
        padded = np.zeros((len(rows), max(lengths)), np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)] = row
        ids = torch.from_numpy(padded).to(self.model.device)
        with torch.inference_mode():
            logits = self.model(input_ids=ids, use_cache=False).logits
            sums = [
                -cross_entropy(logits[n, first - 1 : end - 1].float(), ids[n, first:end], reduction="none")
                .double()
                .sum()
                for n, (first, end) in enumerate(zip(scored, lengths, strict=True))
            ]
            found: npt.NDArray[np.float64] = torch.stack(sums).cpu().numpy()
        return found
