"""Datasets: immutable versions with named parts, and the one writer of Parquet.

A stage returns a `Draft` (parts without an id); `seal` gives it the id that its content, parameters and inputs
determine. A `Dataset` is a handle on one or several partitions of one asset. Bytes live in `pipelines/store.py`.
"""

import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import schemas
from pipelines.store import Store, StoreError, digest

PartKind = Literal["table", "tokens", "files"]

ROW_GROUP_ROWS = 16_384
NO_DICTIONARY = frozenset({"doc_id", "uri", "text", "metadata"})
"""Columns whose values hardly repeat: to look for repeats takes a fifth of the time of writing."""
SCHEMAS: dict[str, pa.Schema] = {
    "documents": schemas.DOCUMENTS,
    "rejects": schemas.REJECTS,
    "decisions": schemas.DECISIONS,
    "quality": schemas.QUALITY,
    "audit": schemas.AUDIT,
    "clusters": schemas.CLUSTERS,
    "toxicity": schemas.TOXICITY,
    "toxicity_screen": schemas.TOXICITY_SCREEN,
    "toxicity_labels": schemas.TOXICITY_LABELS,
    "toxicity_sentences": schemas.TOXICITY_SENTENCES,
    "perplexity": schemas.PERPLEXITY,
    "buckets": schemas.BUCKET,
    "contamination": schemas.CONTAMINATION,
    "contamination_hits": schemas.CONTAMINATION_HITS,
    "mixture": schemas.MIXTURE,
    "token_documents": schemas.TOKEN_DOCUMENTS,
}
"""Schema of every table part, by part name: a part means the same in every dataset."""


class MixedVersions(ValueError):
    """Inputs of several sources rest on different versions of the same global asset."""


def dataset_name(asset: str, partition: str) -> str:
    """A dataset as people write it: 'asset', or 'asset[source]'."""
    return f"{asset}[{partition}]" if partition else asset


@dataclass(frozen=True)
class Shard:
    """One object of a part. `rows`: rows of a table, documents of a token shard, 0 for other files."""

    object: str
    bytes: int
    rows: int = 0
    name: str = ""


@dataclass(frozen=True)
class Part:
    """Shards of one kind, in order."""

    kind: PartKind
    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.rows for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Stored bytes of all shards."""
        return sum(shard.bytes for shard in self.shards)


Parts = dict[str, Part]


@dataclass(frozen=True)
class Draft:
    """What a stage made, before it has an id. `stats`: counts and figures for people, JSON values only."""

    parts: Parts
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Version:
    """One immutable state of one partition of an asset.

    inputs: (asset, partition, version id) of everything it was made from. rests_on: the one version of the nearest
    global asset on each path below it. actions: keys of the cached tasks whose results it names.
    """

    id: str
    asset: str
    partition: str
    parts: Parts
    params: dict[str, Any]
    code_version: str
    inputs: tuple[tuple[str, str, str], ...] = ()
    rests_on: dict[str, str] = field(default_factory=dict)
    actions: tuple[str, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The dataset that it is a version of."""
        return dataset_name(self.asset, self.partition)

    def record(self) -> dict[str, Any]:
        """The version as JSON values."""
        return {
            "id": self.id,
            "asset": self.asset,
            "partition": self.partition,
            "parts": parts_record(self.parts),
            "params": self.params,
            "code_version": self.code_version,
            "inputs": [list(pin) for pin in self.inputs],
            "rests_on": self.rests_on,
            "actions": list(self.actions),
            "stats": self.stats,
        }

    @classmethod
    def load(cls, store: Store, version_id: str) -> "Version":
        """Read a version back. Raises `StoreError` when the store has none of that id."""
        record = store.version(version_id)
        return cls(
            **{
                **record,
                "parts": parts_from(record["parts"]),
                "inputs": tuple((a, p, v) for a, p, v in record["inputs"]),
                "actions": tuple(record["actions"]),
            }
        )

    @classmethod
    def find(cls, store: Store, version_id: str) -> "Version | None":
        """The same, None where the store has none: for who can do without."""
        try:
            return cls.load(store, version_id)
        except StoreError:
            return None


