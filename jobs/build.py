"""Definitions for a profile: every asset, the jobs, and what they are given. Tests build their own from here."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets import cleaning, deduplication, filtering, ingestion, mixing, tokenization, training
from assets.metered import MeteredAsset, refuse_unmetered
from resources.datasets import DatasetIOManager
from resources.engine import EngineResource, PricesResource
from resources.launcher import LauncherResource
from resources.metering import MeterResource, metered_executor
from resources.settings import Profile

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

ASSETS: tuple[MeteredAsset, ...] = (
    ingestion.raw_documents,
    cleaning.clean_documents,
    deduplication.duplicate_clusters,
    deduplication.unique_documents,
    filtering.toxicity_scores,
    filtering.perplexity_model,
    filtering.perplexity_scores,
    filtering.filtered_documents,
    mixing.training_mixture,
    tokenization.tokenizer,
    tokenization.token_shards,
    mixing.training_blend,
    training.pretrained_model,
)
"""Every asset, in the order in which data flows."""


def build_definitions(profile: Profile, extra_assets: Sequence[Any] = (), **resources: Any) -> dg.Definitions:
    """The definitions of a profile. resources: replacements, by name. Raises `ValueError` for an unmetered asset."""
    sources = dg.StaticPartitionsDefinition(profile.source_names)
    assets = [*(declared.build(profile, sources) for declared in ASSETS), *extra_assets]
    refuse_unmetered(assets)
    return dg.Definitions(
        assets=assets,
        jobs=[dg.define_asset_job("full_job", selection="*", description="From raw documents to a trained model.")],
        resources={**build_resources(profile), **resources},
        executor=metered_executor(profile.ledger_url),
    )


def build_resources(profile: Profile) -> Mapping[str, Any]:
    """What assets are given."""
    return {
        "datasets": DatasetIOManager(store=profile.store_url, ledger=profile.ledger_url),
        "engine": EngineResource(store=profile.store_url, workers=profile.engine.workers),
        "meter": MeterResource(ledger=profile.ledger_url),
        "prices": PricesResource(path=str(profile.prices_path)),
        "launcher": LauncherResource(),
    }


def full_range(profile: Profile) -> dict[str, str]:
    """Run tags that make one run of all sources."""
    return {RANGE_START: profile.source_names[0], RANGE_END: profile.source_names[-1]}
