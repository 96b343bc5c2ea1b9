"""`corpusmill explain`: the fate of one document, named by its id or its uri, for people and as JSON.

What is known of it is gathered in `jobs/fate.py`. Time to find it: the ids and uris of the raw documents are read shard
by shard and source by source, until it is found; all of them where a beginning of an id or a piece of a uri could also
be another's.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs import tables
from jobs.fate import Corpus, Fate, Place, Resemblance, fate_of
from pipelines.costs.ledger import Ledger, LedgerError
from pipelines.dataset import Version
from pipelines.dedup.params import DedupParams
from pipelines.store import Store
from pipelines.text.passages import Difference
from resources.settings import Profile

CANDIDATES = 5
"""Documents that are listed where several could be meant."""

PASSAGES = 5
"""Differing passages that are shown."""

LONGEST = 240
"""Characters of one text that are shown of a passage."""

Test = Callable[[pa.Table], pa.ChunkedArray]
"""Which rows of the columns doc_id and uri, or of uri alone, are meant."""


def explain(wanted: str, profile: Profile, *, as_json: bool) -> int:
    """Tell what became of a document; returns the exit code.

    wanted: its id, the first 6 digits of it or more, its uri, or a piece of the uri that no other has. Raises
    `LedgerError` where there is no such document or there are several.
    """
    ledger = Ledger(profile.ledger_url, settle=False)
    if removal := ledger.removals().of_document(wanted.lower()):
        raise LedgerError(
            f"document {wanted} was forgotten (removal {removal}); `corpusmill forget` lists what was done"
        )
    corpus = Corpus(ledger, Store(profile.store_url))
    fate = fate_of(_only(wanted, corpus, profile.source_names), corpus)
    if as_json:
        print(json.dumps(record(fate), indent=1))
    else:
        _tell(fate, tables.terminal())
    return 0


# -- which document -------------------------------------------------------------------------------------------------


def _only(wanted: str, corpus: Corpus, sources: Sequence[str]) -> Place:
    made = {name: corpus.current("raw_documents", name) for name in sources}
    raws = [version for version in made.values() if version is not None]
    if not raws:
        raise LedgerError("no source has been read yet, so there is no document: start with `corpusmill run`")
    found = find(wanted, raws, corpus)
    if len(found) == 1:
        return found[0]
    if found:
        listed = [f"  {place.doc_id or 'rejected':<32}  {_shown(place.told)}" for place in found[:CANDIDATES]]
        more = ["  and others"] if len(found) > CANDIDATES else []
        raise LedgerError("\n".join([f"{wanted!r} can be several documents; name one of them:", *listed, *more]))
    missing = [name for name, version in made.items() if version is None]
    unread = f"; {', '.join(missing)} has not been read yet" if missing else ""
    raise LedgerError(f"no document {wanted!r} in {', '.join(v.partition for v in raws)}{unread}")


def find(wanted: str, raws: Sequence[Version], corpus: Corpus) -> list[Place]:
    """The documents and rejected records that can be meant; one more than `CANDIDATES` where there are more.

    An id goes before a uri, a whole uri before a piece of one.
    """
    as_id = wanted.lower()
    if re.fullmatch("[0-9a-f]{6,32}", as_id):
        most = 1 if len(as_id) == 32 else CANDIDATES + 1
        by_id = _places(raws, corpus, lambda table: pc.starts_with(table["doc_id"], as_id), rejects=False)
        if found := list(islice(by_id, most)):
            return found
    tests: list[Test] = [
        lambda table: pc.equal(table["uri"], wanted),
        lambda table: pc.match_substring(table["uri"], wanted),
    ]
    for test in tests:
        if found := list(islice(_places(raws, corpus, test), CANDIDATES + 1)):
            return found
    return []


def _places(raws: Sequence[Version], corpus: Corpus, test: Test, *, rejects: bool = True) -> Iterator[Place]:
    """Where documents stand that pass a test, then rejected records at other uris."""
    for raw in raws:
        seen = set()
        for shard, table in corpus.tables(raw, "documents", ["doc_id", "uri"]):
            for row in table.filter(test(table)).to_pylist():
                seen.add(row["uri"])
                yield Place(raw.partition, row["uri"], row["doc_id"], shard)
        for _, table in corpus.tables(raw, "rejects", ["uri"]) if rejects else ():
            for uri in table.filter(test(table))["uri"].to_pylist():
                if uri not in seen:
                    seen.add(uri)
                    yield Place(raw.partition, uri)


# -- what is told ---------------------------------------------------------------------------------------------------


def record(fate: Fate) -> dict[str, Any]:
    """The fate as JSON values; what does not apply is null."""

    def other(resemblance: Resemblance | None) -> dict[str, Any] | None:
        return resemblance.record(PASSAGES) if resemblance else None

    removed = fate.removed
    return {
        "doc_id": fate.place.doc_id or None,
        "source": fate.place.source,
        "uri": fate.place.uri,
        "language": fate.language,
        "bytes_read": fate.size[0],
        "bytes_cleaned": fate.size[1],
        "characters": fate.characters,
        "rejects": [{"reason": reason, "detail": detail} for reason, detail in fate.rejects],
        "steps": [step.record() for step in fate.steps],
        "scores": fate.scores,
        "deduplication": {
            "parameters": fate.config.model_dump(mode="json") if fate.config else None,
            "kept_instead": other(fate.kept_instead),
            "removed_in_its_favour": removed
            and {
                "count": removed.count,
                "by_level": removed.by_level,
                "most_similar": other(removed.most),
                "least_similar": other(removed.least),
            },
            "nearest_kept": other(fate.nearest),
            "why": fate.why or None,
        },
    }


def _tell(fate: Fate, console: Console) -> None:
    say = partial(tables.say, console)
    say(_shown(fate.place.told))
    if fate.place.doc_id:
        read, cleaned = fate.size
        size = f"{read:,} bytes as read" + ("" if cleaned is None else f", {cleaned:,} cleaned")
        say(
            f"  id        {fate.place.doc_id}",
            f"  language  {fate.language or 'not determined'}",
            f"  length    {fate.characters:,} characters; {size}",
        )
    console.print(_step_table(fate))
    for step in fate.steps:
        say(*(f"{step.asset}@{step.version} was made from {pin}." for pin in step.stale))
    if fate.place.doc_id:
        say(*(f"Another record at this uri was rejected: {_why(*reject)}." for reject in fate.rejects))
    else:
        say(*(f"Another one at this uri: {_why(*reject)}." for reject in fate.rejects[1:]))
    say(*_score_lines(fate))
    if fate.kept_instead and fate.config:
        say(f"Removed as a duplicate of {_shown(fate.kept_instead.told)}, which stays.")
        say(f"  {_likeness(fate.kept_instead, fate.config)}", *_passage_lines(fate.kept_instead.difference))
    if fate.removed and fate.config:
        levels = ", ".join(f"{level} {count:,}" for level, count in fate.removed.by_level.items())
        say(f"Removed in its favour: {fate.removed.count:,} ({levels}).")
        named = {"the most similar": fate.removed.most} | (
            {"the least similar": fate.removed.least} if fate.removed.count > 1 else {}
        )
        for word, other in named.items():
            say(f"  {word}: {_shown(other.told)}", f"    {_likeness(other, fate.config)}")
    if fate.nearest and fate.config:
        say(
            f"Most similar of the others that stay: {_shown(fate.nearest.told)}",
            f"  {_likeness(fate.nearest, fate.config)}",
        )
    if fate.why:
        say(f"  {fate.why}" if fate.nearest else fate.why)


def _step_table(fate: Fate) -> Table:
    table = Table(title="What each stage decided", box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("stage", "outcome", "rule"):
        table.add_column(heading)
    for heading in ("value", "threshold"):
        table.add_column(heading, justify="right")
    table.add_column("detail", max_width=48)
    table.add_column("version")
    for step in fate.steps:
        numbers = [_number(step.value), _number(step.threshold)]
        rule = "" if step.rule == "kept" else step.rule
        table.add_row(step.stage, step.outcome, rule, *numbers, Text(_shown(step.detail or "")), step.version)
    return table


def _score_lines(fate: Fate) -> Iterator[str]:
    for name, score in fate.scores.items():
        limits = [
            f"at {word} {_number(score[key])}" for key, word in (("min", "least"), ("max", "most")) if key in score
        ]
        passes = f" (passes {' and '.join(limits)})" if limits else ""
        if score[name] is None:
            yield f"{name.capitalize()}: no score" + (
                ", language unknown to its scorers." if name == "toxicity" else "."
            )
        elif fate.language not in score.get("languages", [fate.language]):
            said = f"{_number(score[name])}, {_number(score['bits_per_byte'])} bits per byte"
            yield f"Perplexity: {said}, not judged: the model has not learned this language."
        else:
            more = f", over {score['tokens']:,} tokens" if "tokens" in score else ""
            more = f", {_number(score['bits_per_byte'])} bits per byte{more}" if "bits_per_byte" in score else more
            more += f", bucket '{score['bucket']}'" if score.get("bucket") else ""
            more = f", by the scorer '{score['scorer']}'" if score.get("scorer") else more
            if score.get("hits"):
                example = f"{score['evaluation_set']}#{score['example']}"
                passages = "passage" if score["hits"] == 1 else "passages"
                more = f", {score['hits']:,} {passages} of evaluation sets, most like {_shown(example)}"
            yield f"{name.capitalize()}: {_number(score[name])}{passes}{more}."


def _likeness(other: Resemblance, config: DedupParams) -> str:
    recorded = {
        "exact": "the same words" if config.exact_text == "normalised" else "the same bytes",
        "simhash": f"{other.similarity:.3f} of the fingerprint's bits are equal",
        "minhash": f"similarity {other.similarity:.3f} "
        + ("by the sets of shingles" if config.verify == "shingles" else "estimated from the signatures"),
    }[other.level]
    true = "no Jaccard similarity: a text is gone or has no shingles"
    if other.jaccard is not None:
        one = config.shingle_of.removesuffix("s")
        true = f"{other.jaccard:.3f} is the Jaccard similarity of the texts' {config.shingle_length}-{one} shingles"
    threshold = {"exact": "", "simhash": f"; threshold {1 - config.simhash.distance / 64:.3f}"}
    return f"{other.level}: {recorded}; {true}{threshold.get(other.level, f'; threshold {config.threshold:g}')}"


def _passage_lines(difference: Difference | None) -> Iterator[str]:
    if difference is None:
        return
    count = len(difference.passages)
    if not count:
        yield "  No passage differs: the texts are the same, word by word."
        return
    shown = f", the first {PASSAGES} are shown" if count > PASSAGES else ""
    whole = "; long ones were not compared word by word" if difference.whole else ""
    yield f"  {count:,} {'passage differs' if count == 1 else 'passages differ'}{shown}{whole}:"
    yield "  [-only in this text-] {+only in the one that stays+}"
    for passage in difference.passages[:PASSAGES]:
        left = f"[-{_shown(passage.left)}-]" if passage.left else ""
        right = f"{{+{_shown(passage.right)}+}}" if passage.right else ""
        before, after = _shown(passage.before), _shown(passage.after)
        around = [before and f"… {before}", left, right, after and f"{after} …"]
        yield "    " + " ".join(filter(None, around))


def _why(reason: str, detail: str | None) -> str:
    return f"{reason} ({_shown(detail)})" if detail else reason


def _shown(text: str) -> str:
    """Text on one line, its middle left out where it is long."""
    text = tables.one_line(text)
    if len(text) <= LONGEST:
        return text
    left_out = len(text) - LONGEST + 40
    return f"{text[: LONGEST - 80]} … {left_out:,} characters … {text[-40:]}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"
