"""`corpusmill run`: the main job in this process, told as it goes, with tables at its milestones."""

import json
import shlex
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableJob, ReconstructableRepository
from dagster._core.execution.api import execute_run
from rich.console import Console

from assets.outcomes import attention
from jobs.build import ASSETS, build_definitions, full_range
from jobs.environment import chosen_overrides
from jobs.failures import failed_checks, failures
from jobs.progress import Watcher, watching
from jobs.tables import STAGES, bucket_lines, cost_table, funnel_table, mixture_table, terminal
from pipelines.costs.account import Account
from pipelines.costs.ledger import Ledger
from pipelines.costs.report import dataset_costs
from pipelines.dataset import Version
from pipelines.prices.book import PriceBook, load_book
from pipelines.profile import ProfileError
from pipelines.store import Store
from resources.settings import HOME, Profile

JOB = "full_job"


def run_job(profile: Profile, *, select: str | None = None, as_json: bool = False) -> int:
    """Run the main job for all sources. Returns 0 if it succeeded, else 1 after saying what failed and how to go on."""
    console = terminal(stderr=as_json)
    for source in profile.sources:
        if source.path and not Path(source.path).exists():
            raise ProfileError(
                f"source {source.name!r}: there is no folder or file at {source.path}; correct its `path`"
            )
    ledger, prices, store = Ledger(profile.ledger_url), load_book(profile.prices_path), Store(profile.store_url)
    job = ReconstructableRepository.for_file(
        str(HOME / "jobs" / "definitions.py"), "definitions", working_directory=str(HOME)
    ).get_reconstructable_job(JOB)
    told = _Told(profile, ledger, prices, store, console)
    with dg.DagsterInstance.get() as instance:
        selected = _selected(profile, select)
        run = _create_run(job, instance, full_range(profile), selected)
        told.run_id = run.run_id
        console.print(f"Run {run.run_id[:8]} of {JOB}, profile {profile.name}: {len(profile.sources)} sources")
        for idle in without_effect(profile, selected):
            console.print(f"! {idle}", style="yellow")
        begun = time.monotonic()
        watcher = Watcher(
            ledger,
            prices,
            console,
            {
                "filtered_documents": told.funnel,
                **{asset: partial(told.mixture, asset) for asset in _mixed(selected)},
                "pretrained_model": told.samples,
            },
        )
        with watching(watcher, run.run_id):
            succeeded = _execute(job, run, instance)
        failed = [] if succeeded else failures(instance, run.run_id)
        warned = failed_checks(instance, run.run_id)
    account = Account.read(ledger, prices)
    costs = dataset_costs(account, ledger.all_current(), store)
    if as_json:
        print(
            json.dumps(
                {
                    "run": run.run_id,
                    "success": succeeded,
                    "failures": [(f.step, f.reason) for f in failed],
                    "failed_checks": warned,
                    "datasets": [c.record() for c in costs],
                }
            )
        )
    elif succeeded:
        console.print(cost_table(costs, title="What every dataset cost, US dollars"), soft_wrap=True)
        console.print(bucket_lines(account))
        told.summary(account, time.monotonic() - begun)
    for dataset, sentence in told.attention():
        console.print(f"! {dataset}: {sentence}", style="yellow")
    for asset, check, found in warned:
        console.print(f"! {asset} does not pass {check}: {found}", style="yellow")
    for failure in failed:
        print(f"\n{failure.step} failed: {failure.reason}", file=sys.stderr)
    if not succeeded:
        print(
            f"Finished work is kept. Once the cause is mended, go on with: {_resume_command(profile)}", file=sys.stderr
        )
    return 0 if succeeded else 1