@dataclass(frozen=True)
class Dataset:
    """One or several partitions of one asset, in the profile's order; the partition of a global asset is ''."""

    asset: str
    versions: tuple[Version, ...]
    store: Store = field(repr=False, compare=False)

    @property
    def partitions(self) -> list[str]:
        """Names of the partitions."""
        return [version.partition for version in self.versions]

    @property
    def version(self) -> Version:
        """The version of a dataset with one partition. Raises `ValueError` when there are several."""
        if len(self.versions) != 1:
            raise ValueError(f"{self.asset} stands here with {len(self.versions)} partitions; name one")
        return self.versions[0]

    def of(self, *partitions: str) -> "Dataset":
        """The same asset, these partitions only. Raises `KeyError` with the name that is missing."""
        by_name = {version.partition: version for version in self.versions}
        missing = [name for name in partitions if name not in by_name]
        if missing:
            raise KeyError(f"{self.asset} has no partition {missing[0]!r}; it has {', '.join(by_name)}")
        return Dataset(self.asset, tuple(by_name[name] for name in partitions), self.store)

    def shards(self, part: str) -> list[Shard]:
        """Shards of a part over all partitions, in order; none where a partition lacks the part."""
        return [shard for v in self.versions if part in v.parts for shard in v.parts[part].shards]

    def rows(self, part: str) -> int:
        """Rows of a part over all partitions."""
        return sum(shard.rows for shard in self.shards(part))

    def tables(self, part: str) -> Iterator[pa.Table]:
        """The tables of a part, one shard at a time."""
        return (read_table(self.store, shard.object) for shard in self.shards(part))

    def table(self, part: str) -> pa.Table:
        """The whole part as one table; empty, with the part's schema, where there are no shards."""
        tables = list(self.tables(part))
        return pa.concat_tables(tables) if tables else SCHEMAS[part].empty_table()

    def folder(self, part: str, target: Path) -> Path:
        """Lay a part's named files out in a folder (hard links where possible); returns the folder."""
        target.mkdir(parents=True, exist_ok=True)
        for shard in self.shards(part):
            place_file(self.store, shard.object, target / shard.name)
        return target


def place_file(store: Store, object_hash: str, target: Path) -> None:
    """Put an object's bytes under a file name: a hard link where the file system allows one, else a copy."""
    source = store.path(object_hash)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def write_shard(store: Store, part: str, table: pa.Table) -> Shard:
    """Write one table as one Parquet object. The only writer of Parquet: bytes depend on chunks and row groups.

    table: columns of the part's schema, in any order. Raises `ValueError` naming the column that does not fit.
    """
    schema = SCHEMAS[part]
    if missing := [name for name in schema.names if name not in table.column_names]:
        raise ValueError(f"a table of part {part!r} lacks the column {missing[0]!r}")
    try:
        table = table.select(schema.names).cast(schema).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise ValueError(f"a table of part {part!r} does not fit its schema: {error}") from error
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name not in NO_DICTIONARY],
        write_page_checksum=True,
    )
    data = memoryview(sink.getvalue())
    return Shard(store.put(data), len(data), rows=table.num_rows)


