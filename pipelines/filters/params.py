"""What can be set about the decisions, with ranges. Nothing is computed here.

Scores have parameters of their own, in `toxicity`, `perplexity` and `contamination`; thresholds stand here alone, so
that a threshold can change without anything being scored again.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from pipelines.profile import Params

MODEL_KINDS = ("ngram", "kenlm", "causal")

BUCKETS = ("head", "middle", "tail")
"""Of perplexity, from the lowest up."""


class FilterParams(Params):
    """Which scores let a document pass. A limit set to null is not applied."""

    max_toxicity: float | None = Field(
        default=0.95, ge=0, le=1, description="documents whose worst passage is more likely toxic than this are dropped"
    )
    toxic: Literal["document", "sentence"] = Field(
        default="document",
        description="beyond max_toxicity 'document' drops the document; 'sentence' cuts the sentences that score "
        "beyond it, and drops a document without such or of which nothing is left; needs toxicity.sentences_from",
    )
    unknown_languages: Literal["keep", "drop"] = Field(
        default="keep", description="what becomes of documents without a score, in a language that no scorer knows"
    )
    max_perplexity_percentile: float | None = Field(
        default=99.0,
        ge=0,
        le=100,
        description="percentile of the reference's own perplexities, to which the next factor applies",
    )
    max_perplexity_factor: float = Field(
        default=10.0,
        gt=0,
        le=1000,
        description="documents are dropped above this many times the perplexity at that percentile",
    )
    max_perplexity: float | None = Field(
        default=None, ge=1, description="absolute limit in the model's own units; the stricter of both limits holds"
    )
    min_perplexity: float | None = Field(
        default=5.0,
        ge=1,
        description="documents below are dropped: to a model that never saw it, only text copied from the reference or "
        "boilerplate is this predictable",
    )
    perplexity_of: str = Field(
        default="ngram",
        pattern=r"^(ngram|kenlm|causal|[0-9a-f]{8,64})$",
        description="the model that max_perplexity and min_perplexity are meant for: its kind (perplexity.model), or "
        "the beginning of its hash; while one of them is set, scores of another are refused",
    )
    buckets: list[Literal["head", "middle", "tail"]] | None = Field(
        default=None, min_length=1, description="buckets of perplexity that are kept; null: all"
    )
    head_percentile: float = Field(
        default=30.0,
        ge=0,
        le=100,
        description="percentile of the reference's perplexities, in the document's language, up to which it is 'head'",
    )
    middle_percentile: float = Field(
        default=60.0, ge=0, le=100, description="percentile up to which it is 'middle'; beyond it is 'tail'"
    )
    bucket_min_documents: int = Field(
        default=100,
        ge=1,
        le=1_000_000_000,
        description="a language in which the reference has fewer documents than this gets no buckets",
    )
    max_contamination: float | None = Field(
        default=0.0,
        ge=0,
        le=1,
        description="largest share of a document's words that may stand in passages of evaluation examples; 0: one "
        "such passage is too much",
    )
    decontaminate: Literal["document", "paragraph"] = Field(
        default="document",
        description="beyond max_contamination 'document' drops the document; 'paragraph' cuts the paragraphs that hold "
        "such passages, and drops a document of which nothing is left",
    )

    @model_validator(mode="after")
    def _buckets_in_order(self) -> Self:
        if self.middle_percentile < self.head_percentile:
            raise ValueError(
                f"middle_percentile {self.middle_percentile:g} lies below head_percentile {self.head_percentile:g}"
            )
        return self

    def limits_of_another_model(self, kind: str, sha256: str | None = None) -> str | None:
        """A sentence where an absolute limit of perplexity is set for another model than this; else None. sha256: the
        model's hash, None: not known yet."""
        names = ("max_perplexity", "min_perplexity")
        limits = [f"{name} {value:g}" for name in names if (value := getattr(self, name)) is not None]
        wanted = self.perplexity_of
        fits = wanted == kind or (wanted not in MODEL_KINDS and (sha256 is None or sha256.startswith(wanted)))
        if fits or not limits:
            return None
        scorer = f"{kind} {sha256[:12]}" if sha256 else kind
        return (
            f"{' and '.join(limits)} belong{'' if len(limits) > 1 else 's'} to the model {wanted} (perplexity_of), and "
            f"{scorer} scores; set to null what does not fit it, or perplexity_of to {kind} where the limits were "
            "chosen for it"
        )
