"""Folders that Hugging Face `datasets` wrote with `save_to_disk`: which of their files hold the rows.

Beside the Arrow files stand `state.json`, which names them, `dataset_info.json`, and caches that are no part of the
dataset; a folder of several such folders has a `dataset_dict.json`. Layout: `Dataset.save_to_disk` of datasets 2 to 4.
"""

import json
import os
from typing import TYPE_CHECKING

from pipelines.ingest.encodings import valid_unicode

if TYPE_CHECKING:
    from pipelines.ingest.listing import Listing

STATE_BYTES = 10_000_000


def keep_data_files(listing: "Listing") -> None:
    """Leave out what is no data in the saved datasets of a listing, and reject what is named but not there.

    Raises `OSError` where a network fails.
    """
    by_path = {file.path.replace(os.sep, "/"): file for file in listing.files}
    folders = {path.removesuffix("state.json"): path for path in by_path if path.rsplit("/", 1)[-1] == "state.json"}
    if not folders:
        return
    for folder, state in folders.items():
        named = _data_files(listing, by_path[state].path)
        if named is None:
            continue
        inside = {path for path in by_path if path.startswith(folder) and "/" not in path[len(folder) :]}
        for path in sorted(inside):
            name = path[len(folder) :]
            if name in ("state.json", "dataset_info.json"):
                listing.leave_out("dataset_description")
                del by_path[path]
            elif name.endswith(".arrow") and name not in named:
                listing.leave_out("not_in_dataset")
                del by_path[path]
        for name in sorted(named):
            if folder + name not in inside:
                listing.reject(folder + name, "vanished_file", "the state.json beside it names it, but it is not there")
        above = folder.rstrip("/").rpartition("/")[0]
        if by_path.pop(f"{above}/dataset_dict.json".lstrip("/"), None):
            listing.leave_out("dataset_description")
    listing.files = list(by_path.values())


def _data_files(listing: "Listing", state: str) -> set[str] | None:
    """The names of the Arrow files that a `state.json` names; None where it is another file of that name."""
    try:
        with listing.place.open(state) as file:
            told = json.loads(file.read(STATE_BYTES))
        return {valid_unicode(str(entry["filename"]))[0] for entry in told["_data_files"]}
    except (FileNotFoundError, PermissionError, ValueError, KeyError, TypeError, RecursionError):
        return None
