"""`corpusmill review`: documents for people to label, and what their labels say about a score and its threshold.

The sample and the formulas stand in `pipelines/filters/review.py`, the file for people in `review_file.py` beside it.
Beside that file lies another with the sample itself (scores, sizes of bins), without which no label can be weighed.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from assets.previews import documents_before
from assets.values import share
from jobs.tables import say, terminal
from pipelines.costs.account import PEOPLE
from pipelines.costs.ledger import Ledger, LedgerError
from pipelines.costs.report import dollars, plain
from pipelines.dataset import Dataset, Version, read_table
from pipelines.filters.review import Labels, Quality, Review, Sample, Sampler, review, verdicts_of
from pipelines.filters.review_file import ReviewError, read_labels, write_rows
from pipelines.filters.statistics import Estimate
from pipelines.prices.book import SMALLEST_USD
from pipelines.store import Store, StoreError, digest
from pipelines.usage import Usage
from resources.settings import Profile

SCORES = {"toxicity": "toxicity_scores", "perplexity": "perplexity_scores"}
"""The scores that can be reviewed, and the assets whose part of the same name holds them."""

HOURS = "person-hours"


@dataclass(frozen=True)
class Work:
    """Time of people, and what an hour of it costs."""

    hours: Decimal
    usd_per_hour: Decimal

    @property
    def usd(self) -> Decimal:
        """What it costs. Raises `LedgerError` where the ledger cannot hold that."""
        try:
            return (self.hours * self.usd_per_hour).quantize(SMALLEST_USD)
        except InvalidOperation:
            raise LedgerError(
                f"{self.hours} hours at ${self.usd_per_hour} are more than the ledger can hold; correct --hours or "
                "--usd-per-hour"
            ) from None


# -- out --------------------------------------------------------------------------------------------------------------


def export(
    path: Path,
    profile: Profile,
    *,
    score: str,
    per_bin: int,
    annotators: Sequence[str],
    characters: int,
    as_json: bool,
) -> int:
    """Write a sample for people, and beside it what is needed to weigh their labels; returns the exit code.

    per_bin: documents of every bin of the score, fewer where there are fewer. characters: shown of a text. Raises
    `LedgerError` where there are no scores, or a file that may hold labels.
    """
    _refuse_without_previews(profile)
    ledger, store = Ledger(profile.ledger_url, settle=False), Store(profile.store_url)
    datasets = _scores(ledger, store, profile, SCORES[score])
    forgotten = _forgotten(ledger)
    sampler = Sampler(score, present_threshold(ledger, store, profile, score), per_bin)
    for dataset in datasets:
        for number, shard in enumerate(_aligned(dataset, score)):
            table = read_table(store, shard.object, ["doc_id", score])
            sampler.add(dataset.version.partition, number, table, forgotten)
    sample = sampler.sample([(d.asset, d.version.partition, d.version.id) for d in datasets])
    beside = beside_of(path)
    if beside.exists() and not path.exists():
        raise LedgerError(f"{beside} is there already and belongs to another sample; name another file")
    try:
        cut = write_rows(path, _texts(sample, datasets), annotators, characters)
        beside.write_text(json.dumps(sample.record(), indent=1) + "\n", encoding="utf-8")
    except FileExistsError:
        raise LedgerError(f"{path} is there already and may hold labels; name another file") from None
    except OSError as error:
        raise LedgerError(f"{path} cannot be written ({error.strerror}); name a file in a folder that exists") from None
    drawn = Counter(sample.bin_of(document.score) for document in sample.documents)
    bins = [
        {"bin": name, "documents": size, "drawn": drawn[number]}
        for number, (name, size) in enumerate(zip(sample.bins, sample.sizes, strict=True))
    ]
    if as_json:
        told = {"file": str(path), "sample": str(beside), "documents": len(sample.documents), "texts_cut": cut}
        print(json.dumps({**told, "unscored": sample.unscored, "bins": bins}, indent=1))
        return 0
    console = terminal()
    console.print(_table(f"Drawn by {score}", ("bin", "documents", "drawn"), [list(row.values()) for row in bins]))
    say(
        console,
        f"{len(sample.documents):,} documents stand in {path}: write 1 (to be dropped) or 0 (stays) into the columns "
        f"{', '.join(f'label_{name}' for name in annotators)}; `corpusmill review import {path}` reads them back.",
        f"{cut:,} texts are longer than {characters:,} characters and were cut. Documents without a score, none of "
        f"which was drawn: {sample.unscored:,}.",
        f"Keep {beside.name} beside it: it holds the scores, which the people who label should not see.",
    )
    return 0


def present_threshold(ledger: Ledger, store: Store, profile: Profile, score: str) -> float | None:
    """The score above which documents are dropped: as the newest decisions had it, else as the profile says; None where
    none is."""
    decided = [one for one in ledger.history() if one.asset == "filtered_documents"]
    newest = next((one for one in reversed(decided) if one.partition in profile.source_names), None)
    if newest is None:
        return getattr(profile.filters, f"max_{score}")
    return Version.load(store, newest.version).stats.get("limits", {}).get(f"max_{score}")


def _refuse_without_previews(profile: Profile) -> None:
    if profile.previews == "off":
        raise LedgerError("the profile has previews: off, so no text may leave the store; set previews to ui or store")


def _forgotten(ledger: Ledger) -> frozenset[str]:
    """Ids of the documents that were forgotten: their texts leave the store no more, though it may hold them still."""
    return frozenset(doc_id for one in ledger.removals().removals for doc_id, _, _ in one.documents)


def beside_of(path: Path) -> Path:
    """The file with the sample, beside the one for people."""
    return path.with_suffix(".sample.json")


def _scores(ledger: Ledger, store: Store, profile: Profile, asset: str) -> list[Dataset]:
    pointers = [ledger.current(asset, name) for name in profile.source_names]
    found = [Dataset(asset, (Version.load(store, p.version),), store) for p in pointers if p is not None]
    if not found:
        raise LedgerError(f"{asset} was not made yet, so there is nothing to draw from: start with `corpusmill run`")
    return found


def _aligned(dataset: Dataset, part: str) -> Sequence[Any]:
    """The shards of scores. Raises `LedgerError` where they do not describe the documents that they were made from."""
    shards = dataset.shards(part)
    if [shard.rows for shard in shards] != [shard.rows for shard in documents_before(dataset)]:
        raise LedgerError(
            f"the scores of {dataset.version.name} do not describe the documents that they were made from; materialize "
            f"{dataset.asset} again"
        )
    return shards


def _texts(sample: Sample, datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """The sampled documents, whole, in the sample's order. Reads the shards that hold them, each once."""
    places: defaultdict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for document in sample.documents:
        places[document.source, document.shard].append((document.row, document.doc_id))
    before = {dataset.version.partition: (dataset.store, documents_before(dataset)) for dataset in datasets}
    found: dict[str, dict[str, Any]] = {}
    columns = ["doc_id", "source", "uri", "language", "text"]
    for (source, number), wanted in sorted(places.items()):
        store, shards = before[source]
        rows = read_table(store, shards[number].object, columns).take([row for row, _ in wanted]).to_pylist()
        found |= {row["doc_id"]: row for row in rows}
    return [found[document.doc_id] for document in sample.documents]


