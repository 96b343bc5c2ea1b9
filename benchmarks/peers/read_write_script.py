"""What the machine can do: the same Parquet read and written, two files at a time, in a process of its own.

`python read_write_script.py INPUT OUTPUT`; written as our store writes. Prints the seconds after imports, as JSON.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq

WORKERS = 2
ROW_GROUP_ROWS = 16_384


def main(source: str, target: str) -> None:
    """Every file of one folder into the other."""

    def copy(path: Path) -> None:
        table = pq.read_table(path, page_checksum_verification=True)
        pq.write_table(
            table,
            f"{target}/{path.name}",
            row_group_size=ROW_GROUP_ROWS,
            compression="zstd",
            compression_level=1,
            write_page_checksum=True,
        )

    start = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(copy, sorted(Path(source).glob("*.parquet"))))
    print(json.dumps({"copy": time.perf_counter() - start}))


if __name__ == "__main__":
    main(*sys.argv[1:])
