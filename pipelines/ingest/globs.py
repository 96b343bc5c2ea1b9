"""Patterns in a source's path, such as `data/**/*.jsonl.gz`: where they begin, and what they match."""

import fnmatch
import re
from pathlib import Path

from fsspec.utils import glob_translate

from pipelines.ingest.records import BadInput


class Glob:
    """A pattern for paths below a root: '*', '?' and '[…]' inside a folder, '**' for any number of folders.

    A folder that matches stands for all files below it. Raises `BadInput` where '**' is only a part of a name.
    """

    def __init__(self, pattern: str) -> None:
        self._parts = pattern.split("/")
        try:
            self._whole = re.compile(glob_translate(pattern))
        except ValueError as error:
            raise BadInput(f"`path` holds the pattern {pattern!r}, which cannot be read: {error}") from None

    def matches(self, path: str) -> bool:
        """Whether a file, or a folder that it is in, matches."""
        names = path.split("/")
        return any(self._whole.match("/".join(names[:count])) for count in range(1, len(names) + 1))

    def enters(self, folder: str) -> bool:
        """Whether anything below a folder can match."""
        for part, name in zip(self._parts, folder.split("/"), strict=False):
            if part == "**":
                return True
            if not fnmatch.fnmatchcase(name, part):
                return False
        return True


def split_glob(path: str) -> tuple[str, Glob | None]:
    """A source's path as the folder that holds everything, and the pattern below it, if there is one.

    A local path that exists is no pattern, whatever its name; in an http URL '?' is none.
    """
    if "://" not in path:
        path = str(Path(path).expanduser())
        if Path(path).exists():
            return path, None
    found = re.search(r"[*\[]" if path.startswith("http") else r"[*?\[]", path)
    if not found:
        return path, None
    root, _, pattern = path[: found.start()].rpartition("/")
    return root or ("/" if path.startswith("/") else "."), Glob(pattern + path[found.start() :])
