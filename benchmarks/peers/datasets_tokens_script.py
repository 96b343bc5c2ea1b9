"""`datasets.map` with `tokenizers`, in batches of its default size: how texts are most often tokenized.

Run by datasets' Python: `python datasets_tokens_script.py FOLDER TOKENIZER EOS`; FOLDER holds Parquet with the
column text, TOKENIZER is a tokenizer.json. Prints JSON: CPU seconds after imports, and the tokens.
"""

import json
import sys
import tempfile
import time

import datasets
from tokenizers import Tokenizer


def main(folder: str, tokenizer: str, eos: str) -> None:
    """Read, encode, write Arrow files."""
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as target:
        start = time.process_time()
        loaded = Tokenizer.from_file(tokenizer)
        end = loaded.token_to_id(eos)

        def encode(batch: dict) -> dict:
            encodings = loaded.encode_batch(batch["text"], add_special_tokens=False)
            return {"input_ids": [[*encoding.ids, end] for encoding in encodings]}

        rows = datasets.load_dataset("parquet", data_dir=folder, split="train", cache_dir=target)
        made = rows.map(encode, batched=True, remove_columns=rows.column_names)
        seconds = time.process_time() - start
        tokens = sum(len(ids) for ids in made["input_ids"])
    print(json.dumps({"seconds": seconds, "tokens": tokens}))


if __name__ == "__main__":
    main(*sys.argv[1:])
