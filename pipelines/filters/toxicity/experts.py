"""The expensive scorers of the toxicity cascade at work on a shard: neural models and the remote scorer, each on the
documents that it is sent.

Who is sent what stands in `cascade.py`; the scorers in `neural.py` and `remote.py`; the stage in `stage.py`.
"""

import contextlib
import json
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.engines.task import Inputs, Kept, Made, Progress, Stats
from pipelines.filters.toxicity import neural
from pipelines.filters.toxicity.cascade import REMOTE, Routes
from pipelines.filters.toxicity.lexicon import cut_passages
from pipelines.filters.toxicity.neural import BatchTooLarge
from pipelines.filters.toxicity.neural_params import NeuralParams
from pipelines.filters.toxicity.params import RemoteParams, ToxicityParams
from pipelines.filters.toxicity.remote import RemoteScorer, pace_of
from pipelines.purchases import Quote
from pipelines.schemas import TOXICITY_LABELS
from pipelines.store import digest
from pipelines.usage import Usage

VERSION = 1
"""Of how experts read a shard; raise it when what they say changes."""

NEURAL = "neural"
VERDICTS = ("toxicity", "toxic")
"""Labels that say whether a text is toxic, as Detoxify and its training data name them."""


@dataclass(frozen=True)
class NeuralExpert:
    """A neural model under its name as a scorer. identity: what its scores depend on, for the key; batch_tokens is part
    of it, and of what it was first asked with where memory did not suffice."""

    name: str
    params: NeuralParams
    identity: dict[str, Any]

    def read(self, documents: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
        """Table of schema TOXICITY_LABELS, a row for each document (columns doc_id, text) and label, and the facts that
        the model tells of its work. Raises `BatchTooLarge` where memory does not suffice for its batches."""
        known = json.dumps({**self.identity, "batch_tokens": None}, sort_keys=True)  # half a batch opens nothing anew
        classifier = _opened(self.params.model_dump_json(), known)
        scores = classifier.score(documents["text"].to_pylist(), self.batch_tokens)
        return labels_table(self.name, documents["doc_id"], classifier.labels, scores.max, scores.mean), scores.facts

    @property
    def batch_tokens(self) -> int:
        """Tokens of a batch."""
        return int(self.identity["batch_tokens"])

    @property
    def in_one_process(self) -> bool:
        """Whether one process runs it, on all GPUs; on a CPU each worker runs its own."""
        return bool(self.identity["device"] != "cpu")

    def halved(self) -> "NeuralExpert":
        """The same with half the batch: another identity, since scores depend on it in the last digits."""
        return replace(self, identity={**self.identity, "batch_tokens": max(1, self.batch_tokens // 2)})


@lru_cache(maxsize=8)
def _opened(params: str, known: str) -> neural.Classifier:
    """The model of these parameters, opened once in each process. known: its identity; another in its place is an
    error."""
    return neural.open_classifier(NeuralParams.model_validate_json(params), json.loads(known))


def neural_experts(config: ToxicityParams) -> list[NeuralExpert]:
    """The neural models of the parameters, in their order; two of one name are numbered. Reads their checkpoints, to
    know them by their content. A model has one thread of a CPU, unless it is given more: cores are filled by workers,
    and the last digits do not depend on how many there are."""
    experts: list[NeuralExpert] = []
    for number, params in enumerate(config.neural, 1):
        name = f"{NEURAL}:{params.model or 'checkpoint'}"
        name = name if name not in [expert.name for expert in experts] else f"{name} {number}"
        experts.append(NeuralExpert(name, params, neural.identity(params)))
    return experts


def routes_of(config: ToxicityParams, experts: Iterable[NeuralExpert]) -> Routes:
    """Who knows which languages."""
    return Routes(
        screen=frozenset(config.languages),
        lexicon=frozenset(config.lexicons),
        neural={expert.name: frozenset(expert.params.languages) for expert in experts},
        remote=frozenset(config.remote.languages if config.remote.url else ()),
        unknown_to=config.unknown_languages,
    )


def labels_table(
    scorer: str, doc_ids: pa.ChunkedArray, labels: list[str], highest: npt.NDArray[Any], mean: npt.NDArray[Any]
) -> pa.Table:
    """Table of schema TOXICITY_LABELS from scores[documents, labels]; what is not a number is null."""
    names = doc_ids.combine_chunks() if doc_ids.num_chunks != 1 else doc_ids.chunk(0)
    columns = [
        names.take(pa.array(np.repeat(np.arange(len(doc_ids)), len(labels)))),
        pa.array([scorer] * (len(doc_ids) * len(labels)), pa.large_string()),
        pa.array(labels * len(doc_ids), pa.large_string()),
        *(pa.array(np.asarray(one, np.float64).ravel(), from_pandas=True) for one in (highest, mean)),
    ]
    return pa.table(columns, schema=TOXICITY_LABELS)


def verdict_of(labels: pa.Table, attributes: Sequence[str]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """float64[n] each, for the n documents of an expert's labels in their order: max and mean of the label that says
    whether they are toxic. attributes: labels that may say so, the first that there is. A model with one label says
    so by that. Raises `ValueError` where no label does."""
    names = labels["label"].to_pylist()
    count = names.index(names[0], 1) if names[0] in names[1:] else len(names)
    own = names[:count]
    found = next((name for name in attributes if name in own), own[0] if count == 1 else None)
    if found is None:
        raise ValueError(
            f"toxicity: of the labels of {labels['scorer'][0]} ({', '.join(own)}) none is "
            f"{' or '.join(attributes)}; train the checkpoint with such a label"
        )
    rows = labels.take(pa.array(np.arange(own.index(found), len(names), count)))
    highest, mean = (rows[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in ("max", "mean"))
    return highest, mean


# -- tasks --------------------------------------------------------------------------------------------------------


def sent(inputs: Inputs) -> pa.Table:
    """The documents of the shard (input 0) whose rows (input 1) are sent to an expert."""
    return inputs.table(0, ["doc_id", "text", "language"]).take(pa.array(np.load(inputs.path(1))))


def read_shard(inputs: Inputs, payload: NeuralExpert) -> Iterable[Made]:
    """The task of a neural model on one shard: part "toxicity_labels"; nothing where memory does not suffice, so that
    whoever asked asks again with half the batch, under the key of that."""
    try:
        labels, facts = payload.read(sent(inputs))
    except BatchTooLarge:
        yield Stats({"out_of_memory": payload.batch_tokens})
        return
    yield "toxicity_labels", labels
    yield Stats(
        {
            "documents": facts["documents"],
            "counts": {"neural": {payload.name: {name: facts[name] for name in _COUNTS if name in facts}}},
        }
    )


_COUNTS = ("windows", "tokens", "padding", "batches")
"""Facts of a model's work that can be added up."""


@dataclass(frozen=True)
class RemoteExpert:
    """The remote scorer, and the attempt that pays for its calls and notes them in its progress. It is asked from this
    process alone, so that its pace is kept and every call is counted."""

    params: RemoteParams
    progress: Progress
    attempt: str
    in_one_process = True

    @property
    def identity(self) -> dict[str, Any]:
        """What its scores depend on, for the key."""
        return self.params.model_dump(mode="json", include={"url", "attributes", "window_bytes"})

    def calls(self, number: int) -> Usage:
        """So many calls and what they cost."""
        item = f"calls of {urlsplit(self.params.url or '').hostname}"
        usd = number * Decimal(self.params.usd_per_call or "0")
        return Usage(bought={item: number}, bought_usd={item: usd})

    def passages(self, documents: pa.Table) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """What is asked for, one by one, and int64[documents + 1]: the number of each document's first passage."""
        texts = documents["text"]
        column = texts.combine_chunks() if texts.num_chunks != 1 else texts.chunk(0)
        return cut_passages(column, self.params.window_bytes)

    def read(self, documents: pa.Table, kept: Path) -> tuple[pa.Table, dict[str, Any], Kept]:
        """Table of schema TOXICITY_LABELS of these documents (columns doc_id, text, language), counts, and what was
        paid for the answers that were there already.

        kept: a file of answers to the same documents; they are not asked for again, and new ones are added.
        """
        lock = threading.Lock()
        calls = 0
        call = self.calls(1)

        def count() -> None:
            nonlocal calls
            with lock:
                self.progress.buy(call)
                calls += 1

        passages, first = self.passages(documents)
        languages = np.repeat(np.array(documents["language"].fill_null("und").to_pylist(), object), np.diff(first))
        scores, open_rows, paid = _answers(kept, len(passages), len(self.params.attributes))
        scorer = RemoteScorer(self.params, count, pace=pace_of(str(self.params.url)))
        with kept.open("a", encoding="utf-8") as file:

            def keep(number: int, row: list[float]) -> None:
                with lock:
                    line = [int(open_rows[number]), row, self.attempt, self.params.usd_per_call]
                    file.write("\n" + json.dumps(line))  # at a line's begin: it may follow one that is not whole
                    file.flush()

            scores[open_rows] = scorer.score(
                passages.take(pa.array(open_rows)).to_pylist(), languages[open_rows].tolist(), keep
            )
        answered = ~np.isnan(scores)
        highest = np.fmax.reduceat(scores, first[:-1], axis=0)
        sums = np.add.reduceat(np.where(answered, scores, 0.0), first[:-1], axis=0)
        counts = np.add.reduceat(answered.astype(np.int64), first[:-1], axis=0)
        mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        labels = labels_table(REMOTE, documents["doc_id"], self.params.attributes, highest, mean)
        return labels, {"remote_calls": calls, "remote_refused": int((~answered).all(axis=1).sum())}, paid


def _answers(kept: Path, passages: int, attributes: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], Kept]:
    """float64[passages, attributes], NaN where a file holds no answer, the passages that it holds none of, and who paid
    what for the answers. A line that was not written whole holds none; a file of refusals alone is removed, since a
    service that was asked wrongly gives them too."""
    paid: dict[str, Decimal] = defaultdict(Decimal)
    scores = np.full((passages, attributes), np.nan)
    unanswered = np.ones(passages, np.bool_)
    for line in kept.read_text(encoding="utf-8").splitlines() if kept.exists() else ():
        with contextlib.suppress(ValueError):
            number, row, payer, usd = json.loads(line)
            scores[number], unanswered[number] = row, False
            paid[payer] += Decimal(usd or "0")
    if np.isnan(scores).all():
        kept.unlink(missing_ok=True)
        unanswered[:] = True
        paid.clear()
    return scores, np.flatnonzero(unanswered), Kept(paid)


def quote_shard(inputs: Inputs, payload: RemoteExpert) -> Quote:
    """What asking for a shard buys: a call for each passage, and for each of its tries at most. What is kept from an
    end that was not meant is not deducted."""
    passages, _ = payload.passages(sent(inputs))
    return Quote(payload.calls(len(passages)), payload.calls(len(passages) * payload.params.tries))


def ask_shard(inputs: Inputs, payload: RemoteExpert) -> Iterable[Made]:
    """The task of the remote scorer on one shard: part "toxicity_labels". What was answered before an end that was not
    meant is kept in the store's scratch, so that it is not paid for twice."""
    folder = inputs.store.scratch(digest(["filters.toxicity.remote", payload.identity, inputs.objects]))
    documents = sent(inputs)
    labels, counts, kept = payload.read(documents, folder / "answers.jsonl")
    yield "toxicity_labels", labels
    yield kept
    yield Stats({"documents": documents.num_rows, "counts": counts})
    shutil.rmtree(folder, ignore_errors=True)
