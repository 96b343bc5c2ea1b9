"""Stage `filter_benchmark`: what each filter finds of what people call toxic, and what it uses for that.

Every filter is the stage that the corpus goes through, SimHash apart, on one labelled sample and in a process
of its own. Half of the sample sets it (its threshold, and the toxic examples that SimHash looks for), the other half is
measured. What that costs stands in `assets/worth.py`: quantities are kept here, never dollars.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.engines.local import Engine, start_worker
from pipelines.engines.task import Inputs, Made, Stats, Task
from pipelines.filters.comparison_params import ComparisonParams
from pipelines.filters.perplexity import likelihood
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.perplexity.stage import score_perplexity
from pipelines.filters.statistics import Confusion, auc
from pipelines.filters.toxicity import calibration, experts, stage
from pipelines.filters.toxicity.experts import neural_experts
from pipelines.filters.toxicity.labelled import Sample, read_sample
from pipelines.filters.toxicity.lexicon import lexicon_file
from pipelines.filters.toxicity.params import CalibrationParams, LabelledSample, RemoteParams, ToxicityParams
from pipelines.filters.toxicity.screen import package_version
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.gpus import open_gpus
from pipelines.histograms import text_bytes
from pipelines.overlay import Overlay
from pipelines.processes import own_peak_bytes
from pipelines.schemas import DOCUMENTS
from pipelines.scratch import working_folder
from pipelines.store import Store
from pipelines.usage import UsageReader

VERSION = 1
"""Of this stage's code; raise it when what is measured changes."""

SOURCE = "filter_benchmark.sample"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Similarity:
    """A function of a module that gives float64[n]: how much each of n texts resembles the most similar one of some
    others, itself left out, 0 to 1. version: of its code, for the key."""

    of: Callable[[pa.Array, pa.Array], Floats]
    version: tuple[int, ...]


@dataclass(frozen=True)
class Contestant:
    """A filter. score: function of a module, from (documents, toxic examples, engine, payload) to float64[n], higher
    for what is to be dropped; NaN: no score. identity: what its scores depend on besides the sample, for the key."""

    name: str
    score: Callable[[Dataset, list[str], Engine, Any], Floats]
    payload: Any
    identity: Any


def compare_filters(
    unique_documents: Dataset,
    perplexity_model: Dataset,
    config: ComparisonParams,
    toxicity: ToxicityParams,
    perplexity: PerplexityParams,
    similarity: Similarity,
    engine: Engine,
) -> Draft:
    """Measure every filter that the parameters have on the labelled sample. No parts; stats: `measured`, by filter, and
    `corpus`, what it is to be projected to. Without a sample nothing is measured, and the stats say so.

    similarity: by SimHash. Raises `ValueError` where the sample cannot be read.
    """
    sample = config.sample
    if sample.path is None:
        return Draft({}, {"measured": {}, "compared_on": "nothing: filter_benchmark.sample.path names no sample"})
    sha256 = sample.file.sha256()
    said = {"sample": sample.model_dump(mode="json", exclude={"path"}) | {"sha256": sha256}, "most": config.documents}
    found: dict[str, Any] = {}
    for contestant in contestants_of(toxicity, perplexity, perplexity_model, similarity):
        payload = _Measuring(contestant, sample, sha256, config.documents)
        params = {**said, "filter": contestant.name, "identity": contestant.identity}
        # One task after the other: two at once would slow each other down.
        found[contestant.name] = engine.run(Task(measure, "filters.comparison", VERSION, params, payload=payload)).stats
    totals = {"documents": "documents_out", "bytes": "bytes_out"}
    corpus = {name: sum(one.stats[key] for one in unique_documents.versions) for name, key in totals.items()}
    return Draft({}, {"measured": found, "corpus": corpus})


