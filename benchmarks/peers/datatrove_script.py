"""datatrove's MinHash deduplication with its defaults: 5 words, 14 buckets of 8 hashes, two workers.

Run by datatrove's Python: `python datatrove_script.py INPUT OUTPUT LANGUAGE`; both folders hold Parquet with the
columns doc_id (out: id) and text. It has no threshold: its buckets catch half of the pairs at a similarity of 0.7.
"""

import sys
import tempfile
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import ParquetWriter

WORKERS = 2
LANGUAGES = {"en": "eng", "zh": "cmn", "ja": "jpn"}


def main(source: str, target: str, language: str) -> None:
    """Signatures, buckets, clusters, filter, one after the other as in datatrove's own example."""
    config = MinhashConfig()
    files = len(list(Path(source).glob("*.parquet")))
    with tempfile.TemporaryDirectory() as folder:

        def run(step: str, tasks: int, *pipeline: object) -> None:
            logs = f"{folder}/logs/{step}"
            LocalPipelineExecutor(list(pipeline), tasks=tasks, workers=min(tasks, WORKERS), logging_dir=logs).run()

        reader = ParquetReader(source, id_key="doc_id", read_metadata=False)
        signature = MinhashDedupSignature(f"{folder}/signatures", config=config, language=LANGUAGES[language])
        run("signatures", files, reader, signature)
        buckets = MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config)
        run("buckets", config.num_buckets, buckets)
        run("clusters", 1, MinhashDedupCluster(f"{folder}/buckets", f"{folder}/removed", config=config))
        writer = ParquetWriter(target, compression="zstd")
        run("filter", files, reader, MinhashDedupFilter(f"{folder}/removed"), writer)


if __name__ == "__main__":
    main(*sys.argv[1:])
