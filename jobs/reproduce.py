"""`corpusmill reproduce`: what a version was made from and with, and whether it comes out the same again.

Making it again is `jobs/rebuild.py`; what a run began with is recorded by `pipelines/costs/provenance.py`.
"""

import functools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from jobs.rebuild import SAME, Verdict, quote, rebuild
from jobs.tables import dollars, quote_told, terminal
from pipelines.costs.ledger import Ledger, LedgerError, Pointer
from pipelines.costs.provenance import Beginning
from pipelines.dataset import Version, dataset_name
from pipelines.engines.task import Progress
from pipelines.prices.book import load_book
from pipelines.store import Store
from resources.settings import Profile

SHOWN_PACKAGES = ("dagster", "numpy", "pyarrow", "tokenizers", "torch", "transformers")
"""Packages whose versions the summary names, where they were installed."""


@dataclass(frozen=True)
class Member:
    """A version of a lineage, the run that first published it, and what that run began with."""

    version: Version
    run: str | None
    began: Beginning | None

    @property
    def name(self) -> str:
        """The dataset, 'asset' or 'asset[source]'."""
        return self.version.name

    def record(self) -> dict[str, Any]:
        """Where it stands in the lineage, as JSON values."""
        version = self.version
        return {
            "asset": version.asset,
            "partition": version.partition,
            "version": version.id,
            "code_version": version.code_version,
            "params": version.params,
            "inputs": [list(pin) for pin in version.inputs],
            "run": self.run,
        }


def reproduce(
    wanted: str,
    found: Sequence[Pointer],
    profile: Profile,
    *,
    verify: bool,
    write: Path | None,
    as_json: bool,
    pay: bool = False,
) -> int:
    """Tell of the version that was found for what was wanted, or make it again; returns the exit code.

    pay: what making it again has to buy may be bought. Raises `LedgerError` where it may not, where several versions
    were found, and where the files to write can't be had or exist.
    """
    if pay and not verify:
        raise LedgerError("--pay belongs to --verify: nothing else buys anything")
    ledger, store = Ledger(profile.ledger_url), Store(profile.store_url)
    members = lineage(_only(wanted, found).version, ledger, store)
    target = members[-1]
    if write is not None:
        write_files(target, write)
    if not verify:
        if as_json:
            print(json.dumps(record(target, members), indent=1))
        else:
            _tell(target, members, write, terminal())
        return 0
    told = purchases([member.version for member in members], profile, store)
    if told and not pay:
        raise LedgerError(f"Making {target.name}@{target.version.id[:12]} again buys {told}; say --pay to pay for it")
    if told:
        terminal(stderr=as_json).print(f"Making it again buys {told}", soft_wrap=True)
    try:
        return _verify(target, members, profile, store, as_json=as_json)
    except KeyboardInterrupt:
        print("Interrupted. Nothing was kept of what was made again; the store is as it was.", file=sys.stderr)
        return 130


def purchases(versions: Sequence[Version], profile: Profile, store: Store) -> str:
    """What making versions again buys for money, in words; '' where that is nothing."""
    found, unknown = quote(versions, profile, store)
    told = quote_told(found)
    if unknown:
        told += f"{' and ' if told else ''}what nobody can tell beforehand for {', '.join(unknown)}"
    return told


def _only(wanted: str, found: Sequence[Pointer]) -> Pointer:
    if len({pointer.version for pointer in found}) > 1:
        names = sorted(f"{dataset_name(p.asset, p.partition)}@{p.version[:12]}" for p in found)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise LedgerError(f"{wanted} can be {', '.join(names[:5])}{more}; name one of them")
    return found[0]


def lineage(version_id: str, ledger: Ledger, store: Store) -> list[Member]:
    """A version and everything upstream of it, each after its inputs. Raises `StoreError` where a record is gone."""
    run_of: dict[str, str] = {}
    for pointer in ledger.history():
        run_of.setdefault(pointer.version, pointer.run)
    began_with = functools.cache(ledger.began_with)
    members: dict[str, Member] = {}
    waiting = [version_id]
    while waiting:
        version = Version.load(store, waiting[-1])
        missing = [pin for _, _, pin in version.inputs if pin not in members]
        if missing:
            waiting += reversed(missing)
            continue
        run = run_of.get(waiting.pop())
        members.setdefault(version.id, Member(version, run, began_with(run) if run else None))
    return list(members.values())


# -- what it was made from and with ---------------------------------------------------------------------------------


def record(target: Member, members: Sequence[Member]) -> dict[str, Any]:
    """All of it as JSON values; `began_with` is null where the run is older than that record."""
    began = target.began
    return target.record() | {
        "began_with": None
        if began is None
        else vars(began) | {"profile": yaml.safe_load(began.profile), "lock": began.lock.splitlines()},
        "lineage": [member.record() for member in members],
    }