def read_table(store: Store, object_hash: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one Parquet object. Raises `StoreError` when it is gone or damaged."""
    try:
        source = pa.memory_map(str(store.path(object_hash))) if store.local else pa.BufferReader(store.get(object_hash))
        # A thread of an engine decodes by itself: so its time is its task's.
        alone = threading.current_thread() is not threading.main_thread()
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            return file.read(columns=columns, use_threads=not alone)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(
            f"object {object_hash[:16]}… is damaged ({error}); delete it and run the stage again"
        ) from error


def parts_record(parts: Mapping[str, Part]) -> dict[str, Any]:
    """Parts as JSON values."""
    return {
        name: {"kind": part.kind, "shards": [vars(shard) | {} for shard in part.shards]} for name, part in parts.items()
    }


def parts_from(record: Mapping[str, Any]) -> Parts:
    """The inverse of `parts_record`."""
    return {
        name: Part(part["kind"], tuple(Shard(**shard) for shard in part["shards"])) for name, part in record.items()
    }


def join_parts(pieces: Sequence[Parts]) -> Parts:
    """The shards of several tasks as one dataset's parts, in the order of the tasks."""
    joined: dict[str, list[Shard]] = {}
    kinds: dict[str, PartKind] = {}
    for piece in pieces:
        for name, part in piece.items():
            joined.setdefault(name, []).extend(part.shards)
            kinds[name] = part.kind
    return {name: Part(kinds[name], tuple(shards)) for name, shards in joined.items()}


def rests_on(consumer: str, inputs: Sequence[Dataset]) -> dict[str, str]:
    """The one version of each nearest global asset that the inputs rest on.

    Raises `MixedVersions` when inputs rest on different versions of the same global asset, or were made from different
    versions of the same source's dataset, or when the sources of one input were made with different parameters: a
    document could vanish, or survive twice.
    """
    nearest: dict[str, str] = {}
    seen: dict[str, dict[str, list[str]]] = {}

    def note(what: str, which: str, user: Version) -> None:
        seen.setdefault(what, {}).setdefault(which, []).append(user.name)

    for data in inputs:
        for version in data.versions:
            below = version.rests_on if version.partition else {data.asset: version.id}
            nearest |= below
            for asset, version_id in below.items():
                note(asset, version_id, version)
            for asset, partition, version_id in version.inputs:
                if partition:
                    note(dataset_name(asset, partition), version_id, version)
            if version.partition:
                note(version.name, version.id, version)
                note(f"the parameters of {data.asset}", _parameters(version), version)
    for asset, by_version in seen.items():
        if len(by_version) > 1:
            told = "; ".join(f"{', '.join(sorted(set(users)))} on {v}" for v, users in sorted(by_version.items()))
            raise MixedVersions(
                f"{consumer}: its inputs rest on different versions of {asset} ({told}). "
                "Run the full range of sources: what is unchanged is reused and costs nothing."
            )
    return dict(sorted(nearest.items()))


def _parameters(version: Version) -> str:
    """Parameters and code of a version, without what is the source's own."""
    params = {key: value for key, value in version.params.items() if key != "source"}
    return digest([params, version.code_version])[:12]


def seal(
    store: Store,
    draft: Draft,
    *,
    asset: str,
    partition: str = "",
    params: Mapping[str, Any] | None = None,
    code_version: str = "1",
    inputs: Sequence[Dataset] = (),
    actions: Sequence[str] = (),
    volatile_parts: Sequence[str] = (),
) -> Version:
    """Give a draft its id and record the version.

    The id hashes asset, partition, schemas, parameters, code version, input versions and object hashes, so the same
    inputs give the same id on any machine. volatile_parts: parts whose bytes cannot be reproduced (model weights);
    their hashes stay out of the id.
    """
    pins = tuple((data.asset, version.partition, version.id) for data in inputs for version in data.versions)
    identity = {
        "asset": asset,
        "partition": partition,
        "params": dict(params or {}),
        "code_version": code_version,
        "inputs": sorted(pins),
        "parts": {
            name: [
                part.kind,
                [f"{f.name}:{f.type}" for f in SCHEMAS[name]] if part.kind == "table" else [],
                [] if name in volatile_parts else [[shard.object, shard.name] for shard in part.shards],
            ]
            for name, part in draft.parts.items()
        },
    }
    version = Version(
        id=digest(identity)[:20],
        asset=asset,
        partition=partition,
        parts=draft.parts,
        params=dict(params or {}),
        code_version=code_version,
        inputs=pins,
        rests_on=rests_on(dataset_name(asset, partition), [data for data in inputs if data.asset != asset]),
        actions=tuple(actions),
        stats=draft.stats,
    )
    store.put_version(version.record())
    return Version.load(store, version.id)