def contestants_of(
    toxicity: ToxicityParams, perplexity: PerplexityParams, perplexity_model: Dataset, similarity: Similarity
) -> list[Contestant]:
    """SimHash, the screen and perplexity; where the parameters have a neural model also the cascade, and that model
    alone, on every document."""
    alone = toxicity.model_copy(
        update={
            "neural": [],
            "lexicons": {},
            "band": None,
            "calibration": CalibrationParams(),
            "remote": RemoteParams(),
            "unknown_languages": "nobody",
            "sentences_from": None,
        }
    )
    wanted: list[tuple[str, ToxicityParams]] = [("screen", alone)]
    if toxicity.neural:
        away: dict[str, Any] = {"remote": RemoteParams(), "sentences_from": None}
        if toxicity.unknown_languages == "remote":
            away["unknown_languages"] = "nobody"
        whole = {"neural": toxicity.neural[:1], "band": [0.0, 1.0]}
        wanted.append(("cascade", toxicity.model_copy(update=away)))
        wanted.append(("neural model", alone.model_copy(update=whole)))
    found = [
        Contestant("simhash", _by_similarity, similarity, [similarity.of.__qualname__, *similarity.version]),
        *(Contestant(name, by_toxicity, params, _identity(params)) for name, params in wanted),
    ]
    model = perplexity_model.version.id
    said = [model, perplexity.recorded, likelihood.SCORING_VERSION]
    found.append(Contestant("perplexity", _by_perplexity, (perplexity_model, perplexity), said))
    return found


def _identity(params: ToxicityParams) -> list[Any]:
    lexicons = {language: lexicon_file(language, path).sha256() for language, path in sorted(params.lexicons.items())}
    sample = params.calibration.file.sha256() if params.calibration.path else None
    code = [stage.VERSION, experts.VERSION, calibration.VERSION, package_version(), unicodedata.unidata_version]
    return [params.recorded, lexicons, sample, [expert.identity for expert in neural_experts(params)], code]


# -- how each of them scores --------------------------------------------------------------------------------------


def _by_similarity(documents: Dataset, examples: list[str], engine: Engine, similarity: Similarity) -> Floats:
    """A document is as toxic as it resembles the most similar toxic example."""
    texts = pa.concat_arrays([chunk for table in documents.tables("documents") for chunk in table["text"].chunks])
    return similarity.of(texts, pa.array(examples, pa.large_string()))


def by_toxicity(documents: Dataset, examples: list[str], engine: Engine, params: ToxicityParams) -> Floats:
    """The score that decides, of whatever scorers the parameters have."""
    return _column(score_toxicity(documents, params, engine), "toxicity", engine.store)


def _by_perplexity(
    documents: Dataset, examples: list[str], engine: Engine, payload: tuple[Dataset, PerplexityParams]
) -> Floats:
    model, params = payload
    here = Dataset(model.asset, model.versions, engine.store)
    return _column(score_perplexity(documents, here, params, engine), "perplexity", engine.store)


def _column(draft: Draft, name: str, store: Store) -> Floats:
    """The scores of a draft: its part and its column of this name."""
    version = seal(store, draft, asset=SOURCE)
    column = Dataset(SOURCE, (version,), store).table(name)[name]
    scores: Floats = column.to_numpy().astype(np.float64)
    return scores


# -- measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measuring:
    contestant: Contestant
    sample: LabelledSample
    sha256: str
    most: int


def measure(inputs: Inputs, payload: _Measuring) -> Iterable[Made]:
    """The task of one filter: stats alone. It works in a process of its own, so that its memory can be told."""
    known, new = halves(payload)
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver"), initializer=start_worker) as alone:
        try:
            work = alone.submit(_measured, payload.contestant, known, new, payload.sample.language, inputs.store)
            told = work.result()
        except BrokenProcessPool:
            raise RuntimeError(
                f"filter_benchmark: the process of {payload.contestant.name} was killed, most often by the system "
                "running out of memory; take fewer texts (filter_benchmark.documents)"
            ) from None
    yield Stats(told)


