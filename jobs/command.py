"""The `corpusmill` command. Every subcommand reads the same profile as Dagster and fails with one sentence.

What a subcommand does stands in `jobs/run.py` and `pipelines/`; this module reads arguments and prints.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from jobs.environment import PROFILE_VARIABLE, SET_VARIABLE, chosen_profile, prepare_dagster_home
from jobs.tables import STAGES, bucket_lines, cost_table, terminal
from pipelines.costs.account import Account
from pipelines.costs.ledger import Ledger, LedgerError
from pipelines.costs.report import dataset_costs
from pipelines.prices.book import PriceError, load_book
from pipelines.profile import ProfileError
from pipelines.removals import KINDS
from pipelines.store import Store, StoreError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code: 0 success, 1 failure, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    if options.profile:
        os.environ[PROFILE_VARIABLE] = str(Path(options.profile).resolve())
    if getattr(options, "set", None):
        os.environ[SET_VARIABLE] = json.dumps(options.set)
    try:
        return options.command(options)
    except (ProfileError, LedgerError, StoreError, PriceError) as error:
        print(error, file=sys.stderr)
        return 1
    except DBAPIError as error:  # not the ledger's, which are sentences already
        print(
            f"what Dagster keeps for {os.environ.get('DAGSTER_HOME')} cannot be read or written: {error.orig}; see "
            "whether a disk is full, then start the same command again: finished work is kept",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("Interrupted. Finished work is kept; the same command goes on from there.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="corpusmill", description="Mill corpora into tokens and models, and know the cost."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the main job, with progress")
    run.add_argument(
        "--set", action="append", metavar="KEY=VALUE", help="override a parameter, for example dedup.threshold=0.8"
    )
    run.add_argument("--select", metavar="ASSETS", help="only these assets, in Dagster's selection syntax")
    run.set_defaults(command=_run)

    cost = commands.add_parser("cost", help="what every dataset cost")
    cost.add_argument(
        "dataset", nargs="?", metavar="DATASET[@VERSION]", help="only this asset, 'asset' or 'asset[source]'"
    )
    cost.add_argument("--price-book", metavar="FILE", help="price the same usage with another book")
    cost.set_defaults(command=_cost)

    reproduce = commands.add_parser("reproduce", help="what a version was made from and with")
    reproduce.add_argument("dataset", metavar="DATASET[@VERSION]", help="'asset' or 'asset[source]'; default: current")
    reproduce.add_argument("--verify", action="store_true", help="make it and all upstream again and compare")
    reproduce.add_argument("--pay", action="store_true", help="with --verify: pay again for what it has to buy")
    reproduce.add_argument("--write", type=Path, metavar="FOLDER", help="write requirements.txt and profile.yaml there")
    reproduce.set_defaults(command=_reproduce)

    impact = commands.add_parser("impact", help="what a run would make again and cost, before it is started")
    impact.add_argument("--set", action="append", metavar="KEY=VALUE", help="what if this parameter changed, as in run")
    impact.set_defaults(command=_impact)

    explain = commands.add_parser("explain", help="what became of one document, and which ones it resembles")
    explain.add_argument("document", metavar="DOC", help="its id (or 6 digits and more), its uri, or a piece of that")
    explain.set_defaults(command=_explain)

    rejects = commands.add_parser("rejects", help="what every stage dropped and why, and a sample of it")
    rejects.add_argument(
        "dataset", nargs="?", metavar="DATASET[@VERSION]", help="only this one, 'asset' or 'asset[source]'"
    )
    rejects.add_argument("--stage", choices=list(STAGES.values()), help="only what this stage dropped")
    rejects.add_argument("--reason", metavar="R", help="only what was dropped for this reason")
    rejects.add_argument(
        "--sample", type=_count, default=0, metavar="N", help="show N documents of every reason of every dataset"
    )
    rejects.set_defaults(command=_rejects)

    review = commands.add_parser("review", help="documents for people to label, and what their labels say of a score")
    _review_parsers(review.add_subparsers(required=True, metavar="ACTION"))

    forget = commands.add_parser("forget", help="leave documents out of every later version; a dry run unless --yes")
    for kind, metavar, meaning in (
        ("document", "ID", "the document with this id"),
        ("uri", "URI", "the document at this uri, or with this url in its metadata"),
        ("glob", "PATTERN", "documents whose uri or url fits this shell pattern"),
        ("domain", "HOST", "documents whose url is on this host, or below it"),
        ("publisher", "NAME", "documents with this publisher in their metadata"),
    ):
        forget.add_argument(f"--{kind}", action="append", default=[], metavar=metavar, help=meaning)
    forget.add_argument("--near", action="store_true", help="their copies and near-copies at other addresses, too")
    forget.add_argument("--reason", default="", metavar="TEXT", help="why, for the certificate")
    forget.add_argument("--yes", action="store_true", help="do it; without, only what it would mean is told")
    forget.add_argument("--purge", action="store_true", help="with --yes: erase stored bytes that hold them, at once")
    forget.set_defaults(command=_forget)

    export = commands.add_parser("export", help="copy token shards as tables, or a blend as training reads it")
    export.add_argument(
        "dataset", metavar="DATASET[@VERSION]", help="'token_shards', 'token_shards[source]' or 'training_blend'"
    )
    export.add_argument("folder", type=Path, metavar="FOLDER", help="where the files go")
    export.add_argument("--format", choices=["parquet", "arrow"], help="of token shards; default: parquet")
    export.set_defaults(command=_export)

    gc = commands.add_parser("gc", help="remove stored bytes that no kept version names")
    gc.add_argument("--keep", type=int, default=1, metavar="N", help="versions kept of every dataset, the newest first")
    gc.add_argument("--dry-run", action="store_true", help="say what would go, remove nothing")
    gc.set_defaults(command=_gc)

    for command in (run, cost, impact, explain, export, forget, gc, reproduce, rejects):
        _common(command)
    return parser


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--profile", metavar="FILE", help="the profile; default: $CORPUSMILL_PROFILE, else the demo's")
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def _review_parsers(actions: argparse._SubParsersAction) -> None:
    export = actions.add_parser("export", help="draw documents, equally many of every bin of a score, into a CSV file")
    export.add_argument("file", type=Path, metavar="FILE", help="the new file; FILE.sample.json is written beside it")
    export.add_argument("--score", choices=["toxicity", "perplexity"], default="toxicity", help="default: toxicity")
    export.add_argument("--per-bin", type=_positive, default=20, metavar="N", help="documents of a bin; default: 20")
    export.add_argument(
        "--annotators", default="1", metavar="A,B", help="who labels, a column each, separated by commas; default: 1"
    )
    export.add_argument(
        "--characters", type=_positive, default=5000, metavar="N", help="shown of a text, up to 32000; default: 5000"
    )
    export.set_defaults(command=_review_export)

    read = actions.add_parser("import", help="agreement and quality, from files with labels")
    read.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="the labelled file, or every annotator's copy"
    )
    read.add_argument(
        "--sample", type=Path, metavar="FILE", help="what was exported beside it; default: beside the first"
    )
    read.add_argument("--hours", type=_amount, metavar="H", help="person-hours that it took, to be noted as a cost")
    read.add_argument("--usd-per-hour", type=_amount, metavar="USD", help="what one of them costs")
    read.add_argument("--calibration", type=Path, metavar="FILE", help="write the labelled texts there, as JSON Lines")
    read.set_defaults(command=_review_import)
    for action in (export, read):
        _common(action)


def _run(options: argparse.Namespace) -> int:
    from jobs.run import run_job  # loads Dagster, which the other commands do without

    profile = chosen_profile()
    prepare_dagster_home(profile)
    return run_job(profile, select=options.select, as_json=options.json)


def _cost(options: argparse.Namespace) -> int:
    profile = chosen_profile()
    ledger, store = Ledger(profile.ledger_url), Store(profile.store_url)
    account = Account.read(ledger, load_book(Path(options.price_book) if options.price_book else profile.prices_path))
    current = ledger.all_current()
    if options.dataset:
        current = _named(options.dataset, ledger)
    costs = dataset_costs(account, current, store)
    if options.json:
        print(json.dumps([cost.record() for cost in costs], indent=1))
        return 0
    console = terminal()
    if not costs:
        console.print("Nothing has been made yet: start with `corpusmill run`.")
        return 0
    console.print(cost_table(costs, title="What every dataset cost, US dollars"), soft_wrap=True)
    console.print(bucket_lines(account))
    return 0


def _named(wanted: str, ledger: Ledger) -> list:
    name, _, version = wanted.partition("@")
    asset, _, partition = name.removesuffix("]").partition("[")
    pointers = ledger.history() if version else ledger.all_current()
    found = {
        (p.asset, p.partition, p.version): p
        for p in pointers
        if p.asset == asset and partition in ("", p.partition) and p.version.startswith(version)
    }
    if not found:
        known = ", ".join(sorted({p.asset for p in ledger.all_current()})) or "none yet"
        raise LedgerError(f"no dataset {wanted!r} has been made; datasets are: {known}")
    return list(found.values())


def _reproduce(options: argparse.Namespace) -> int:
    from jobs.reproduce import reproduce  # loads the assets

    profile = chosen_profile()
    found = _named(options.dataset, Ledger(profile.ledger_url))
    how = {"verify": options.verify, "pay": options.pay, "write": options.write}
    return reproduce(options.dataset, found, profile, **how, as_json=options.json)


def _impact(options: argparse.Namespace) -> int:
    from jobs.impact import impact
    from jobs.outlook import impact_table, untouched_line

    found = impact(chosen_profile())
    if options.json:
        print(json.dumps(found.record(), indent=1))
        return 0
    console = terminal()
    if found.touched:
        console.print(impact_table(found.touched))
        console.print(untouched_line(found.outlooks))
    console.print(found.sentence())
    return 0


def _explain(options: argparse.Namespace) -> int:
    from jobs.explain import explain  # loads what deduplication compares with

    return explain(options.document, chosen_profile(), as_json=options.json)


def _rejects(options: argparse.Namespace) -> int:
    from jobs.rejects import rejects  # loads the assets

    profile = chosen_profile()
    ledger = Ledger(profile.ledger_url, settle=False)
    pointers = _named(options.dataset, ledger) if options.dataset else ledger.all_current()
    how = {"stage": options.stage, "reason": options.reason, "sample": options.sample}
    return rejects(pointers, profile, **how, as_json=options.json)


def _review_export(options: argparse.Namespace) -> int:
    from jobs.review import export
    from pipelines.filters.review_file import MOST_CHARACTERS

    annotators = [name.strip() for name in options.annotators.split(",") if name.strip()]
    if not annotators or len(set(annotators)) < len(annotators):
        raise LedgerError(f"--annotators {options.annotators!r}: give every annotator a name of its own")
    if options.characters > MOST_CHARACTERS:
        raise LedgerError(f"--characters {options.characters}: a spreadsheet's cell holds {MOST_CHARACTERS:,}")
    how = {"score": options.score, "per_bin": options.per_bin, "characters": options.characters}
    return export(options.file, chosen_profile(), annotators=annotators, **how, as_json=options.json)


def _review_import(options: argparse.Namespace) -> int:
    from jobs.review import Work, import_labels

    if (options.hours is None) != (options.usd_per_hour is None):
        raise LedgerError("--hours and --usd-per-hour belong together: give both or neither")
    work = None if options.hours is None else Work(options.hours, options.usd_per_hour)
    how = {"sample_path": options.sample, "calibration": options.calibration}
    return import_labels(options.files, chosen_profile(), work=work, **how, as_json=options.json)


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except ArithmeticError:
        amount = Decimal("nan")
    if not amount.is_finite() or amount <= 0:
        raise argparse.ArgumentTypeError(f"a number above 0, not {text!r}")
    return amount


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("a whole number from 1 on, not 0")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 on, not {text!r}")
    return int(text)


def _forget(options: argparse.Namespace) -> int:
    from jobs.forget import Request, forget

    given = {kind: getattr(options, kind) for kind in KINDS}
    chosen = {name: getattr(options, name) for name in ("near", "reason", "yes", "purge")}
    return forget(Request.of(given, **chosen), chosen_profile(), as_json=options.json)


def _export(options: argparse.Namespace) -> int:
    from jobs.export import export

    profile = chosen_profile()
    found = _named(options.dataset, Ledger(profile.ledger_url, settle=False))
    return export(options.dataset, found, options.folder, profile, kind=options.format, as_json=options.json)


def _gc(options: argparse.Namespace) -> int:
    from pipelines.costs.retention import collect

    profile = chosen_profile()
    swept = collect(Ledger(profile.ledger_url), Store(profile.store_url), keep=options.keep, dry_run=options.dry_run)
    if options.json:
        print(json.dumps(vars(swept)))
    else:
        verb = "Would remove" if options.dry_run else "Removed"
        print(
            f"{verb} {swept.objects:,} objects ({swept.bytes / 1e6:,.1f} MB) and {swept.actions:,} cached results; "
            f"{swept.spared_by_lease:,} objects were used in the last 24 hours and stay."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