class _Told:
    """The tables printed while a run goes on."""

    def __init__(self, profile: Profile, ledger: Ledger, prices: PriceBook, store: Store, console: Console) -> None:
        self.profile, self.ledger, self.prices, self.store, self.console = profile, ledger, prices, store, console
        self.run_id = ""

    def funnel(self) -> None:
        """What was kept, what was dropped and why, for every source."""
        account = Account.read(self.ledger, self.prices)
        pointers = [
            p for p in self.ledger.all_current() if p.asset in STAGES and p.partition in self.profile.source_names
        ]
        versions = [Version.load(self.store, pointer.version) for pointer in pointers]
        spent = {pointer.version: account.attempt(pointer.attempt).charge.usd for pointer in pointers}
        self.console.print(funnel_table(versions, spent))

    def mixture(self, asset: str) -> None:
        """What the model is to read, as planned or as counted."""
        pointer = self.ledger.current(asset, "")
        if pointer is not None:
            self.console.print(mixture_table(Version.load(self.store, pointer.version)))

    def attention(self) -> Iterator[tuple[str, str]]:
        """(dataset, what it says) where somebody should look at what this run has made."""
        for pointer in self.ledger.all_current():
            if pointer.run == self.run_id:
                version = Version.load(self.store, pointer.version)
                if told := attention(version.stats):
                    yield version.name, told

    def samples(self) -> None:
        """What the trained model writes."""
        pointer = self.ledger.current("pretrained_model", "")
        if pointer is None:
            return
        stats = Version.load(self.store, pointer.version).stats
        self.console.print(
            f"\nThe model ({stats['parameters']:,} parameters) has read {stats['tokens']:,} tokens and now writes:"
        )
        for sample in stats["samples"]:
            self.console.print(f"  {sample['prompt']} … {' '.join(sample['continuation'].split())}")

    def summary(self, account: Account, seconds: float) -> None:
        """What this run took and cost, and what it reused."""
        attempts = [a for a in account.attempts if a.run == self.run_id]
        usd = sum((a.charge.usd for a in attempts), Decimal(0))
        named = {action for a in attempts for action in a.named}
        taken = {action for a in attempts for action in account.reused(a)}
        reused = [(maker, key) for maker, key in taken if key in account.made[maker]]  # others paid for parts of some
        told = f"This run took {seconds:.0f} s and cost ${usd:.6f}"
        if reused:
            of = len({key for _, key in named})
            told += f"; {len(reused)} of {of} results were reused, which saved ${account.usd_of(taken):.6f}"
        self.console.print(f"{told}.")


def _selected(profile: Profile, select: str | None) -> frozenset[dg.AssetKey] | None:
    if select is None:
        return None
    graph = build_definitions(profile).resolve_asset_graph()
    try:
        selected = frozenset(dg.AssetSelection.from_string(select).resolve(graph))
    except dg.DagsterError as error:
        known = ", ".join(sorted(key.to_user_string() for key in graph.get_all_asset_keys()))
        told = str(error).partition(". ")[0]
        raise ProfileError(
            f"--select {select}: {told}; assets are {known}; '*name' is an asset with all upstream, "
            '\'key:"a" or key:"b"\' are two of them'
        ) from None
    if not selected:
        raise ProfileError(f"--select {select} selects nothing")
    return selected


def without_effect(profile: Profile, selected: frozenset[dg.AssetKey] | None) -> Iterator[str]:
    """What was set for assets that are not selected, in words."""
    readers: dict[str, set[str]] = {}
    for recipe in ASSETS:
        for model in [recipe.params_model, *recipe.borrowed.values()]:
            if model:
                readers.setdefault(profile.section_name(model), set()).add(recipe.name)
    for override in chosen_overrides():
        key = override.partition("=")[0]
        assets = readers.get(key.partition(".")[0], set())
        if selected and assets and not {dg.AssetKey(name) for name in assets} & selected:
            yield f"--set {key} changes nothing here: it is for {' and '.join(sorted(assets))}, not selected"


def _mixed(selected: frozenset[dg.AssetKey] | None) -> list[str]:
    """The asset whose mixture is told: the counted one, if it is made."""
    wanted = [name for name in ("training_blend", "training_mixture") if not selected or dg.AssetKey(name) in selected]
    return wanted[:1]


def _create_run(
    job: ReconstructableJob, instance: dg.DagsterInstance, tags: dict[str, str], selected: frozenset[dg.AssetKey] | None
) -> dg.DagsterRun:
    job = job.get_subset(asset_selection=selected) if selected else job
    return instance.create_run_for_job(
        job_def=job.get_definition(),
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        tags=tags,
        asset_selection=selected,
        job_code_origin=job.get_python_origin(),
    )


def _execute(job: ReconstructableJob, run: dg.DagsterRun, instance: dg.DagsterInstance) -> bool:
    return execute_run(job, run, instance, raise_on_error=False).success


def _resume_command(profile: Profile) -> str:
    return "make demo" if profile.name == "demo" else shlex.join(["corpusmill", *sys.argv[1:]])
