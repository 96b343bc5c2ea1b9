"""What training reads: samples of fixed length from a blend, each a pure function of its index.

No torch here, but `BlendDataset` is what `torch.utils.data.DataLoader` calls a map-style dataset. The order of groups
is `schedule.py`'s, what a sample of a group is `stream.py`'s, the files are laid out by `blend.py`. Whoever changes
what stands at an index raises the training stage's `VERSION`: a training of the same blend is another one then.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pipelines.tokens.indexed import TokenFileError
from pipelines.tokens.layout import BLEND_FORMAT, Run, order_size, packed_size
from pipelines.tokens.mapped import ShardFiles, ShardPaths
from pipelines.tokens.schedule import GroupSchedule
from pipelines.tokens.stream import Concatenation, Packing, Stream, read_spans

Split = Literal["train", "validation"]
Attention = Literal["sample", "document"]

IGNORED = -100
"""Label of a position whose loss does not count: what torch's cross-entropy leaves out unless told otherwise."""


@dataclass(frozen=True)
class Sample:
    """One sample. ids: int64 [length + 1], inputs all but the last, targets all but the first. starts: where documents
    begin in it, int64, the first is 0. filled: tokens before padding. apart: documents do not see one another.
    crossing: the loss counts where the target belongs to the next document."""

    ids: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    filled: int
    apart: bool
    crossing: bool

    @property
    def inputs(self) -> npt.NDArray[np.int64]:
        """Tokens that the model reads, [length]."""
        return self.ids[:-1]

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """Tokens that it is to predict, [length]; `IGNORED` where the loss does not count."""
        labels = self.ids[1:].copy()
        labels[max(0, self.filled - 1) :] = IGNORED
        if not self.crossing:
            labels[self.starts[1:] - 1] = IGNORED
        return labels

    @property
    def position_ids(self) -> npt.NDArray[np.int64]:
        """Position of each input in its sample, or in its document where documents are apart, [length]."""
        places = np.arange(len(self.ids) - 1)
        if not self.apart:
            return places
        edges = self.cu_seqlens
        return places - np.repeat(edges[:-1], np.diff(edges))

    @property
    def cu_seqlens(self) -> npt.NDArray[np.int32]:
        """Boundaries of the documents among the inputs, for varlen attention: 0 … length. Padding is one of its own."""
        length = len(self.ids) - 1
        edges = [*self.starts[self.starts < length].tolist(), length]
        if self.filled < length:
            edges.insert(-1, self.filled)
        return np.array(edges, np.int32)


