"""datatrove's readers with their defaults, one process: how long reading a folder takes.

Run by datatrove's Python: `python datatrove_readers_script.py FOLDER READER`; READER is jsonl or parquet. Prints JSON:
documents, characters of their texts, and CPU seconds of each of three passes, after one that is not timed; `bare`: with
nothing done to the documents, `table`: with ids, texts and metadata as JSON in Arrow tables, as ingestion has them.
"""

import json
import sys
import time
from collections.abc import Iterable

import pyarrow as pa
from datatrove.data import Document
from datatrove.pipeline.readers import JsonlReader, ParquetReader
from loguru import logger

READERS = {"jsonl": JsonlReader, "parquet": ParquetReader}
PASSES = 3
SHARD_CHARACTERS = 32_000_000


def main(folder: str, name: str) -> None:
    """Read everything, and hold on to nothing."""
    logger.remove()
    told: dict[str, object] = {}
    for kind, read in (("bare", bare), ("table", table)):
        seconds = []
        for _ in range(PASSES + 1):
            start = time.process_time()
            told["documents"], told["characters"] = read(READERS[name](folder).run())
            seconds.append(time.process_time() - start)
        told[kind] = seconds[1:]
    print(json.dumps(told))


def bare(documents: Iterable[Document]) -> tuple[int, int]:
    """How many documents there are, and their characters."""
    count = size = 0
    for document in documents:
        count += 1
        size += len(document.text)
    return count, size


def table(documents: Iterable[Document]) -> tuple[int, int]:
    """The same, with a table for every so many characters."""
    count = size = held = 0
    ids: list[str] = []
    texts: list[str] = []
    metadata: list[str] = []
    for document in documents:
        count += 1
        size += len(document.text)
        ids.append(document.id)
        texts.append(document.text)
        metadata.append(json.dumps(document.metadata))
        if size - held >= SHARD_CHARACTERS:
            pa.table({"id": ids, "text": texts, "metadata": metadata})
            ids, texts, metadata, held = [], [], [], size
    pa.table({"id": ids, "text": texts, "metadata": metadata})
    return count, size


if __name__ == "__main__":
    main(*sys.argv[1:])
