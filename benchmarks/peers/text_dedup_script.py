"""text-dedup's MinHash command on two processes, at threshold 0.75; bands and rows are those that it derives.

Run by text-dedup's Python: `python text_dedup_script.py INPUT OUTPUT LANGUAGE`; both folders hold Parquet with the
columns doc_id and text. The command writes Arrow files; here they are made Parquet, so that everyone delivers the same.
LANGUAGE is not used: text-dedup has one way to cut words.
"""

import os
import sys
import tempfile


def main(source: str, target: str, language: str) -> None:
    """The command `python -m text_dedup.minhash`, called in this process, and its output as Parquet."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HF_HOME": folder, "HF_HUB_OFFLINE": "1"}  # before datasets is imported
        from datasets import load_from_disk
        from text_dedup.minhash import main as minhash

        options = {
            "path": "parquet",
            "data_files": f"{source}/*.parquet",
            "split": "train",
            "cache_dir": f"{folder}/cache",
            "output": f"{folder}/unique",
            "column": "text",
            "threshold": "0.75",
            "num_proc": "2",
        }
        minhash([part for name, value in options.items() for part in (f"--{name}", value)], standalone_mode=False)
        load_from_disk(f"{folder}/unique").to_parquet(f"{target}/unique.parquet")


if __name__ == "__main__":
    main(*sys.argv[1:])