def halves(payload: _Measuring) -> tuple[Sample, Sample]:
    """The half of the sample that filters are set on, and the one that they are measured on: by hashes of the texts, so
    that copies fall into one half. Raises `ValueError` where a half is not of both kinds."""
    sample = read_sample(payload.sample, payload.sha256)
    ranked = sorted(
        (xxhash.xxh3_64_intdigest(text.encode()), text, toxic)
        for text, toxic in zip(sample.texts, sample.toxic, strict=True)
    )[: payload.most]
    found = []
    for odd in (0, 1):
        rows = [(text, toxic) for rank, text, toxic in ranked if rank % 2 == odd]
        found.append(Sample([text for text, _ in rows], [toxic for _, toxic in rows]))
    if any(len(set(half.toxic)) < 2 for half in found):
        raise ValueError(
            f"filter_benchmark: of {len(ranked)} labelled texts one half are all toxic, or none; give a larger sample"
        )
    return found[0], found[1]


def _measured(contestant: Contestant, known: Sample, new: Sample, language: str, store: Store) -> dict[str, Any]:
    """What a filter finds, and what it uses for the new half; what it has to load is loaded with the known half."""
    examples = [text for text, toxic in zip(known.texts, known.toxic, strict=True) if toxic]
    reader = UsageReader(open_gpus(pids_match=True))
    with working_folder(store, "comparison") as folder:
        overlay = Overlay(folder, store)
        engine = Engine(overlay, workers=1)
        scores = []
        for half in (known, new):
            documents = documents_of(overlay, half.texts, language)
            before = reader.read()
            scores.append(contestant.score(documents, examples, engine, contestant.payload))
            used = reader.read() - before
    threshold = best_threshold(np.array(known.toxic), scores[0])
    toxic = np.array(new.toxic)
    with np.errstate(invalid="ignore"):
        right = Confusion.of(toxic, scores[1] > threshold)
    estimates = {"f1": right.f1, "precision": right.precision, "recall": right.recall, "auc": auc(toxic, scores[1])}
    return {
        "documents": len(new.texts),
        "bytes": int(text_bytes(pa.array(new.texts, pa.large_string())).sum()),
        "toxic": int(toxic.sum()),
        "unscored": int(np.isnan(scores[1]).sum()),
        "threshold": threshold if (scores[0] <= threshold).any() else None,  # None: it is best to drop everything
        **{name: asdict(one) if one else None for name, one in estimates.items()},
        "usage": used.record(),
        "peak_memory_bytes": own_peak_bytes(),
    }


def best_threshold(toxic: npt.NDArray[np.bool_], scores: Floats) -> float:
    """The score above which documents are to be called toxic so that F1 is highest on these; of several the lowest.

    Between two scores it lies in the middle.
    """
    scored = ~np.isnan(scores)
    values = np.unique(scores[scored])
    if not len(values):
        return 0.0
    edges = np.concatenate([[values[0] - 1.0], (values[1:] + values[:-1]) / 2])
    order = np.sort(scores[scored])
    toxic_order = np.sort(scores[scored & toxic])
    dropped = len(order) - np.searchsorted(order, edges, side="right")
    found = len(toxic_order) - np.searchsorted(toxic_order, edges, side="right")
    return float(edges[np.argmax(2 * found / (dropped + toxic.sum()))])


def documents_of(store: Store, texts: Sequence[str], language: str) -> Dataset:
    """Texts as a dataset of one shard, as the stages are handed them."""
    count = len(texts)
    columns: dict[str, Sequence[str | None]] = {
        "doc_id": [xxhash.xxh3_128_hexdigest(f"{number} {text}".encode()) for number, text in enumerate(texts)],
        "source": [SOURCE] * count,
        "uri": [f"sample#{number}" for number in range(count)],
        "text": texts,
        "language": [language] * count,
        "license": [None] * count,
        "metadata": [None] * count,
    }
    table = pa.table({name: pa.array(columns[name], pa.large_string()) for name in DOCUMENTS.names}, schema=DOCUMENTS)
    draft = Draft({"documents": Part("table", (write_shard(store, "documents", table),))})
    return Dataset("unique_documents", (seal(store, draft, asset="unique_documents", partition=SOURCE),), store)
