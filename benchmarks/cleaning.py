"""Cleaning beside datatrove: reading files (`reading.py`), and quality rule sets beside its filters of the same names,
how fast they are and whether they decide the same.

Run `python -m benchmarks.cleaning [--quick] [--json]`, after `python -m benchmarks.peers` made datatrove's environment.
Documents are descriptions, docstrings and sources of the installed packages in pieces of some 4 kB, and the web pages,
articles and books of `../shared/data`; all are repaired before anybody sees them. Both sides work in one process of one
thread, and its CPU seconds count, since other work may share the machine. Ours, signals and decisions, goes three times
over all documents, and the median counts; datatrove goes once, and the median of three thirds counts.

Where the sides disagree, the reasons of both are told on standard error: words are cut otherwise (emoticons, a few
abbreviations), and a share lies at its threshold.
"""

import json
import random
import statistics
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.corpora import SHARED, pieces
from benchmarks.harness import REPEATS, Measurement, installed_texts, main
from benchmarks.peers import HERE, PEERS, timed
from benchmarks.reading import reading
from pipelines.clean.params import CleanParams
from pipelines.clean.repair import repair
from pipelines.clean.rules import KEPT, decide
from pipelines.clean.signals import measured, quality_table
from pipelines.ingest.environment import docstrings, long_description
from pipelines.ingest.records import Record

DATATROVE = next(peer for peer in PEERS if peer.name.startswith("datatrove"))
TARGETS = {"gopher_quality": 40.0, "gopher_repetition": 40.0, "c4": 10.0, "fineweb": 3.0}
AGREEMENT = 0.995
"""Share of documents."""
PIECE_CHARACTERS = 4000
TOLD = 10
"""Differing documents that are told, of each rule set."""


def measure(quick: bool) -> list[Measurement]:
    """All measurements. quick: 1.5 MB of text for the rule sets instead of 24, 10 MB for the readers instead of 100."""
    return [*reading(quick), *rule_sets(quick)]


def rule_sets(quick: bool) -> list[Measurement]:
    """Every rule set that datatrove has a filter for: rates, and the share of documents decided alike."""
    texts = documents(1.5 if quick else 24)
    megabytes = pc.sum(pc.binary_length(texts)).as_py() / 1e6
    found = []
    for name, target in TARGETS.items():
        decide_upon(texts[:10], name)  # compile
        rate = megabytes / statistics.median(cpu_seconds(texts, name) for _ in range(REPEATS))
        if not DATATROVE.ready:
            print(f"{name}: {DATATROVE.name} is left out: make it with python -m benchmarks.peers", file=sys.stderr)
            continue
        their_rate, reasons = ask_datatrove(texts, name)
        found.append(Measurement(name, DATATROVE.name, rate, their_rate, "MB/CPU s", target))
        same = agreement(name, texts, decide_upon(texts, name), reasons)
        found.append(Measurement(f"{name}, decided alike", DATATROVE.name, same, 1.0, "share", AGREEMENT))
    return found


def documents(megabytes: float) -> pa.Array:
    """Real texts, repaired: of web pages, articles and books where `../shared/data` is, and about as many megabytes of
    the installed packages' prose, their descriptions and docstrings, as of their sources."""
    texts = web_pages() + articles() + books()
    if not texts:
        print(f"web pages, articles and books are left out: there is no folder {SHARED}", file=sys.stderr)
    for found in (package_prose(megabytes / 3), installed_texts(megabytes / 3)):
        for text in found:
            texts += pieces(text, PIECE_CHARACTERS)
    repaired = (repair(text).text for text in random.Random(1).sample(texts, len(texts)))
    texts, size = [], 0
    for text in repaired:
        if text and size < megabytes * 1e6:
            texts.append(text)
            size += len(text.encode())
    return pa.array(texts, pa.large_string())


def articles() -> list[str]:
    """News articles, one to a line, without their names."""
    path = SHARED / "neardup/articles_1000.train"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.partition(" ")[2] for line in lines]


def books() -> list[str]:
    """Books in pieces."""
    paths = sorted((SHARED / "books").glob("*.txt"))
    return [piece for path in paths for piece in pieces(path.read_text(encoding="utf-8"), PIECE_CHARACTERS)]


def package_prose(megabytes: float) -> Iterator[str]:
    """Descriptions of the installed packages, then the docstrings of each of their modules, in order of their paths."""
    folder = Path(sysconfig.get_path("purelib"))
    size = 0
    for path in [*sorted(folder.glob("*.dist-info/METADATA")), *sorted(folder.rglob("*.py"))]:
        found = docstrings(path.read_bytes()) if path.suffix else [long_description(path.read_bytes())]
        text = "\n\n".join(record.text for record in found if isinstance(record, Record))
        if size > megabytes * 1e6:
            return
        if text:
            size += len(text)
            yield text


def web_pages() -> list[str]:
    """Plain text of the web archives in `../shared/data`, none where they are not."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import detect_encoding

    pages = []
    for path in sorted((SHARED / "web").glob("*.warc*")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.response | WarcRecordType.conversion):
                body = record.reader.read()
                text = body.decode(detect_encoding(body), "replace")
                is_page = record.record_type == WarcRecordType.response
                pages.append(extract_plain_text(text, main_content=True) if is_page else text)
    return [page for page in pages if page.strip()]


def decide_upon(texts: pa.Array, name: str) -> list[str]:
    """The rule that decided on each text, `KEPT` where none objected; nothing else than the rule set is asked."""
    params = CleanParams(min_characters=1, min_alphanumeric_share=0)
    signals, _ = measured(texts, [name], params)
    ids = pa.chunked_array([pa.nulls(len(texts), pa.large_string()).fill_null("")])
    quality = quality_table(ids, signals["characters"], signals)
    languages = pa.chunked_array([ids.chunk(0)])
    rules: list[str] = decide(quality, languages, [name], params)["rule"].to_pylist()
    return rules


def cpu_seconds(texts: pa.Array, name: str) -> float:
    """What it takes us to decide upon all texts."""
    begin = time.process_time()
    decide_upon(texts, name)
    return time.process_time() - begin


def ask_datatrove(texts: pa.Array, name: str) -> tuple[float, list[str | None]]:
    """datatrove's rate, 10^6 bytes per CPU second, and its reasons."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "texts.parquet"
        pq.write_table(pa.table({"text": texts}), source)
        command = [str(DATATROVE.python), str(HERE / "datatrove_filters_script.py"), str(source), name]
        told = json.loads(timed(command, Path(folder))[1])
    return statistics.median(part["bytes"] / part["seconds"] / 1e6 for part in told["parts"]), told["reasons"]


def agreement(name: str, texts: pa.Array, ours: Sequence[str], theirs: Sequence[str | None]) -> float:
    """Share of the documents that both keep or both drop; tells the others."""
    differing = [
        number
        for number, (rule, reason) in enumerate(zip(ours, theirs, strict=True))
        if (rule == KEPT) != (reason is None)
    ]
    kinds = Counter((ours[number], theirs[number] or "kept") for number in differing)
    for (rule, reason), count in kinds.most_common(TOLD):
        print(f"{name}: {count} of {len(texts)} documents: {rule} here, {reason} there", file=sys.stderr)
    return 1 - len(differing) / len(texts)


if __name__ == "__main__":
    main(measure, "Cleaning against its peers.")
