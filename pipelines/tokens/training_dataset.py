"""What training reads: fixed-length samples from a blend, each a pure function of its index.

No torch here: `pipelines/training` wraps this class. The order of sources is `schedule.py`'s, the order of documents
`stream.py`'s.
"""

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pipelines.tokens.blend import BLEND_FORMAT
from pipelines.tokens.indexed import IndexedTokens, TokenFileError
from pipelines.tokens.schedule import SourceSchedule
from pipelines.tokens.stream import ShardFiles, TokenStream

Split = Literal["train", "validation"]


class BlendDataset:
    """The training or validation samples of a blend.

    A training sample is `sequence_length` tokens and the one after them, of one source; successive samples of a source
    follow each other in its stream and share that one token, so within an epoch every token is an input exactly once.
    Sources alternate so that at any point each has given its share to within one sample. There is no state: training
    resumes at any index. Validation samples run once over all held-out documents, in one shuffled stream.

    samples: samples per stream. cut_tokens: planned tokens per stream that fill no whole sample (1 to
    `sequence_length` of each, the last one being a target only). Memory: 12 bytes per document, up to 24 more for
    epochs in use, and the schedule's states.
    """

    def __init__(self, folder: Path, split: Split, sequence_length: int, seed: int | None = None) -> None:
        """folder: `blend.json` and the token files that it names. seed: of the document order; None: the blend's own.

        Raises `ValueError` for a bad argument and `TokenFileError` for a folder that does not hold what the blend says.
        """
        if sequence_length < 1:
            raise ValueError(f"sequence_length is {sequence_length}; a sample has at least 1 token")
        if split not in ("train", "validation"):
            raise ValueError(f"split is {split!r}; it is 'train' or 'validation'")
        content = _read_blend(folder)
        self.split = split
        self.sequence_length = sequence_length
        self.seed: int = content["seed"] if seed is None else seed
        self.vocabulary_size: int = content["vocabulary_size"]
        self.eos_id: int = content["eos_id"]
        self.streams, planned = _open_streams(folder, content, split, self.seed)
        counts = [max(0, tokens - 1) // sequence_length for tokens in planned]
        self.samples = {stream.name: count for stream, count in zip(self.streams, counts, strict=True)}
        self.cut_tokens = {
            stream.name: tokens - count * sequence_length
            for stream, tokens, count in zip(self.streams, planned, counts, strict=True)
        }
        self._schedule = SourceSchedule(counts)

    def __len__(self) -> int:
        """Samples; 0 where the tokens do not fill one."""
        return len(self._schedule)

    def source(self, index: int) -> str:
        """Name of the source that a sample comes from ('validation' in the validation split)."""
        return self.streams[self._schedule.locate(index)[0]].name

    def sample(self, index: int) -> npt.NDArray[np.int64]:
        """Token ids, int64 [sequence_length + 1]: inputs are all but the last, targets all but the first.

        Raises `IndexError` outside the dataset.
        """
        stream, ordinal = self._schedule.locate(index)
        return self.streams[stream].window(ordinal * self.sequence_length, self.sequence_length + 1)


def _read_blend(folder: Path) -> dict[str, Any]:
    path = folder / "blend.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TokenFileError(f"{folder} holds no blend.json: lay out the blend and the token shards in it") from None
    except ValueError as error:
        raise TokenFileError(f"{path} is damaged ({error}): lay out the blend again") from error
    if content.get("version") != BLEND_FORMAT:
        raise TokenFileError(f"{path} is of version {content.get('version')}; version {BLEND_FORMAT} can be read")
    return content


def _open_streams(
    folder: Path, content: dict[str, Any], split: Split, seed: int
) -> tuple[list[TokenStream], list[int]]:
    """(streams with documents, tokens planned of each): one per source for training, one in all for validation."""
    shards = [shard for source in content["sources"] for shard in source["shards"]]
    files = ShardFiles(
        [folder / shard["bin"] for shard in shards],
        [shard["tokens"] for shard in shards],
        np.dtype(content["dtype"]).newbyteorder("<"),
    )
    starts: dict[str, list[np.ndarray]] = {}
    lengths: dict[str, list[np.ndarray]] = {}
    before = 0
    for source in content["sources"]:
        name = source["name"] if split == "train" else "validation"
        for shard in source["shards"]:
            all_lengths = _lengths(folder, shard)
            held = np.zeros(len(all_lengths), dtype=bool)
            held[shard["validation_documents"]] = True
            chosen = held if split == "validation" else ~held
            ends = np.cumsum(all_lengths, dtype=np.int64)
            starts.setdefault(name, []).append((before + ends - all_lengths)[chosen])
            lengths.setdefault(name, []).append(all_lengths[chosen])
            before += shard["tokens"]
    streams = {
        name: TokenStream(name, seed, np.concatenate(starts[name]), np.concatenate(lengths[name]), files)
        for name in starts
    }
    if split == "validation":
        return list(streams.values()), [stream.tokens for stream in streams.values()]
    planned = {source["name"]: source["planned_tokens"] for source in content["sources"]}
    return list(streams.values()), [planned[name] for name in streams]


def _lengths(folder: Path, shard: dict[str, Any]) -> np.ndarray:
    """Tokens of each document of a shard, checked against what the blend says about it."""
    bin_path, idx_path = folder / shard["bin"], folder / shard["idx"]
    for path in (bin_path, idx_path):
        if not path.exists():
            raise TokenFileError(f"{folder} lacks {path.name}, which blend.json names: lay out the token shards there")
    tokens = IndexedTokens(bin_path, idx_path)
    if len(tokens) != shard["documents"] or len(tokens.tokens) != shard["tokens"]:
        raise TokenFileError(
            f"{bin_path} has {len(tokens)} documents and {len(tokens.tokens)} tokens where blend.json says "
            f"{shard['documents']} and {shard['tokens']}: the folder mixes two versions"
        )
    return tokens.lengths
