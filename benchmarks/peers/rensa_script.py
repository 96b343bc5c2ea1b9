"""A rensa pipeline at threshold 0.75: shingles of 5 and sketches in two processes or one, then rensa's own
deduplicator, which looks candidates up in LSH bands and compares sketches before it calls a document a duplicate.

Run by rensa's Python: `python rensa_script.py INPUT OUTPUT LANGUAGE [PROCESSES]`; both folders hold Parquet with the
columns doc_id and text. Prints the seconds after imports. Chinese and Japanese are cut into shingles of 5 characters:
words would be whole clauses.
"""

import multiprocessing
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rensa import RMinHash, RMinHashDeduplicator

PERMUTATIONS = 128
SEED = 42
SHINGLE = 5
THRESHOLD = 0.75
WORD = re.compile(r"\w+")


def main(source: str, target: str, language: str, processes: str = "2") -> None:
    """One pool for the sketches, file by file; the deduplicator sees documents in the order of the files."""
    start = time.perf_counter()
    deduplicator = RMinHashDeduplicator(threshold=THRESHOLD, num_perm=PERMUTATIONS, use_lsh=True, seed=SEED)
    files = sorted(Path(source).glob("*.parquet"))
    with multiprocessing.get_context("fork").Pool(int(processes)) as pool:
        for path, rows in zip(files, pool.imap(partial(sketch, language=language), files), strict=True):
            table = pq.read_table(path)
            keep = deduplicator.add_pairs(zip(table["doc_id"].to_pylist(), rows, strict=True))
            pq.write_table(table.filter(pa.array(keep)), f"{target}/{path.name}", compression="zstd")
    print(time.perf_counter() - start)


def sketch(path: Path, language: str) -> list[RMinHash]:
    """The sketches of one file's documents."""
    texts = pq.read_table(path, columns=["text"])["text"].to_pylist()
    return RMinHash.from_token_sets((shingles(text, language) for text in texts), PERMUTATIONS, SEED)


def shingles(text: str, language: str) -> list[str]:
    """Five consecutive words joined by spaces, or five consecutive characters; a shorter text is one shingle."""
    words = WORD.findall(text.lower())
    if language == "en":
        return list(joined(words, " ")) or [" ".join(words)]
    characters = "".join(words)
    return list(joined(list(characters), "")) or [characters]


def joined(units: list[str], separator: str) -> Iterator[str]:
    """Every run of SHINGLE units."""
    return map(separator.join, zip(*(units[start:] for start in range(SHINGLE)), strict=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
