"""A neural classifier of toxic language in Detoxify's format: Detoxify opens it, and batches of our own run it.

Texts longer than the model can read are scored by windows, never cut short; windows of like length make a batch, so
little is padding. Checkpoints are found and opened in `neural_checkpoint.py`, run in `neural_runtime.py`.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.filters.toxicity import neural_runtime
from pipelines.filters.toxicity.neural_checkpoint import find, libraries, open_detoxify
from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.filters.toxicity.neural_runtime import Replica
from pipelines.pretrained import ModelError, out_of_memory

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int32]

BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}
"""Tokens of a batch where none are set: a GPU would wait for its next batch if they were few."""

TEXTS_AT_ONCE = 256
"""Texts that are cut into tokens together; their ids are kept as int32, not as Python's integers."""


class BatchTooLarge(RuntimeError):
    """Memory does not suffice for a batch of this budget."""


class Window(NamedTuple):
    """Tokens begin … end - 1 of a text; tokens count from its start, without the marks around it."""

    text: int
    begin: int
    end: int


@dataclass(frozen=True)
class Scores:
    """max, mean: float32[texts, labels], over the windows of each text, between 0 and 1. facts: counts of texts,
    windows, tokens (marks included), padding and batches; and batch_tokens, the budget of a batch."""

    max: Floats
    mean: Floats
    facts: dict[str, Any]


def identity(params: NeuralParams) -> dict[str, Any]:
    """What scores depend on, for the key of a task: the model by its content, libraries, and how it is run.

    Languages, paths and threads are not in it: threads move the last digits at most, as another kind of CPU does.
    Raises `ModelError` where the model, or what runs it, is not there.
    """
    found = find(params)
    kind = neural_runtime.devices(params)[0].partition(":")[0]
    return {
        **found.identity(),
        **params.model_dump(mode="json", include={"window_tokens", "overlap_tokens", "runtime"}),
        "batch_tokens": batch_budget(params, kind),
        "device": kind,
        "precision": neural_runtime.precision(params, kind),
        "libraries": libraries(params.runtime),
    }


def batch_budget(params: NeuralParams, kind: str) -> int:
    """Tokens of a batch on devices of a kind, 'cpu' or 'cuda'."""
    return BATCH_TOKENS[kind] if params.batch_tokens is None else params.batch_tokens


def open_classifier(params: NeuralParams, known: Mapping[str, Any] | None = None) -> "Classifier":
    """The classifier that the parameters name. known: the `identity` that it must have.

    Raises `ModelError` where it cannot be found or opened, or another one lies in its place by now.
    """
    found = find(params)
    places = neural_runtime.devices(params)
    opened = open_detoxify(found)
    if known is not None and any(known[name] != content for name, content in found.identity().items()):
        raise ModelError(
            f"toxicity: the model in {found.checkpoint} and {found.folder} changed while it was read; start the run "
            "again"
        )
    size = min(params.window_tokens, context(opened.model, opened.tokenizer))
    before, after = marks(opened.tokenizer)
    if size <= len(before) + len(after):
        raise ModelError(
            f"toxicity: {found.name} reads {size} tokens at once, of which {len(before) + len(after)} are its marks; "
            "set window_tokens higher"
        )
    return Classifier(
        found.name,
        list(opened.class_names),
        opened.tokenizer,
        neural_runtime.replicas(opened.model, places, params),
        places,
        params,
        size,
        (before, after),
    )


def context(model: Any, tokenizer: Any) -> int:
    """Tokens that a model can read at once, marks included: what its tokenizer says, and its position embeddings have.
    RoBERTa counts positions from after that of its padding."""
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    sizes = [table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1) for table in tables]
    return int(min([tokenizer.model_max_length, *sizes]))


