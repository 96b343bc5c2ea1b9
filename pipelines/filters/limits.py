"""The thresholds that decide on documents, with what follows from the reference looked up.

How they decide stands in `decide.py`.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from pipelines.dataset import Dataset
from pipelines.filters.params import FilterParams
from pipelines.filters.perplexity.rules import BucketLimits
from pipelines.filters.perplexity.stage import reference_of

LEARNED_SHARE = 0.01
"""A language is one that the perplexity model has learned if this share of the reference's documents is in it."""


@dataclass(frozen=True)
class Limits:
    """Thresholds with the reference's percentile looked up. None: not applied.

    languages: the languages that the perplexity model has learned; perplexity decides on no others, since to a model
    every text in a language that it never read is equally strange.
    """

    max_toxicity: float | None
    max_perplexity: float | None
    min_perplexity: float | None
    languages: tuple[str, ...]
    max_contamination: float | None = None
    decontaminate: Literal["document", "paragraph"] = "document"
    toxic: Literal["document", "sentence"] = "document"
    unknown_languages: Literal["keep", "drop"] = "keep"
    buckets: BucketLimits = field(default_factory=BucketLimits)

    def record(self) -> dict[str, Any]:
        """As JSON values, for people."""
        return {**asdict(self), "languages": list(self.languages), "buckets": self.buckets.record()}


def limits_of(config: FilterParams, perplexity_model: Dataset) -> Limits:
    """The thresholds for this model.

    CCNet (Wenzek et al. 2020, section 4.2) cuts at the 30th and 60th percentile to keep the best of a large crawl; the
    default here only removes what lies far outside the reference.
    """
    reference = reference_of(perplexity_model)
    candidates = [] if config.max_perplexity is None else [config.max_perplexity]
    if config.max_perplexity_percentile is not None:
        quantiles = reference["quantiles"]
        steps = np.linspace(0, 100, len(quantiles))
        at_percentile = float(np.interp(config.max_perplexity_percentile, steps, quantiles))
        candidates.append(at_percentile * config.max_perplexity_factor)
    total = sum(reference["languages"].values())
    learned = [code for code, documents in reference["languages"].items() if documents >= LEARNED_SHARE * total]
    highest = min(candidates) if candidates else None
    if highest is not None and config.min_perplexity is not None and highest < config.min_perplexity:
        raise ValueError(
            f"filtering: min_perplexity {config.min_perplexity:g} lies above the highest perplexity allowed, "
            f"{highest:g}, so no document could pass; lower min_perplexity or set it to null"
        )
    return Limits(
        config.max_toxicity,
        highest,
        config.min_perplexity,
        tuple(sorted(learned)),
        config.max_contamination,
        config.decontaminate,
        config.toxic,
        config.unknown_languages,
        BucketLimits.of(config, reference),
    )
