"""Definitions for a profile: every asset, the jobs, and what they are given. Tests build their own from here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from assets import cleaning, comparison, deduplication, filtering, ingestion, mixing, tokenization, training
from assets.metered import MeteredAsset, refuse_unmetered
from jobs.schedules import build_jobs, build_schedules
from jobs.sensors import build_sensors
from pipelines.prices.book import load_book
from pipelines.store import Store
from resources.datasets import DatasetIOManager
from resources.engine import describe_engine, open_engine
from resources.executor import metered_executor
from resources.launcher import Launcher
from resources.metering import make_meter
from resources.settings import Profile

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

ASSETS: tuple[MeteredAsset, ...] = (
    ingestion.raw_documents,
    cleaning.clean_documents,
    cleaning.compliance_audit,
    deduplication.duplicate_clusters,
    deduplication.unique_documents,
    filtering.toxicity_scores,
    filtering.perplexity_model,
    filtering.perplexity_scores,
    filtering.contamination_scores,
    filtering.filtered_documents,
    mixing.training_mixture,
    tokenization.tokenizer,
    tokenization.token_shards,
    mixing.training_blend,
    training.pretrained_model,
)
"""Every asset that each profile has, in the order in which data flows."""

ON_REQUEST: tuple[tuple[MeteredAsset, Callable[[Profile], bool]], ...] = (
    (comparison.filter_benchmark, lambda profile: profile.filter_benchmark.sample.path is not None),
)
"""Assets that a profile has only where it asks for them: a step that has nothing to do costs its start."""


def assets_of(profile: Profile) -> tuple[MeteredAsset, ...]:
    """The assets of a profile, each after those that it reads."""
    return (*ASSETS, *(declared for declared, wanted in ON_REQUEST if wanted(profile)))


def build_definitions(profile: Profile, extra_assets: Sequence[Any] = (), **resources: Any) -> dg.Definitions:
    """The definitions of a profile. resources: replacements, by name. Raises `ValueError` for an unmetered asset."""
    sources = dg.StaticPartitionsDefinition(profile.source_names)
    declared_assets = assets_of(profile)
    assets = [*(declared.build(profile, sources) for declared in declared_assets), *extra_assets]
    refuse_unmetered(assets)
    jobs = build_jobs()
    return dg.Definitions(
        assets=assets,
        jobs=list(jobs.values()),
        schedules=build_schedules(profile, jobs, full_range(profile)),
        sensors=build_sensors(profile, jobs["corpus_job"], full_range(profile), [a.name for a in declared_assets]),
        resources={**build_resources(profile), **resources},
        executor=metered_executor(profile.ledger_url, profile.prices_path),
    )


def build_resources(profile: Profile) -> Mapping[str, dg.ResourceDefinition]:
    """What assets are given. None can be configured from the launchpad: a run must not write into another ledger."""
    return {
        "io_manager": dg.IOManagerDefinition.hardcoded_io_manager(
            DatasetIOManager(profile.store_url, profile.ledger_url), "Finds the versions that a step reads."
        ),
        "engine": dg.ResourceDefinition(
            lambda _: open_engine(profile.engine, Store(profile.store_url)),
            description=describe_engine(profile.engine),
        ),
        "meter": dg.ResourceDefinition(
            lambda _: make_meter(profile.ledger_url), description="Meters every attempt into the ledger."
        ),
        "prices": dg.ResourceDefinition(
            lambda _: load_book(profile.prices_path), description=f"Turns usage into dollars: {profile.prices}."
        ),
        "launcher": dg.ResourceDefinition(
            lambda _: Launcher(profile.launcher.processes),
            description=f"Trains in processes of their own, {profile.launcher.processes} for each model.",
        ),
    }


def full_range(profile: Profile) -> dict[str, str]:
    """Run tags that make one run of all sources."""
    return {RANGE_START: profile.source_names[0], RANGE_END: profile.source_names[-1]}