def write_files(target: Member, folder: Path) -> None:
    """Write the lock as requirements.txt, the profile as profile.yaml. Raises `LedgerError` rather than overwrite."""
    if target.began is None:
        raise LedgerError(f"{_no_record(target)}, so there is nothing to write")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"--write {folder}: {error.strerror}; name a folder") from None
    files = {
        folder / "requirements.txt": target.began.requirements,
        folder / "profile.yaml": f"# The profile of run {target.run}; passwords stand as ***\n{target.began.profile}",
    }
    for path in files:
        if path.exists():
            raise LedgerError(f"{path} exists already; name another folder with --write")
    for path, content in files.items():
        path.write_text(content, encoding="utf-8")


def _no_record(target: Member) -> str:
    if target.run is None:
        return f"{target.name} was never published, so no run says what it began with"
    return f"run {target.run[:8]} has no record of what it began with (it is older than such records)"


def _tell(target: Member, members: Sequence[Member], written: Path | None, console: Console) -> None:
    version, began = target.version, target.began
    lines = [("run", target.run or "none"), ("stage", f"code version {version.code_version}")]
    if began is not None:
        packages = began.packages
        shown = ", ".join(f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages)
        lines += [
            ("code", began.code),
            ("python", f"{began.python} on {began.platform}"),
            ("packages", f"{len(packages)}: {shown} …"),
            ("profile", yaml.safe_load(began.profile).get("name", "")),
        ]
    parameters = yaml.safe_dump(version.params, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True)
    lines += [("parameters", line) if not i else ("", line) for i, line in enumerate(parameters.splitlines())]
    console.print(f"{target.name}@{version.id}")
    for heading, said in lines:
        console.print(f"  {heading:<11} {said}", soft_wrap=True)
    if began is None:
        console.print(f"  {_no_record(target)}.")
    table = Table(title="Made from, each after its inputs", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("dataset", "version", "code", "run"):
        table.add_column(heading)
    for member in members[:-1]:
        table.add_row(member.name, member.version.id, member.version.code_version, (member.run or "")[:8])
    console.print(table if len(members) > 1 else "  It was made from the files of its source alone.")
    if written is not None:
        console.print(f"Written: {written / 'requirements.txt'} for pip install -r, {written / 'profile.yaml'}.")
    elif began is not None:
        console.print("The whole lock and the profile: --json, or --write FOLDER as files. To make it again: --verify.")


# -- making it again ------------------------------------------------------------------------------------------------


def _verify(target: Member, members: Sequence[Member], profile: Profile, store: Store, *, as_json: bool) -> int:
    prices = load_book(profile.prices_path)
    console = terminal(stderr=as_json)
    console.print(f"Making {target.name}@{target.version.id} again, {len(members)} datasets, without cached results")

    def told(verdict: Verdict) -> None:
        mark = "✓" if verdict.outcome == SAME else "✗"
        console.print(f"  {mark} {verdict.name:<34} {verdict.seconds:7.1f} s   {verdict.outcome}")

    def at_work(version: Version, seconds: float, progress: Progress) -> None:
        far = [f"{progress.done}/{progress.total} tasks"] if progress.total else []
        far += [f"{key} {value}" for key, value in progress.extra.items() if key != "unit"]
        console.print(f"  … {version.name:<34} {seconds:7.1f} s   {', '.join(far)}", style="dim")

    began = {member.version.id: member.began for member in members}
    verdicts, attempt = rebuild([member.version for member in members], began, profile, store, told, at_work)
    reproduced = all(verdict.outcome == SAME for verdict in verdicts)
    assert attempt.usage is not None
    usd = prices.price(attempt.usage).usd
    compared = sum(verdict.bytes_compared for verdict in verdicts)
    if as_json:
        said = {
            "asset": target.version.asset,
            "partition": target.version.partition,
            "version": target.version.id,
            "reproduced": reproduced,
            "bytes_compared": compared,
            "usd": float(usd),
            "ledger_id": attempt.id,
            "verdicts": [verdict.record() for verdict in verdicts],
        }
        print(json.dumps(said, indent=1))
        return 0 if reproduced else 1
    console.print(verdict_table(verdicts))
    for verdict in verdicts:
        if verdict.remark:
            console.print(f"{verdict.name}: {verdict.remark}.", soft_wrap=True)
    ends = "is reproduced" if reproduced else "is NOT reproduced"
    console.print(
        f"{target.name}@{target.version.id} {ends}: {compared / 1e6:,.3f} MB compared; making it again cost "
        f"${dollars(usd)}, which is overhead in the ledger.",
        soft_wrap=True,
    )
    return 0 if reproduced else 1


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """One row per dataset: the id that stands, the id that came out, and what was compared."""
    table = Table(title="Made again", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("dataset", "verdict", "version", "came out as"):
        table.add_column(heading)
    for heading in ("bytes compared", "seconds"):
        table.add_column(heading, justify="right")
    for verdict in verdicts:
        table.add_row(
            verdict.name,
            verdict.outcome,
            verdict.version,
            verdict.rebuilt or "",
            f"{verdict.bytes_compared:,}",
            f"{verdict.seconds:.1f}",
        )
    return table
