"""Stage `toxicity_scores`: how likely the worst passage of every document is toxic.

How a passage is scored stands in `screen.py`; from which score on a document goes, in `decide.py`.
"""

import unicodedata
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset, Draft, Part, join_parts
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Stats, Task
from pipelines.filters import tallies
from pipelines.filters.params import ToxicityParams
from pipelines.filters.screen import Screen, extract_screen, package_version
from pipelines.histograms import TOXICITY_EDGES, added, histogram, text_bytes
from pipelines.schemas import TOXICITY

VERSION = 2
"""Of this stage's code; raise it when scores change."""


def score_toxicity(unique_documents: Dataset, config: ToxicityParams, engine: Engine) -> Draft:
    """Score every document, shard by shard; part "toxicity" is row-aligned with the documents.

    A document in a language that the screen does not know gets null, never a low score; stats count them by language.
    """
    shards = unique_documents.shards("documents")
    package = {"screen": package_version(), "unicode": unicodedata.unidata_version}
    screen = engine.map([Task(make_screen, "filters.toxicity.screen", VERSION, package)] if shards else [])
    broadcast = tuple(shard.object for result in screen for shard in result.parts["screen"].shards)
    params = {**package, "languages": sorted(set(config.languages)), "window_bytes": config.window_bytes}
    results = engine.map(
        [
            Task(
                score_shard,
                "filters.toxicity.score",
                VERSION,
                params,
                (shard.object,),
                broadcast,
                payload=config,
                rows=shard.rows,
            )
            for shard in shards
        ]
    )
    empty = toxicity_tally(pa.table({"text": [], "language": []}), TOXICITY.empty_table())
    parts = {"toxicity": Part("table", ()), **join_parts([result.parts for result in results])}
    return Draft(parts, added([empty, *(result.stats for result in results)]))


def make_screen(inputs: Inputs, payload: None) -> Iterable[Made]:
    """The task that reads the screen out of the installed package, once for all shards: part "screen"."""
    yield "screen", File("screen.npz", extract_screen().to_bytes())


def score_shard(inputs: Inputs, payload: ToxicityParams) -> Iterable[Made]:
    """The task of one shard: its scores and their tally."""
    documents = inputs.table(0, ["doc_id", "text", "language"])
    scores = toxicity_of(documents, Screen.open(inputs.broadcast_path(0)), payload)
    if scores.num_rows != documents.num_rows:
        raise RuntimeError(f"toxicity: {documents.num_rows} documents came in and {scores.num_rows} scores went out")
    yield "toxicity", scores
    yield Stats(toxicity_tally(documents, scores))


def toxicity_of(documents: pa.Table, screen: Screen, config: ToxicityParams) -> pa.Table:
    """Table of schema TOXICITY, one row per document (columns doc_id, text, language); memory: one copy of the text
    that is screened."""
    known = pc.fill_null(pc.is_in(documents["language"], pa.array(config.languages, pa.large_string())), False)
    scored = documents.filter(known)
    probabilities = pa.array(screen.score(scored["text"], config.window_bytes))
    column = pc.replace_with_mask(
        pa.nulls(documents.num_rows, pa.float64()), known.combine_chunks(), probabilities
    )  # a mask of one chunk, else pyarrow restarts the replacements at each
    return pa.table([documents["doc_id"], column], schema=TOXICITY)


def toxicity_tally(documents: pa.Table, scores: pa.Table) -> dict[str, Any]:
    """Counts of one shard: documents, bytes, unscored documents by language, and the histogram of scores."""
    unscored = documents.filter(pc.is_null(scores["toxicity"]))
    return {
        "documents_in": documents.num_rows,
        "documents_out": scores.num_rows,
        "bytes_in": int(text_bytes(documents["text"].cast(pa.large_string())).sum()),
        "unknown_language": tallies.count_by_language(unscored["language"]),
        "histograms": {"toxicity": histogram(TOXICITY_EDGES, documents=scores["toxicity"].drop_null().to_numpy())},
    }
