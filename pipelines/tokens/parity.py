"""The guard before a fast engine: are its ids those of `tokenizers`? For a tokenizer, and for a shard of documents.

A tokenizer is looked at once, by a task of its own, on the hostile texts. Then a few texts of every shard are. What is
found in one shard holds for the tokenizer: it is noted, and no other source is encoded by the engine from then on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Result, Stats, Task
from pipelines.tokens.encode import Encoder
from pipelines.tokens.engines import FAST, REFERENCE, EngineFailed, TokenizersEncoder, engine_version, opened, reference
from pipelines.tokens.hostile import SPELT_OUT, hostile_texts
from pipelines.tokens.tokenize_params import TokenizeParams

VERSION = 1
"""Of what is compared: a tokenizer is looked at again when this is raised."""

SAMPLE_TEXTS = 16
SAMPLE_CHARACTERS = 1024
"""What is compared of a shard: so many texts at most, evenly spread, of so many characters at most. The reference takes
about 10 ms for it, where an engine takes a second for a shard of the usual size."""


@dataclass(frozen=True)
class Choice:
    """The engine of all shards of a dataset. why: in words, where it is not the fast one. differs: for its ids are not
    those of the reference."""

    engine: str
    why: str = ""
    differs: bool = False

    @property
    def key(self) -> dict[str, Any]:
        """What a shard's task has in its key: every engine whose ids, or whose word on them, are in the result."""
        return {"engine": self.engine} | {name: engine_version(name) for name in {self.engine, REFERENCE}}


def choose(config: TokenizeParams, tokenizer_object: str, engine: Engine) -> Choice:
    """The engine for a tokenizer: the fast one where it is installed, wanted, and has been found to agree.

    Raises `ValueError` where the profile insists on it and one of these is not so.
    """
    if config.engine == REFERENCE:
        return Choice(REFERENCE, "tokenize.engine says so")
    if engine_version(FAST) is None:
        return fallen_back(config, f"{FAST} is not installed")
    if noted := Result.load(engine.store, _note(tokenizer_object).key):
        return fallen_back(config, noted.stats["difference"], differs=True)
    task = Task(run_guard, "tokens.parity", VERSION, _engines(), broadcast=(tokenizer_object,))
    found = engine.run(task).stats
    if why := found["refused"] or found["difference"]:
        return fallen_back(config, why, differs=found["difference"] is not None)
    return Choice(FAST)


def fallen_back(config: TokenizeParams, why: str, *, differs: bool = False) -> Choice:
    """The reference. Raises `ValueError` where the profile insists on the fast engine."""
    if config.engine == FAST:
        raise ValueError(f"tokenize.engine is {FAST}, but {why}; set it to auto or {REFERENCE}")
    return Choice(REFERENCE, why, differs)


def distrust(tokenizer_object: str, why: str, engine: Engine) -> None:
    """Note a difference that was found in a shard: the fast engine encodes nothing more with this tokenizer."""
    engine.run(_note(tokenizer_object, why))


def _note(tokenizer_object: str, why: str = "") -> Task:
    return Task(run_note, "tokens.parity.note", VERSION, _engines(), broadcast=(tokenizer_object,), payload=why)


def _engines() -> dict[str, Any]:
    return {"engine": FAST, FAST: engine_version(FAST), REFERENCE: engine_version(REFERENCE)}


def run_note(inputs: Inputs, why: str) -> Iterable[Made]:
    """What was found, in words; the first finding stands."""
    yield Stats({"difference": why})


def run_guard(inputs: Inputs, _: None) -> Iterable[Made]:
    """Compare the fast engine with the reference on the hostile texts, and on spellings of the tokenizer's tokens.

    refused: why the fast engine cannot load the tokenizer. difference: what it does other than the reference. Both are
    None where all is well.
    """
    path = inputs.broadcast_path(0)
    added = reference(path).tokenizer.get_added_tokens_decoder()
    texts = hostile_texts([token.content for _, token in sorted(added.items())][:SPELT_OUT])
    refused = difference = None
    try:
        opened(FAST, path)
    except EngineFailed as error:
        refused = str(error)
    else:
        difference = compared(texts, path)
    yield Stats({"texts": len(texts), "refused": refused, "difference": difference})


def compared(texts: list[str], path: Path) -> str | None:
    """What the fast engine does other than the reference, in words; None where it does the same."""
    try:
        fast, slow = opened(FAST, path), reference(path)
        different = first_difference(texts, fast, slow)
        if different is None and slow.continuing is not slow:
            different = first_difference(texts, fast.continuing, slow.continuing)
    except EngineFailed as error:
        return str(error)
    return None if different is None else told_of(repr(texts[different][:40]))


def told_of(text: str) -> str:
    """The words for other ids of a text. text: how it is called."""
    return f"{FAST} {engine_version(FAST)} and {REFERENCE} differ in the ids of {text}"


def first_difference(texts: list[str], fast: Encoder, slow: TokenizersEncoder) -> int | None:
    """Number of the first text whose ids are not the same. Raises `EngineFailed`."""
    (ids, counts), (right, wanted) = fast.encode(texts), slow.encode_singly(texts)
    if np.array_equal(counts, wanted) and np.array_equal(ids, right):
        return None
    pairs = zip(_split(ids, counts), _split(right, wanted), strict=True)
    return next(number for number, (one, other) in enumerate(pairs) if not np.array_equal(one, other))


def sample(documents: Sequence[str], rows: int, first: int) -> dict[int, str]:
    """The texts to compare of these documents of a shard of so many rows, the first of which is number `first`: by the
    number of their document among these.

    `SAMPLE_TEXTS` documents of a shard, evenly spread; of a long one a part that begins further in with every text.
    """
    step = max(1, -(-rows // SAMPLE_TEXTS))
    chosen = {}
    for number in range(-first % step, len(documents), step):
        text = documents[number]
        spare = max(0, len(text) - SAMPLE_CHARACTERS)
        start = spare * ((first + number) // step) // SAMPLE_TEXTS
        chosen[number] = text[start : start + SAMPLE_CHARACTERS]
    return chosen


def _split(ids: npt.NDArray[np.uint32], counts: npt.NDArray[np.int64]) -> list[npt.NDArray[np.uint32]]:
    return np.split(ids, np.cumsum(counts)[:-1])
