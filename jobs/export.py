"""`corpusmill export`: a copy of token shards for readers that know no `.bin/.idx`, or of a blend with all its files
for training elsewhere. What is written stands in `pipelines/tokens/export.py`."""

import json
from collections.abc import Sequence
from pathlib import Path

from pipelines.costs.ledger import LedgerError, Pointer
from pipelines.dataset import Dataset, Version
from pipelines.store import Store
from pipelines.tokens.export import Format, export_blend, export_tokens
from resources.settings import Profile


def export(
    wanted: str, found: Sequence[Pointer], folder: Path, profile: Profile, *, kind: Format | None, as_json: bool
) -> int:
    """Write the token shards, or the blend, that were found for what was wanted; returns the exit code.

    Raises `LedgerError` for a dataset without token shards, for several versions of one, for sources that were encoded
    with different tokenizers, and for a folder that holds these files already.
    """
    store = Store(profile.store_url)
    versions = tuple(Version.load(store, pointer.version) for pointer in found)
    is_blend = any("blend" in version.parts for version in versions)
    if is_blend and kind:
        raise LedgerError(f"--format is of token shards; {wanted} is copied as it is")
    if not is_blend and any("tokens" not in version.parts for version in versions):
        raise LedgerError(f"{wanted} holds no token shards; token_shards and training_blend do")
    if len({version.partition for version in versions}) < len(versions):
        raise LedgerError(f"{wanted} can be several versions of the same source; give more digits of one")
    sources = profile.source_names
    if len(versions) > 1:  # of a source that is not in the profile any more there may be an old one
        versions = tuple(version for version in versions if version.partition in sources)
    if not versions:
        raise LedgerError(f"{wanted} was made of no source of this profile; its sources are {', '.join(sources)}")
    if len({version.stats["tokenizer"] for version in versions}) > 1:
        raise LedgerError(
            f"the sources of {wanted} were encoded with different tokenizers: run token_shards for all sources, or "
            f"export one, such as {versions[0].name}"
        )
    dataset = Dataset(versions[0].asset, versions, store)
    try:
        if is_blend:
            made = export_blend(dataset, _token_shards(dataset.version, store), folder)
        else:
            made = export_tokens(dataset, folder, kind or "parquet")
    except OSError as error:
        raise LedgerError(f"{wanted} cannot be exported to {folder}: {error}") from None
    if as_json:
        counts = {"documents": made.documents, "pieces": made.pieces, "tokens": made.tokens}
        print(json.dumps({"files": [str(file) for file in made.files], **counts}, indent=1))
    else:
        split = f" in {made.pieces:,} pieces" if made.pieces > made.documents else ""
        told = f"{made.tokens:,} tokens of {made.documents:,} documents{split} to {len(made.files):,} files"
        print(f"Wrote {told} in {folder}.")
    return 0


def _token_shards(blend: Version, store: Store) -> Dataset:
    """The token shards that a blend was made from."""
    names = [version for asset, _, version in blend.inputs if asset == "token_shards"]
    return Dataset("token_shards", tuple(Version.load(store, name) for name in names), store)