# -- back -------------------------------------------------------------------------------------------------------------


def import_labels(
    paths: Sequence[Path],
    profile: Profile,
    *,
    sample_path: Path | None,
    work: Work | None,
    calibration: Path | None,
    as_json: bool,
) -> int:
    """Tell what the labels of one file or several say; returns the exit code.

    sample_path: what lay beside the exported file; None: beside the first of these. work: noted in the ledger, once for
    the same labels. calibration: a new file for the labelled texts. Raises `LedgerError` where a file cannot be used;
    then nothing is noted.
    """
    if calibration:
        _refuse_without_previews(profile)
    ledger, store = Ledger(profile.ledger_url, settle=False), Store(profile.store_url)
    sample = _read_sample(sample_path or beside_of(paths[0]))
    try:
        labels = read_labels(paths, sample)
    except ReviewError as error:
        raise LedgerError(str(error)) from None
    found = review(sample, labels)
    if work:
        _ = work.usd  # said before a file is written
    language, written = profile.toxicity.calibration.language, None
    if calibration:
        forgotten = _forgotten(ledger)
        verdicts = {name: label for name, label in verdicts_of(labels).items() if name not in forgotten}
        written = _write_calibration(calibration, sample, verdicts, store, language)
    booked = _book(ledger, sample, labels, work) if work else None
    record = found.record() | {"booked": booked, "calibration_texts": written}
    if as_json:
        print(json.dumps(record, indent=1, default=str))
        return 0
    console = terminal()
    for table in _tables(found):
        console.print(table)
    say(console, *_sentences(found))
    if calibration:
        say(
            console,
            f"{written:,} labelled texts in {language} (toxicity.calibration.language) stand in {calibration}, as JSON "
            "Lines with the fields text and label.",
        )
    if booked:
        again = "" if booked["noted"] else " These labels and hours were noted before; nothing was added."
        say(console, f"Work of people: {plain(work.hours)} hours, ${dollars(booked['usd'])}.{again}")
    return 0


