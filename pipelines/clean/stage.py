"""Cleaning: raw documents → repaired documents with their language, signals of their quality, and a decision about
every one of them.

Two tasks per shard: the first repairs, identifies, measures and masks, the second decides, so that another threshold
decides anew and measures nothing. How a text is repaired, identified, measured, masked and judged stands in
`repair.py`, `language.py`, `signals.py`, `pii/mask.py`, `rules.py`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.clean.compliance import objections, with_objections
from pipelines.clean.language import identify
from pipelines.clean.libraries import libraries
from pipelines.clean.params import CleanParams
from pipelines.clean.pii.mask import mask
from pipelines.clean.policy import Policy, SourceFacts
from pipelines.clean.repair import repair
from pipelines.clean.rules import decide, personal_data_rules, told_languages
from pipelines.clean.signals import measured, quality_table
from pipelines.dataset import Dataset, Draft, Part, Shard, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.histograms import SIZE_EDGES, added, histogram, text_bytes

VERSION = 4


@dataclass(frozen=True)
class Cleaning:
    """What matters of a source: its parameters and its rule sets."""

    config: CleanParams
    sets: tuple[str, ...]
    policy: Policy = field(default_factory=Policy)

    def what_is_measured(self) -> dict[str, Any]:
        """Of the parameters, those that the first task depends on: which sets, and how their signals are counted."""
        sets = sorted(self.sets)
        counted = {name: _without_bounds(getattr(self.config, name).model_dump()) for name in sets}
        counted = {name: values for name, values in counted.items() if values}
        return {"sets": sets, "counted": counted, "pii": self.config.pii.what_is_masked()}

    def what_decides(self) -> dict[str, Any]:
        """Those that the second task depends on."""
        config = self.config.model_dump()
        basic = ("min_characters", "languages", "min_language_score", "min_alphanumeric_share")
        return {
            **{name: config[name] for name in basic},
            "sets": [[name, config[name]] for name in self.sets],
            "pii": [rule.name for rule in personal_data_rules(self.config)],
            "policy": self.policy.record(),
        }


def _without_bounds(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if not name.startswith(("min_", "max_"))}


def clean(raw_documents: Dataset, config: CleanParams, engine: Engine) -> Draft:
    """Clean one source's documents: parts 'documents' (what is kept), 'decisions' and 'quality' (one row for every
    input document).

    Shard i of each part comes from shard i of the input; a shard of 'documents' may be empty. Memory: a shard per
    worker.
    """
    facts = SourceFacts.of(raw_documents.version.params)
    sets = tuple(config.rule_sets(raw_documents.version.partition))
    cleaning = Cleaning(config, sets, Policy.of(config.compliance, facts))
    measured_with = {**cleaning.what_is_measured(), "libraries": libraries(config.pii)}
    measuring = engine.map(
        [
            Task(
                measure_shard,
                "clean.signals",
                VERSION,
                measured_with,
                inputs=(shard.object,),
                payload=cleaning,
                rows=shard.rows,
            )
            for shard in raw_documents.shards("documents")
        ]
    )
    repaired = [(result.parts["documents"].shards[0], result.parts["quality"].shards[0]) for result in measuring]
    deciding = engine.map(
        [
            Task(
                decide_shard,
                "clean.documents",
                VERSION,
                cleaning.what_decides(),
                inputs=(documents.object, quality.object),
                payload=(cleaning, documents),
                rows=documents.rows,
                in_threads=True,
            )
            for documents, quality in repaired
        ]
    )
    empty = Part("table", ())
    parts = {"documents": empty, "decisions": empty, "quality": empty} | join_parts([done.parts for done in deciding])
    parts["quality"] = Part("table", tuple(quality for _, quality in repaired))
    stats = _total([result.stats for result in (*measuring, *deciding)])
    rows_in, kept = raw_documents.rows("documents"), parts["documents"].rows
    decided, described, dropped = parts["decisions"].rows, parts["quality"].rows, sum(stats["dropped"].values())
    if not rows_in == decided == described == stats["documents_in"] == kept + dropped:
        raise RuntimeError(
            f"cleaning {raw_documents.asset}: {rows_in} documents went in, {described} were measured, {decided} were "
            f"decided upon, {kept} kept and {dropped} dropped; this is an error of corpusmill, please report it"
        )
    return Draft(parts, stats)


def measure_shard(inputs: Inputs, cleaning: Cleaning) -> Iterable[Made]:
    """The first task: one shard with texts repaired and the best guess at their languages, and its signals."""
    documents, quality, stats = measure_documents(inputs.table(), cleaning)
    yield "documents", documents
    yield "quality", quality
    yield Stats(stats)


def decide_shard(inputs: Inputs, payload: tuple[Cleaning, Shard]) -> Iterable[Made]:
    """The second task: what is kept of one shard, and a decision about every document. A shard of which nothing is
    dropped, and no language undetermined, is not stored again."""
    cleaning, stored = payload
    documents = inputs.table(0)
    kept, decisions, stats = decide_documents(documents, inputs.table(1), cleaning)
    unchanged = kept.num_rows == documents.num_rows and kept["language"].equals(documents["language"])
    yield "documents", stored if unchanged else kept
    yield "decisions", decisions
    yield Stats(stats)


def measure_documents(table: pa.Table, cleaning: Cleaning) -> tuple[pa.Table, pa.Table, dict[str, Any]]:
    """Repair, identify, measure and mask a table of documents: (the same documents, their signals, counts)."""
    texts: list[str] = []
    languages: list[str] = []
    scores: list[float] = []
    repaired = Counter[str]()
    touched = 0
    for batch in table.select(["text"]).to_batches(max_chunksize=1024):
        for raw in batch.column(0).to_pylist():
            done = repair(raw)
            repaired.update(done.repairs)
            touched += bool(done.repairs)
            language, score = identify(done.text)
            texts.append(done.text)
            languages.append(language)
            scores.append(score)
    whole = pa.array(texts, pa.large_string())
    signals, left = measured(whole, cleaning.sets, cleaning.config)
    # Last: where c4.remove_lines takes a citation out, what stood around it can become an address.
    masked = mask(left, cleaning.config.pii)
    signals |= {f"pii_{kind}": counts.astype(np.float64) for kind, counts in masked.counts.items()}
    quality = quality_table(table["doc_id"], np.array(scores, np.float64), signals)
    before = text_bytes(table["text"])
    stats = {
        "documents_in": table.num_rows,
        "bytes_in": int(before.sum()),
        "documents_repaired": touched,
        "repaired": dict(sorted(repaired.items())),
        "personal_data": {kind: total for kind, counts in masked.counts.items() if (total := int(counts.sum()))},
        "removed_lines": int(signals["c4_removed_lines"].sum()) if left is not whole else 0,
        "removed_bytes": int(text_bytes(whole).sum() - text_bytes(left).sum()),
        "histograms": {"text bytes": histogram(SIZE_EDGES, before=before)},
    }
    return _with_columns(table, text=masked.texts, language=pa.array(languages, pa.large_string())), quality, stats


def decide_documents(
    documents: pa.Table, quality: pa.Table, cleaning: Cleaning
) -> tuple[pa.Table, pa.Table, dict[str, Any]]:
    """Decide upon a table of measured documents: (documents kept; a decision per input row; counts)."""
    languages = told_languages(documents["language"], quality, cleaning.config)
    decisions = decide(quality, languages, cleaning.sets, cleaning.config)
    decisions = with_objections(decisions, objections(documents, cleaning.policy))
    kept = _with_columns(documents, language=languages).filter(decisions["keep"])
    after = text_bytes(kept["text"])
    stats = {
        "documents_out": kept.num_rows,
        "bytes_out": int(after.sum()),
        "dropped": _counts(decisions.filter(pc.invert(decisions["keep"]))["rule"]),
        "languages": _counts(kept["language"]),
        "histograms": {"text bytes": histogram(SIZE_EDGES, after=after)},
    }
    return kept, decisions, stats


def _with_columns(table: pa.Table, **columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), values)
    return table


def _counts(names: pa.ChunkedArray) -> dict[str, int]:
    return dict(sorted((count["values"], count["counts"]) for count in pc.value_counts(names).to_pylist()))


def _total(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    numbers = (
        *("documents_in", "documents_out", "bytes_in", "bytes_out"),
        *("documents_repaired", "removed_lines", "removed_bytes"),
    )
    by_name = ("repaired", "dropped", "languages", "personal_data")
    nothing: dict[str, Any] = dict.fromkeys(numbers, 0) | {name: {} for name in (*by_name, "histograms")}
    total = added([nothing, *pieces])
    return total | {name: dict(sorted(total[name].items())) for name in by_name}
