"""The demonstration corpus: text that a Python environment already holds, of packages with a permissive licence.

Which licence that is stands in `licences.py`. What is found differs between machines as their packages differ; on
one machine it is always the same. Packages installed for development (corpusmill itself) are left out: their text
is not in the environment.
"""

import ast
import csv
import email
import json
import re
import sysconfig
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath

from pipelines.ingest.encodings import NotText, decode, is_blank, valid_unicode
from pipelines.ingest.licences import licence_of
from pipelines.ingest.listing import Listing, left_out_by
from pipelines.ingest.params import Source
from pipelines.ingest.records import BadInput, Items, Record, Reject, whole_file

MIN_DOCSTRING_CHARACTERS = 100
"""Shorter docstrings repeat the name of what they document; they are not part of the source."""

_LICENCE_NAME = re.compile(r"(licen[cs]e|copying|copyright|notice|third.?party)", re.IGNORECASE)
_LICENCE_SUFFIXES = frozenset({"", ".txt", ".md", ".rst", ".apache", ".apache2", ".bsd", ".mit", ".psf", ".python"})
_README_SUFFIXES = frozenset({".md", ".rst", ".txt"})
_NO_PROSE = re.compile(r"(requirements|cmakelists|sources|vocab|words).*\.txt", re.IGNORECASE)
_WANTED_NAME = {
    "readmes": re.compile(r"(\.md|\.rst|\.txt|/METADATA)$", re.IGNORECASE),
    "docstrings": re.compile(r"\.py$"),
    "licences": re.compile(r"(licen[cs]e|copying|copyright|notice|third.?party)", re.IGNORECASE),
    "code": re.compile(r"\.py$"),
}
"""A first look at names, before they are taken apart."""
_OTHERS_FOLDERS = frozenset({"_vendor", "vendor", "vendored", "third_party", "thirdparty", "externals", "extern"})
"""Folders of copies of other packages, whose licence the package's own does not tell."""
_TEST_FOLDERS = frozenset({"test", "tests", "testing", "testdata"})


def list_environment(source: Source) -> Listing:
    """The files of the kind `source.what` that permissively licensed packages ship, in order of their uris.

    A package whose licence is not permissive, or unknown, is one rejection that names the licence. Raises `BadInput`
    when the folder does not exist.
    """
    root = Path(source.path).expanduser() if source.path else Path(sysconfig.get_paths()["purelib"])
    if not root.is_dir():
        raise BadInput(
            f"source {source.name!r}: there is no folder {str(root)!r}; correct its `path`, or leave it empty"
        )
    listing = Listing(root)
    left_out = left_out_by(source)
    taken: set[str] = set()
    for package in sorted(metadata.distributions(path=[str(root)]), key=_place):
        if _is_editable(package):
            listing.leave_out("editable_package")
            continue
        name = f"{package.metadata['Name']}-{package.version}"
        licence, words = licence_of(package.metadata)  # type: ignore[arg-type]
        if licence is None:
            reason = "licence_not_permissive" if words else "licence_unknown"
            told = f"{name} says {words!r}" if words else f"{name} names no licence"
            listing.rejects.append((_place(package), Reject(None, reason, told)))
            continue
        files = _recorded(package)
        if files is None:
            listing.rejects.append((_place(package), Reject(None, "no_file_list", f"{name} has no RECORD")))
            continue
        described = json.dumps({"package": package.metadata["Name"], "version": package.version}, sort_keys=True)
        for path in map(PurePosixPath, filter(_WANTED_NAME[source.what].search, files)):
            if str(path) in taken or ".." in path.parts or path.is_absolute() or not _wanted(source, path):
                continue
            taken.add(str(path))
            if reason := left_out(str(path)):
                listing.leave_out(reason)
            else:
                listing.add(str(path), licence, described)
    listing.files.sort(key=lambda file: file.uri)
    return listing


def _recorded(package: metadata.Distribution) -> list[str] | None:
    """Names of the files that a package installed; read from its RECORD as text, which takes a tenth of the time."""
    record = package.read_text("RECORD")
    if record is not None:
        return [row[0] for row in csv.reader(record.splitlines()) if row]
    return None if package.files is None else [str(file) for file in package.files]


def _place(package: metadata.Distribution) -> str:
    """Name of the folder of a package's metadata."""
    return Path(str(package.locate_file("")), str(getattr(package, "_path", ""))).name


