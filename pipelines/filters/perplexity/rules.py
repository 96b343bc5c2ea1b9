"""What filtering makes of perplexities: limits that belong to one model, and the buckets head, middle and tail.

The scores come from `stage.py`; `filters/decide.py` asks all rules in their order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.dataset import Dataset
from pipelines.filters import tallies
from pipelines.filters.params import BUCKETS, FilterParams
from pipelines.filters.perplexity.stage import ModelIdentity
from pipelines.schemas import BUCKET

NO_BUCKET = "none"
"""Under which documents are counted that have no bucket."""


def refuse_other_models(config: FilterParams, scores: Dataset, model: ModelIdentity) -> None:
    """Raise `ValueError` where scores were made by another model than the reference's, or where an absolute limit is
    meant for another. model: that which scored the reference."""
    for version in scores.versions:
        made_by = version.stats.get("model")
        if made_by != vars(model):
            told = str(ModelIdentity(**made_by)) if made_by else "a model that they do not name"
            raise ValueError(
                f"filtering: {version.name} was made by {told}, and the reference was scored by {model}, so no "
                f"threshold fits; materialize {version.asset} again"
            )
    if wrong := config.limits_of_another_model(model.kind, model.sha256):
        raise ValueError(f"filtering: {wrong}")


@dataclass(frozen=True)
class BucketLimits:
    """Where buckets end. by_language: (code, highest perplexity of head, of middle); a language that is not there has
    no buckets. too_few: (code, documents) of languages in which the reference holds too few. kept: names of the buckets
    that go on, None: all."""

    by_language: tuple[tuple[str, float, float], ...] = ()
    too_few: tuple[tuple[str, int], ...] = ()
    kept: tuple[str, ...] | None = None

    @classmethod
    def of(cls, config: FilterParams, reference: dict[str, Any]) -> "BucketLimits":
        """The limits for this reference: percentiles of its own perplexities in each language (Wenzek et al. 2020,
        CCNet, section 4.2)."""
        found, too_few = [], []
        for code in sorted(reference["languages"]):
            of_language = reference["by_language"].get(code, {"documents": 0})
            if of_language["documents"] < config.bucket_min_documents:
                too_few.append((code, of_language["documents"]))
                continue
            quantiles = of_language["quantiles"]
            steps = np.linspace(0, 100, len(quantiles))
            head, middle = np.interp([config.head_percentile, config.middle_percentile], steps, quantiles)
            found.append((code, float(head), float(middle)))
        kept = None if config.buckets is None else tuple(name for name in BUCKETS if name in config.buckets)
        return cls(tuple(found), tuple(too_few), kept)

    def record(self) -> dict[str, Any]:
        """As JSON values, for people."""
        limits = {code: {"head": head, "middle": middle} for code, head, middle in self.by_language}
        return {"kept": None if self.kept is None else list(self.kept), "limits": limits, "too_few": dict(self.too_few)}


@dataclass(frozen=True)
class Bucketed:
    """Of n documents. perplexity: float64[n], NaN: no score. place: int8[n], the bucket's place in `BUCKETS`, -1: none.
    edge: float64[n], the limit that parts it from the bucket before it, head from the one after it; NaN: no bucket."""

    perplexity: npt.NDArray[np.float64]
    place: npt.NDArray[np.int8]
    edge: npt.NDArray[np.float64]

    def names(self) -> list[str | None]:
        """The bucket of each document."""
        return [None if place < 0 else BUCKETS[place] for place in self.place.tolist()]

    def objects(self, limits: BucketLimits) -> npt.NDArray[np.bool_]:
        """bool[n]: true where the bucket is not one that goes on. Who has none is not objected to."""
        if limits.kept is None:
            return np.zeros(len(self.place), np.bool_)
        return (self.place >= 0) & ~np.isin(self.place, [BUCKETS.index(name) for name in limits.kept])


def bucketed(languages: pa.ChunkedArray, perplexity: npt.NDArray[np.float64], limits: BucketLimits) -> Bucketed:
    """The bucket of each document; none without a score. A perplexity that equals a limit belongs to the bucket below
    it."""
    named = tallies.named(languages)
    place, edge = np.full(len(perplexity), -1, np.int8), np.full(len(perplexity), np.nan)
    for code, head, middle in limits.by_language:
        mine = np.asarray(pc.equal(named, code)) & ~np.isnan(perplexity)
        place[mine] = np.searchsorted([head, middle], perplexity[mine], side="left")
        edge[mine] = np.array([head, head, middle])[place[mine]]
    return Bucketed(perplexity, place, edge)


def bucket_table(documents: pa.Table, found: Bucketed) -> pa.Table:
    """Table of schema BUCKET, one row per document (columns doc_id, language)."""
    columns = [documents["doc_id"], documents["language"], pa.array(found.names(), pa.large_string())]
    return pa.table(columns, schema=BUCKET)


def count_buckets(languages: pa.ChunkedArray, found: Bucketed) -> dict[str, dict[str, int]]:
    """Documents by language and bucket; those without a bucket as `NO_BUCKET`."""
    named = tallies.named(languages)
    counted: dict[str, dict[str, int]] = {}
    for code in sorted(pc.unique(named).to_pylist()):
        places = found.place[np.asarray(pc.equal(named, code))]
        counts = {name: int(np.count_nonzero(places == place)) for place, name in enumerate(BUCKETS)}
        counted[code] = {**counts, NO_BUCKET: int(np.count_nonzero(places < 0))}
    return counted
