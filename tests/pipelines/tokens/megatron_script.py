"""Run by a Python that has megatron-core: reads a token shard with its `IndexedDataset`, writes it again with its
`IndexedDatasetBuilder`. `python megatron_script.py PREFIX COPY` prints JSON."""

import itertools
import json
import sys

from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder


def main(prefix: str, copy: str) -> None:
    """PREFIX and COPY: paths without .bin and .idx."""
    read = IndexedDataset(prefix, mmap=True)
    documents = [read[number].tolist() for number in range(len(read))]
    builder = IndexedDatasetBuilder(f"{copy}.bin", dtype=read.index.dtype)
    starts = read.document_indices.tolist()
    for first, after in itertools.pairwise(starts):
        tokens = [token for number in range(first, after) for token in documents[number]]
        builder.add_document(tokens, [len(documents[number]) for number in range(first, after)])
    builder.finalize(f"{copy}.idx")
    told = {
        "documents": documents,
        "lengths": read.sequence_lengths.tolist(),
        "starts": starts,
        "dtype": read.index.dtype.__name__,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
