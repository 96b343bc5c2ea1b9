"""datatrove's readers with their defaults, one process: how long reading a folder takes.

Run by datatrove's Python: `python datatrove_readers_script.py FOLDER READER`; READER is jsonl or parquet. Prints JSON:
documents, bytes of their texts, and CPU seconds of each of three passes, after one that is not timed.
"""

import json
import sys
import time

from datatrove.pipeline.readers import JsonlReader, ParquetReader
from loguru import logger

READERS = {"jsonl": JsonlReader, "parquet": ParquetReader}
PASSES = 3


def main(folder: str, name: str) -> None:
    """Read everything, and hold on to nothing."""
    logger.remove()
    seconds = []
    documents = size = 0
    for _ in range(PASSES + 1):
        documents = size = 0
        start = time.process_time()
        for document in READERS[name](folder).run():
            documents += 1
            size += len(document.text)
        seconds.append(time.process_time() - start)
    print(json.dumps({"documents": documents, "characters": size, "seconds": seconds[1:]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
