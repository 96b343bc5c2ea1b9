"""Our whole deduplication stage, as the peers' scripts are run: a process of its own, with two workers.

`python -m benchmarks.peers.corpusmill_script STORE VERSION`: the store holds documents as version VERSION, and gets
clusters, decisions and the documents that stay. Prints the version of these as JSON, and the seconds that finding and
dropping took; compiled code is loaded before that, which takes about a second of each process.
"""

import json
import sys
import time

import pyarrow as pa

from pipelines.dataset import Dataset, Version, seal
from pipelines.dedup.clusters import find_duplicates
from pipelines.dedup.params import DedupParams
from pipelines.dedup.signatures import document_signatures
from pipelines.dedup.unique import drop_duplicates
from pipelines.engines.local import Engine
from pipelines.store import Store


def main(folder: str, version: str) -> None:
    """Signatures, clusters and removal with the parameters that a profile has when it says nothing."""
    text = pa.array(["a few words to load the compiled code"], pa.large_string())
    document_signatures(pa.table({"doc_id": text, "text": text}), DedupParams())
    start = time.perf_counter()
    store = Store(folder)
    clean = Dataset("clean_documents", (Version.load(store, version),), store)
    engine = Engine(store, workers=2)
    draft = find_duplicates(clean, DedupParams(), engine)
    clusters = Dataset("duplicate_clusters", (seal(store, draft, asset="duplicate_clusters", inputs=[clean]),), store)
    found = time.perf_counter()
    draft = drop_duplicates(clean, clusters, engine)
    partition = clean.version.partition
    unique = seal(store, draft, asset="unique_documents", partition=partition, inputs=[clean, clusters])
    end = time.perf_counter()
    print(json.dumps({"version": unique.id, "find": found - start, "drop": end - found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
