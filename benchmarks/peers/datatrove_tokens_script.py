"""datatrove's tokenizer stage with its defaults, as many tasks as there are files, one worker.

Run by datatrove's Python: `python datatrove_tokens_script.py FOLDER TOKENIZER EOS`; FOLDER holds Parquet with
the columns id and text, TOKENIZER is a tokenizer.json. Prints JSON: CPU seconds, workers included, after imports, and
the tokens written.
"""

import json
import resource
import sys
import tempfile
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.tokens import DocumentTokenizer
from loguru import logger


def main(folder: str, tokenizer: str, eos: str) -> None:
    """Read, encode, write `.ds` files; without shuffling, which ours leaves to the blend."""
    logger.remove()
    with tempfile.TemporaryDirectory() as target:
        before = used()
        stage = DocumentTokenizer(
            f"{target}/tokens", tokenizer_name_or_path=tokenizer, eos_token=eos, shuffle_documents=False
        )
        tasks = len(list(Path(folder).glob("*.parquet")))
        LocalPipelineExecutor(
            [ParquetReader(folder), stage], tasks=tasks, workers=1, logging_dir=f"{target}/logs"
        ).run()
        seconds = used() - before
        files = Path(f"{target}/tokens").rglob("*.ds")
        width = 2 if len(json.loads(Path(tokenizer).read_text(encoding="utf-8"))["model"]["vocab"]) < 65536 else 4
        tokens = sum(file.stat().st_size for file in files) // width
    print(json.dumps({"seconds": seconds, "tokens": tokens}))


def used() -> float:
    """CPU seconds of this process and its ended children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


if __name__ == "__main__":
    main(*sys.argv[1:])
