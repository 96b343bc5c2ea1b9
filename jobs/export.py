"""`corpusmill export`: a copy of token shards for readers that know no `.bin/.idx`. What is written stands in
`pipelines/tokens/export.py`."""

import json
from collections.abc import Sequence
from pathlib import Path

from pipelines.costs.ledger import LedgerError, Pointer
from pipelines.dataset import Dataset, Version
from pipelines.store import Store
from pipelines.tokens.export import Format, export_tokens
from resources.settings import Profile


def export(
    wanted: str, found: Sequence[Pointer], folder: Path, profile: Profile, *, kind: Format, as_json: bool
) -> int:
    """Write the token shards that were found for what was wanted; returns the exit code.

    Raises `LedgerError` for a dataset without token shards, for several versions of one, and for a folder that holds
    these files already.
    """
    store = Store(profile.store_url)
    versions = tuple(Version.load(store, pointer.version) for pointer in found)
    if any("tokens" not in version.parts for version in versions):
        raise LedgerError(f"{wanted} holds no token shards; token_shards does")
    if len({version.partition for version in versions}) < len(versions):
        raise LedgerError(f"{wanted} can be several versions of the same source; give more digits of one")
    try:
        made = export_tokens(Dataset(versions[0].asset, versions, store), folder, kind)
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
