"""Jupyter notebooks (nbformat 3 and 4): the cells of one notebook as one document, in their order.

Markdown stands as it is, code in a fence that names its language: that is how Markdown files hold code, so prose and
code stay apart. Outputs are left out; they are what a machine wrote, and often images.
"""

import json
import re
from typing import Any

from pipelines.ingest.encodings import NotText, decode, is_blank, valid_unicode
from pipelines.ingest.formats.code import SPELLINGS, declared_licence
from pipelines.ingest.params import Source
from pipelines.ingest.records import Items, Record, Reject, metadata_json
from pipelines.ingest.streams import Stream


def read(stream: Stream, source: Source, max_bytes: int) -> Items:
    """A notebook as one record; in the metadata `programming_language` of its kernel and the numbers of cells."""
    data = stream.bytes.read(max_bytes + 1)
    if len(data) > max_bytes:
        yield Reject("0", "too_large", f"{stream.size} bytes as stored, {max_bytes} allowed")
    elif stream.damage:
        yield Reject(None, "damaged_file", stream.damage)  # half a notebook is no JSON
    else:
        yield _record(data)


def _record(data: bytes) -> Record | Reject:
    try:
        written, repairs = decode(data)
        notebook = json.loads(written, strict=False)
    except NotText as error:
        return Reject("0", error.reason, error.detail)
    except json.JSONDecodeError as error:
        return Reject("0", "invalid_json", f"line {error.lineno}: {error.msg}")
    except (ValueError, RecursionError) as error:
        return Reject("0", "invalid_json", str(error)[:200])
    cells = _cells(notebook)
    if cells is None:
        return Reject("0", "not_a_notebook", "JSON without a list of cells")
    language = _language(notebook, cells)
    parts: list[str] = []
    counts = {"code": 0, "markdown": 0}
    for cell in cells:
        text = _text(cell.get("source", cell.get("input")))  # nbformat 3 calls a code cell's source its input
        kind = cell.get("cell_type")
        if is_blank(text) or kind not in ("code", "markdown", "heading", "raw"):
            continue
        if kind == "code":
            text = _fenced(text.strip("\n"), language)
        elif kind == "heading":
            level = cell.get("level")
            text = f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {text}"
        parts.append(text.strip("\n"))
        counts["code" if kind == "code" else "markdown"] += 1
    text, joined = valid_unicode("\n\n".join(parts))
    if not parts:
        return Reject("0", "empty_text", f"{len(cells)} cells, none with text")
    fields: dict[str, Any] = {"code_cells": counts["code"], "markdown_cells": counts["markdown"]}
    if language:
        fields["programming_language"] = SPELLINGS.get(language, language)
    return Record("0", text + "\n", declared_licence(text), metadata_json(fields), repairs + joined)


def _cells(notebook: Any) -> list[dict[str, Any]] | None:
    """The cells of a notebook in their order (nbformat 3: of all its worksheets); None: it is no notebook."""
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets") if "cells" not in notebook else [notebook]
    if not isinstance(sheets, list):
        return None
    lists = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    return [cell for cells in lists if isinstance(cells, list) for cell in cells if isinstance(cell, dict)]


def _text(source: Any) -> str:
    """A cell's source: nbformat allows a string, or a list of its lines with their ends."""
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _language(notebook: dict[str, Any], cells: list[dict[str, Any]]) -> str:
    """The kernel's language, in small letters; nbformat 3 writes it on every code cell. Empty: not told."""
    metadata = notebook.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    told = [("language_info", "name"), ("kernelspec", "language"), ("kernelspec", "name")]
    named = [block.get(name) for part, name in told if isinstance(block := metadata.get(part), dict)]
    named += [cell.get("language") for cell in cells]
    language = next((name for name in named if isinstance(name, str) and name.strip()), "").strip().lower()
    return re.sub(r"(?<=python)[\d.]+$", "", language)  # a kernel's name, 'python3'


def _fenced(code: str, language: str) -> str:
    """Code between fences that are longer than any run of back quotes within (CommonMark 0.31, section 4.5)."""
    longest = max(map(len, re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"