def marks(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Ids that the tokenizer puts before and after a text, such as [CLS] and [SEP]."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    for at in range(len(whole) - len(bare) + 1):
        if whole[at : at + len(bare)] == bare:
            return whole[:at], whole[at + len(bare) :]
    raise ModelError(f"toxicity: the tokenizer {type(tokenizer).__name__} changes a text when it puts marks around it")


def windows(text: int, tokens: int, size: int, overlap: int) -> list[Window]:
    """The fewest windows of at most `size` tokens that cover a text, neighbours sharing at least `overlap` tokens.

    All are of one length, so none is a rest without its context, and a text of size + 1 tokens costs little more than
    its own length. A text without tokens has one window without tokens.
    """
    if tokens <= size:
        return [Window(text, 0, tokens)]
    gaps = -(-(tokens - size) // (size - overlap))
    length = -(-(tokens + gaps * overlap) // (gaps + 1))
    return [Window(text, begin := gap * (tokens - length) // gaps, begin + length) for gap in range(gaps + 1)]


def batches(lengths: npt.NDArray[np.int64], batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """Numbers of the windows of each batch, the longest first: at most so many tokens with padding, or one window.

    A batch of a sixteenth of that is large enough; from there on it takes no window that is shorter than its longest by
    more than a sixteenth, so padding stays below that share.
    """
    order = np.argsort(-lengths, kind="stable")
    at = 0
    while at < len(order):
        longest = max(1, int(lengths[order[at]]))
        most, enough = max(1, batch_tokens // longest), -(-batch_tokens // (16 * longest))
        alike = int((lengths[order[at : at + most]] * 16 >= longest * 15).sum())
        rows = min(most, max(enough, alike))
        yield order[at : at + rows]
        at += rows


@dataclass(frozen=True, eq=False)
class Classifier:
    """An opened model. labels: as Detoxify names them. places: the device of each replica. size: tokens of a window,
    marks included. marks: ids before and after a text."""

    name: str
    labels: list[str]
    tokenizer: Any
    replicas: list[Replica]
    places: list[str]
    params: NeuralParams
    size: int
    marks: tuple[list[int], list[int]]

    def score(self, texts: Sequence[str], batch_tokens: int | None = None) -> Scores:
        """Score texts, with a budget of tokens for each batch; None: that of the parameters. What is scored together
        follows from texts and budget alone. Memory: four bytes for each token of all texts, and the model's for a
        batch.

        Raises `BatchTooLarge` where it does not suffice; `ModelError` where it does not for one window, or the model
        gives no number.
        """
        if batch_tokens is None:
            batch_tokens = batch_budget(self.params, self.places[0].partition(":")[0])
        ids = self._encoded(texts)
        around = sum(map(len, self.marks))
        content = self.size - around
        overlap = min(self.params.overlap_tokens, content // 2)
        cut = [window for text, own in enumerate(ids) for window in windows(text, len(own), content, overlap)]
        lengths = np.array([window.end - window.begin + around for window in cut], np.int64)
        parts = list(batches(lengths, batch_tokens))
        values = np.zeros((len(cut), len(self.labels)), np.float32)
        with neural_runtime.torch_threads(self.params.threads):
            self._run(parts, lambda part: self._padded(ids, [cut[row] for row in part]), values)
        if not np.isfinite(values).all():
            raise ModelError(
                f"toxicity: the model {self.name} gives no number for a text (NaN); its weights are broken, or "
                f"precision {self.params.precision!r} is too coarse for it"
            )
        facts = {
            "documents": len(texts),
            "windows": len(cut),
            "tokens": int(lengths.sum()),
            "padding": sum(int(lengths[part].max() * len(part) - lengths[part].sum()) for part in parts),
            "batches": len(parts),
            "batch_tokens": batch_tokens,
        }
        return Scores(*_over_windows(values, np.array([window.text for window in cut], np.int64), len(texts)), facts)

    def _encoded(self, texts: Sequence[str]) -> list[Ids]:
        """Ids of each whole text, without marks. A text that spells out a mark has that mark, as with Detoxify."""
        found: list[Ids] = []
        for at in range(0, len(texts), TEXTS_AT_ONCE):
            encoded = self.tokenizer(
                list(texts[at : at + TEXTS_AT_ONCE]),
                add_special_tokens=False,
                truncation=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
            found += [np.array(ids, np.int32) for ids in encoded["input_ids"]]
        return found

    def _padded(self, ids: list[Ids], cut: list[Window]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """ids and mask, int64[windows, longest of them]."""
        before, after = self.marks
        rows = [np.concatenate([before, ids[text][begin:end], after]) for text, begin, end in cut]
        shape = len(rows), max(map(len, rows))
        padded, mask = np.full(shape, self.tokenizer.pad_token_id or 0, np.int64), np.zeros(shape, np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)], mask[number, : len(row)] = row, 1
        return padded, mask

    def _run(self, parts: list[npt.NDArray[np.int64]], padded: Any, values: Floats) -> None:
        """Fill the rows of values, batch by batch; each replica takes the next one when it is free."""
        waiting, lock, stop = iter(parts), threading.Lock(), threading.Event()

        def work(replica: Replica) -> None:
            while not stop.is_set():
                with lock:
                    part = next(waiting, None)
                if part is None:
                    return
                try:
                    values[part] = replica(*padded(part))
                except Exception as error:  # ONNX Runtime's are of no narrower kind
                    stop.set()
                    if not out_of_memory(error):
                        raise
                    if len(part) == 1:
                        raise ModelError(
                            f"toxicity: memory does not suffice for one window of {self.size} tokens in the model "
                            f"{self.name}; lower window_tokens, or take a smaller model"
                        ) from None
                    raise BatchTooLarge from None

        if len(self.replicas) == 1:
            work(self.replicas[0])
            return
        with ThreadPoolExecutor(len(self.replicas)) as pool:
            for done in [pool.submit(work, replica) for replica in self.replicas]:
                done.result()


def _over_windows(values: Floats, text: npt.NDArray[np.int64], texts: int) -> tuple[Floats, Floats]:
    """max and mean, float32[texts, labels], of the windows of each text. text: of each window, ascending."""
    if not texts:
        return values, values
    first = np.searchsorted(text, np.arange(texts))
    highest = np.maximum.reduceat(values, first, axis=0)
    sums = np.add.reduceat(values, first, axis=0, dtype=np.float64)
    return highest, (sums / np.bincount(text, minlength=texts)[:, None]).astype(np.float32)
