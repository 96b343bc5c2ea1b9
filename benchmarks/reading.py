"""Reading files: JSONL and Parquet beside datatrove's readers, web archives beside fastwarc and resiliparse alone.

Part of `python -m benchmarks.cleaning`. Ours is the task of ingestion, from a file to the Arrow tables that would be
stored (ids, uris, metadata, a histogram, and rejections); datatrove's readers give one object per document, and are
timed with that alone, and with ids, texts and metadata in Arrow tables. Everybody works in one process, and its CPU
seconds count; medians of three.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.corpora import SHARED, Corpus, packages, short_english
from benchmarks.harness import REPEATS, Measurement
from benchmarks.peers import HERE, PEERS, timed
from pipelines.engines.task import Inputs, Stats
from pipelines.ingest.listing import list_files
from pipelines.ingest.params import IngestParams, Source
from pipelines.ingest.stage import Reading, read_files

DATATROVE = next(peer for peer in PEERS if peer.name.startswith("datatrove"))
WARC_COPIES = 20
JSONL_TARGET, PARQUET_TARGET, WARC_TARGET = 2.0, 1.0, 0.7


def reading(quick: bool) -> list[Measurement]:
    """All formats. quick: 10 MB of text instead of 100."""
    found = []
    for whole in (packages(10 if quick else 100), short_english(10_000 if quick else 100_000)):
        corpus = replace(whole, texts=whole.texts.filter(pc.not_equal(pc.utf8_trim_whitespace(whole.texts), "")))
        for name, target, write in (("jsonl", JSONL_TARGET, write_jsonl), ("parquet", PARQUET_TARGET, write_parquet)):
            with tempfile.TemporaryDirectory() as folder:
                write(corpus, Path(folder))
                found += beside_datatrove(corpus, Path(folder), name, target)
    return found + web_archives()


def write_jsonl(corpus: Corpus, folder: Path) -> None:
    """One file, a line with text, id and two more fields per document."""
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as file:
        for number, text in enumerate(corpus.texts.to_pylist()):
            record = {"text": text, "id": f"d{number}", "url": f"https://example.org/{number}", "score": number / 7}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_parquet(corpus: Corpus, folder: Path) -> None:
    """The same as one Parquet file."""
    numbers = range(len(corpus.texts))
    columns = {
        "text": corpus.texts,
        "id": [f"d{n}" for n in numbers],
        "url": [f"https://example.org/{n}" for n in numbers],
        "score": [n / 7 for n in numbers],
    }
    pq.write_table(pa.table(columns), folder / "documents.parquet", compression="zstd")


def beside_datatrove(corpus: Corpus, folder: Path, name: str, target: float) -> list[Measurement]:
    """Documents per CPU second, and 10^6 bytes of text."""
    seconds, documents = ours(Source(name="benchmark", path=str(folder), fields={"id": "id"}))
    if documents != len(corpus.texts):
        raise RuntimeError(f"{name}: {documents} of {len(corpus.texts)} documents were read")
    if not DATATROVE.ready:
        print(f"{name}: {DATATROVE.name} is left out: make it with python -m benchmarks.peers", file=sys.stderr)
        return []
    command = [str(DATATROVE.python), str(HERE / "datatrove_readers_script.py"), str(folder), name]
    told = json.loads(timed(command, folder)[1].splitlines()[-1])
    if told["documents"] != documents:
        raise RuntimeError(f"{name}: datatrove read {told['documents']} of {documents} documents")
    size = pc.sum(pc.binary_length(corpus.texts)).as_py()
    what = f"{name}, texts of {size / documents:,.0f} bytes"
    found = []
    for kind, peer in (("bare", DATATROVE.name), ("table", f"{DATATROVE.name} to tables")):
        theirs = statistics.median(told[kind])
        found += [
            Measurement(what, peer, documents / seconds, documents / theirs, "documents/CPU s", target),
            Measurement(what, peer, size / seconds / 1e6, size / theirs / 1e6, "MB/CPU s", target),
        ]
    return found


def ours(source: Source) -> tuple[float, int]:
    """Median CPU seconds of the task that reads a source's files, and the documents that it found."""
    listing = list_files(source)
    reading = Reading(listing.place.url, tuple(listing.files), source, IngestParams())
    documents = 0

    def once() -> None:
        nonlocal documents
        for made in read_files(Inputs(None, (), ()), reading):  # type: ignore[arg-type] # it reads nothing of a store
            if isinstance(made, Stats):
                documents = made.values["documents_out"]

    return median_cpu_seconds(once), documents


def web_archives() -> list[Measurement]:
    """The pages of `../shared/data`, many times over: ours beside a loop over what both are made of."""
    archives = sorted((SHARED / "web").glob("sample-*.warc.gz"))
    if not archives:
        print(f"WARC is left out: there is no folder {SHARED}", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pages.warc.gz"
        path.write_bytes(b"".join(archive.read_bytes() for archive in archives) * WARC_COPIES)
        seconds, documents = ours(Source(name="benchmark", path=folder))
        pages = 0

        def bare() -> None:
            nonlocal pages
            pages = bare_pages(path)

        theirs = median_cpu_seconds(bare)
    peer = "fastwarc, resiliparse"
    return [Measurement("warc", peer, documents / seconds, pages / theirs, "pages/CPU s", WARC_TARGET)]


def bare_pages(path: Path) -> int:
    """Pages of an archive whose main text is not empty: the loop of the libraries' documentation."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    pages = 0
    with path.open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response, parse_http=True):
            if record.http_content_type in ("text/html", "application/xhtml+xml"):
                body = record.reader.read()
                text = extract_plain_text(bytes_to_str(body, detect_encoding(body)), main_content=True)
                pages += bool(text.strip())
    return pages


def median_cpu_seconds(work: Callable[[], object]) -> float:
    """Of three calls, after one that is not timed."""
    work()
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)