def document_boundaries(position_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Boundaries of the documents of a batch, for varlen attention over its samples one after the other (cu_seqlens).

    position_ids: of samples whose documents are apart, [samples, length]. Gives 0 … samples · length.
    """
    flat = position_ids.ravel()
    return np.append(np.flatnonzero(flat == 0), len(flat)).astype(np.int32)


class BlendDataset:
    """The training or validation samples of a blend.

    A sample is `sequence_length` tokens and the one after them, of one group. Groups alternate so that at any point
    each has given its share to within one sample, rare ones to within three (`schedule.py`). There is no state: a
    sample is found by its index alone, so training resumes anywhere, on any number of ranks. Validation samples run
    once over all held-out documents.

    samples: samples of each group ('validation' in that split). cut_tokens: planned tokens of each group that are no
    input of any sample. Memory: the mapped files' pages, some bytes per shard, and the schedule's stretch.
    """

    def __init__(
        self,
        folder: Path,
        split: Split,
        sequence_length: int,
        seed: int | None = None,
        attention: Attention = "sample",
    ) -> None:
        """folder: `blend.json` and the files that it names. seed: of the order of samples; None: the blend's own.
        attention: 'document' where documents of a sample must not see one another: their positions start at 0, and no
        token is to be predicted from another document's.

        Raises `ValueError` for a bad argument and `TokenFileError` for a folder that does not hold what the blend says.
        """
        if sequence_length < 1:
            raise ValueError(f"sequence_length is {sequence_length}; a sample has at least 1 token")
        if split not in ("train", "validation"):
            raise ValueError(f"split is {split!r}; it is 'train' or 'validation'")
        if attention not in ("sample", "document"):
            raise ValueError(f"attention is {attention!r}; it is 'sample' or 'document'")
        content = _read_blend(folder)
        self.packing: str = content["packing"]
        if self.packing == "best_fit" and content["sequence_length"] != sequence_length:
            raise ValueError(
                f"the blend is packed for sequences of {content['sequence_length']} tokens (blend.sequence_length) and "
                f"read for {sequence_length} (training.sequence_length): make them equal"
            )
        self.split = split
        self.sequence_length = sequence_length
        self.attention = attention
        self.seed: int = content["seed"] if seed is None else seed
        self.vocabulary_size: int = content["vocabulary_size"]
        self.eos_id: int | None = content["eos_id"]
        self._padding: int = next((i for i in (content["pad_id"], self.eos_id) if i is not None), 0)
        self._files = _files(folder, content)
        self._streams = _streams(content, split, self.seed, sequence_length, self._files)
        self._schedule = GroupSchedule([stream.samples for stream in self._streams])
        self.samples = {stream.name: stream.samples for stream in self._streams}
        self.cut_tokens = {stream.name: stream.planned - stream.tokens for stream in self._streams}

    def __len__(self) -> int:
        """Samples; 0 where the tokens do not fill one."""
        return len(self._schedule)

    def __getitem__(self, index: int) -> dict[str, npt.NDArray[np.int64]]:
        """A sample as a data loader collates it: input_ids, labels and position_ids, each int64 [sequence_length].

        Raises `IndexError` outside the dataset.
        """
        sample = self.read(index)
        return {"input_ids": sample.inputs, "labels": sample.labels, "position_ids": sample.position_ids}

    def __iter__(self) -> Iterator[dict[str, npt.NDArray[np.int64]]]:
        """All samples, in order."""
        return (self[index] for index in range(len(self)))

    def group(self, index: int) -> str:
        """Name of the group that a sample comes from ('validation' in the validation split)."""
        return self._streams[self._schedule.locate(index)[0]].name

    def read(self, index: int) -> Sample:
        """A sample with its documents. Raises `IndexError` outside the dataset."""
        stream, ordinal = self._schedule.locate(index)
        spans = self._streams[stream].spans(ordinal)
        ids = np.full(self.sequence_length + 1, self._padding, np.int64)
        read_spans(spans, self._files, ids)
        lengths = spans.lengths
        ends = lengths.cumsum()
        return Sample(ids, ends - lengths, int(ends[-1]), self.attention == "document", self.all_count)

    def sample(self, index: int) -> npt.NDArray[np.int64]:
        """Token ids of a sample, int64 [sequence_length + 1]. Raises `IndexError` outside the dataset."""
        return self.read(index).ids

    def predictions(self, indices: Sequence[int]) -> int:
        """How many labels of these samples count; no token is read for it, nor any sample found where all count."""
        if self.all_count:
            return len(indices) * self.sequence_length
        total = 0
        for index in indices:
            stream, ordinal = self._schedule.locate(index)
            lengths = self._streams[stream].spans(ordinal).lengths
            total += int(lengths.sum()) - len(lengths)
        return total

    @property
    def padding_share(self) -> float:
        """Share of padding in all samples, 0 where documents are concatenated. Maps packed files, if there are any."""
        room = len(self) * (self.sequence_length + 1)
        return sum(stream.padding for stream in self._streams) / room if room else 0.0

    @property
    def all_count(self) -> bool:
        """Whether every label of every sample counts."""
        return self.packing == "concatenate" and self.attention == "sample"


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


def _files(folder: Path, content: dict[str, Any]) -> ShardFiles:
    """The files that the blend names, of the sizes that follow from what it says about them."""
    kind = np.dtype(content["dtype"]).newbyteorder("<")
    shards = []
    for shard in content["shards"]:
        packed = shard.get("packed", {"samples": 0, "pieces": 0})
        paths = ShardPaths(
            folder / shard["bin"],
            folder / shard["order"],
            shard["documents"],
            folder / packed["file"] if "file" in packed else None,
            packed["samples"],
            packed["pieces"],
        )
        _check_size(paths.tokens, shard["tokens"] * kind.itemsize)
        _check_size(paths.order, order_size(paths.documents))
        if paths.packed:
            _check_size(paths.packed, packed_size(paths.samples, paths.pieces))
        shards.append(paths)
    return ShardFiles(shards, kind)


def _check_size(path: Path, told: int) -> None:
    if not path.exists():
        raise TokenFileError(f"{path.parent} lacks {path.name}, which blend.json names: lay out blend and token shards")
    if (size := path.stat().st_size) != told:
        raise TokenFileError(
            f"{path} has {size} bytes where blend.json tells of {told}: it is damaged, or the folder mixes two versions"
        )


def _streams(content: dict[str, Any], split: Split, seed: int, sequence_length: int, files: ShardFiles) -> list[Stream]:
    """The streams that have documents: one per group for training, one in all for validation."""
    if split == "validation":
        held = [(shard["validation"], shard.get("packed", {}).get("validation")) for shard in content["shards"]]
        asked = [("validation", sum(run[2] for run, _ in held), held)]
    else:
        asked = [
            (
                group["name"],
                group["planned_tokens"],
                [
                    (shard["groups"].get(group["name"]), shard.get("packed", {}).get("groups", {}).get(group["name"]))
                    for shard in content["shards"]
                ],
            )
            for group in content["groups"]
        ]
    streams: list[Stream] = []
    for name, planned, found in asked:
        runs = [(shard, Run(*run), packed) for shard, (run, packed) in enumerate(found) if run and run[1]]
        if runs and content["packing"] == "best_fit":
            packs = [(shard, run, *packed) for shard, run, packed in runs]
            streams.append(Packing(name, seed, packs, files, planned, sequence_length))
        elif runs:
            streams.append(
                Concatenation(name, seed, [(shard, run) for shard, run, _ in runs], files, planned, sequence_length)
            )
    return streams