def _read_sample(path: Path) -> Sample:
    try:
        return Sample.of(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise LedgerError(
            f"{path}, which was exported beside the file for people, cannot be read ({error.strerror}); put it there, "
            "or name it with --sample"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"{path} is not what `review export` wrote ({error!r}); take that file") from None


def _write_calibration(
    path: Path, sample: Sample, verdicts: Mapping[str, bool | None], store: Store, language: str
) -> int:
    """The labelled texts in a language, whole, for `toxicity.calibration`; returns how many. Ties are left out."""
    try:
        datasets = [Dataset(asset, (Version.load(store, version),), store) for asset, _, version in sample.versions]
        texts = [
            text
            for text in _texts(sample, datasets)
            if verdicts.get(text["doc_id"]) is not None and text["language"] == language
        ]
        if not texts:
            raise LedgerError(
                f"no labelled document is in {language}, the language of calibration samples; set "
                "toxicity.calibration.language to the one that was labelled"
            )
        with path.open("x", encoding="utf-8") as file:
            for one in texts:
                line = {"text": one["text"], "label": int(bool(verdicts[one["doc_id"]]))}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    except StoreError as error:
        raise LedgerError(f"the texts that were labelled are no longer stored ({error}); export a new sample") from None
    except FileExistsError:
        raise LedgerError(f"{path} is there already; name another file for the calibration sample") from None
    except OSError as error:
        raise LedgerError(f"{path} cannot be written ({error.strerror})") from None
    return len(texts)


def _book(ledger: Ledger, sample: Sample, labels: Labels, work: Work) -> dict[str, Any]:
    """Note the work of people at the datasets whose documents they labelled, each its share of the labels.

    The same labels with the same hours are noted once: their run's name is made of them.
    """
    source_of = {document.doc_id: document.source for document in sample.documents}
    given = Counter(source_of[doc_id] for labelled in labels.values() for doc_id in labelled)
    usd = work.usd
    said = {name: dict(sorted(labelled.items())) for name, labelled in sorted(labels.items())}
    run = "review-" + digest([sample.record(), said, str(work.hours), str(work.usd_per_hour)])[:20]
    told = {"run": run, "hours": float(work.hours), "usd": usd, "noted": not ledger.events(run=run)}
    if not told["noted"]:
        return told
    passed, before = 0, Decimal(0)
    for asset, partition, version in sample.versions:
        if not given[partition]:
            continue
        passed += given[partition]
        upto = (usd * passed / given.total()).quantize(SMALLEST_USD)
        hours = float(work.hours) * given[partition] / given.total()
        usage = Usage(bought={HOURS: hours}, bought_usd={HOURS: upto - before})
        place = {"root_run": run, "run": run, "step": "review", "asset": asset, "partition": partition}
        attempt = ledger.open_attempt(**place, role=PEOPLE, usage=Usage())
        ledger.close_attempt(attempt, run, "done", usage, {"version": version})
        before = upto
    return told


# -- what is told -----------------------------------------------------------------------------------------------------


def _tables(found: Review) -> Iterator[Table]:
    bins = zip(found.sample.bins, found.strata, strict=True)
    rows = [[name, s.documents, s.labelled, s.positive] for name, s in bins]
    yield _table(f"Labels by {found.sample.score}", ("bin", "documents", "labelled", "to be dropped"), rows)
    agreed = [[*one.annotators, one.documents, _kappa(one.kappa)] for one in found.cohen]
    if agreed:
        yield _table("Agreement, Cohen's kappa", ("annotator", "annotator", "documents of both", "kappa"), agreed)
    heading = ("dropped above", "documents dropped", "precision", "recall", "F1", "")
    yield _table("What thresholds are worth over all documents", heading, [_row(q, found) for q in found.thresholds])


def _row(quality: Quality, found: Review) -> list[Any]:
    estimates = [_told(quality.precision), _told(quality.recall), _told(quality.f1)]
    now = "in force" if quality is found.present else ""
    return [f"{quality.threshold:g}", quality.dropped, *estimates, now]


def _sentences(found: Review) -> Iterator[str]:
    whole = sum(found.sample.sizes)
    yield "Labels: " + ", ".join(f"{name} {count:,}" for name, count in found.labelled.items()) + "."
    if len(found.labelled) > 1:
        yield f"Agreement of all, Fleiss' kappa: {_kappa(found.fleiss)}."
        yield f"Documents on which people are evenly split, counted nowhere: {found.tied:,}."
    if found.present is None:
        yield f"No threshold of {found.sample.score} is in force."
    if found.left_out:
        yield (
            f"No label stands in bins of {found.left_out:,} documents ({share(found.left_out, whole)}): nothing above "
            "is about these."
        )
    yield f"Intervals hold with 95 %. Nothing above is about documents without a score: {found.sample.unscored:,}."


def _told(estimate: Estimate | None) -> str:
    return "" if estimate is None else str(estimate)


def _kappa(value: float | None) -> str:
    return "none: nothing to agree on" if value is None else f"{value:.3f}"


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row))
    return table