def _is_editable(package: metadata.Distribution) -> bool:
    if (package.metadata["Name"] or "").lower() == "corpusmill":
        return True
    try:
        origin = json.loads(package.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    return bool(isinstance(origin, dict) and origin.get("dir_info", {}).get("editable"))


def _wanted(source: Source, path: PurePosixPath) -> bool:
    about = path.parts[0].endswith((".dist-info", ".egg-info"))
    is_licence = bool(_LICENCE_NAME.match(path.name)) and path.suffix.lower() in _LICENCE_SUFFIXES
    if source.what == "licences":
        return is_licence or (about and "licenses" in path.parts and path.suffix.lower() in _LICENCE_SUFFIXES)
    if source.what == "readmes" and about:
        return path.name == "METADATA"
    if about or not _OTHERS_FOLDERS.isdisjoint(path.parts):
        return False
    if source.what in ("code", "docstrings"):
        return path.suffix == ".py"
    return (
        path.suffix.lower() in _README_SUFFIXES
        and not is_licence
        and not _NO_PROSE.match(path.name)
        and _TEST_FOLDERS.isdisjoint(path.parts)
    )


def read_package_file(path: Path, name: str, source: Source, max_bytes: int) -> Items:
    """What one file of a package gives: itself, its long description, or its docstrings."""
    with path.open("rb") as file:
        data = file.read(max_bytes + 1)
    if not data:
        yield Reject(None, "empty_file", "0 bytes")
    elif len(data) > max_bytes:
        yield Reject(None, "too_large", f"{path.stat().st_size} bytes, {max_bytes} allowed")
    elif source.what == "docstrings":
        yield from docstrings(data)
    elif source.what == "readmes" and name.endswith("/METADATA"):
        yield long_description(data)
    else:
        yield whole_file(data)


def long_description(data: bytes) -> Record | Reject:
    """The long description in a package's METADATA: its body, or the header of that name in old packages."""
    try:
        text, repairs = decode(data)
    except NotText as error:
        return Reject("0", error.reason, error.detail)
    message = email.message_from_string(text)
    described = message.get_payload()
    described = described if isinstance(described, str) else ""
    if is_blank(described):
        indented = str(message.get("Description", ""))
        described = re.sub(r"^(        |       \|)", "", indented, flags=re.MULTILINE)
    if is_blank(described) or described.strip() == "UNKNOWN":
        return Reject("0", "empty_text", "the package has no long description")
    return Record("0", described, repairs=repairs)


def docstrings(data: bytes) -> Items:
    """The docstrings of a Python file, keyed by qualified name ('<module>' for the file's own).

    Of several definitions with the same qualified name the first one's is taken, the others are rejected.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the package's author wrote is not this program's business
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)[:200]
        yield Reject(None, "invalid_python", line)
        return
    seen: set[str] = set()
    for name, node in _documented(tree):
        text = ast.get_docstring(node, clean=True)
        if text is None or len(text) < MIN_DOCSTRING_CHARACTERS:
            continue
        if name in seen:
            yield Reject(name, "duplicate_id", "an earlier definition in the file has the same qualified name")
            continue
        seen.add(name)
        text, repairs = valid_unicode(text)
        if is_blank(text):
            yield Reject(name, "empty_text", "a docstring of white space")
        else:
            yield Record(name, text, repairs=repairs)


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _documented(tree: ast.Module) -> Iterator[tuple[str, Documented]]:
    """Everything that may carry a docstring, with its qualified name, in the order of the file."""
    yield "<module>", tree
    waiting: list[tuple[str, ast.AST]] = [("", statement) for statement in reversed(tree.body)]
    while waiting:  # not by recursion: a chain of a thousand elif is a thousand levels deep
        prefix, node = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
            prefix += f"{node.name}." if isinstance(node, ast.ClassDef) else f"{node.name}.<locals>."
        waiting.extend((prefix, statement) for statement in reversed(_statements(node)))


def _statements(node: ast.AST) -> list[ast.AST]:
    """Statements inside a node: expressions hold no docstrings, so they are not visited."""
    blocks = (getattr(node, name, None) for name in ("body", "handlers", "orelse", "finalbody", "cases"))
    return [statement for block in blocks if isinstance(block, list) for statement in block]
