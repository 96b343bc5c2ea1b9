"""datatrove's quality filters with their defaults, one process: what each decides, and how long it takes.

Run by datatrove's Python: `python datatrove_filters_script.py INPUT FILTER`; INPUT is a Parquet file with the column
text, FILTER a key of `FILTERS`. Prints JSON: CPU seconds and bytes of each third of the documents, and the reason why a
document is dropped, null where it is kept. Loading and the very first document are not timed.
"""

import json
import sys
import time

import pyarrow.parquet as pq
from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)

FILTERS = {
    "gopher_quality": GopherQualityFilter,
    "gopher_repetition": GopherRepetitionFilter,
    "c4": C4QualityFilter,
    "fineweb": FineWebQualityFilter,
}
PARTS = 3


def main(source: str, name: str) -> None:
    """Ask the filter about every document."""
    texts = pq.read_table(source, columns=["text"])["text"].to_pylist()
    asked = FILTERS[name]()
    asked.filter(Document(text="The first of all, which is not timed. " * 20, id="first"))
    reasons: list[str | None] = []
    parts = []
    for part in range(PARTS):
        documents = [
            Document(text=text, id="") for text in texts[len(texts) * part // PARTS : len(texts) * (part + 1) // PARTS]
        ]
        size = sum(len(document.text.encode()) for document in documents)
        start = time.process_time()
        reasons += [_reason(asked, document) for document in documents]
        parts.append({"seconds": time.process_time() - start, "bytes": size})
    print(json.dumps({"parts": parts, "reasons": reasons}))


def _reason(asked: object, document: Document) -> str | None:
    try:
        kept = asked.filter(document)
    except ZeroDivisionError:  # a text without words
        return "division by zero"
    return None if kept is True else kept[1]


if __name__ == "__main__":
    main(*sys.argv[1:])
