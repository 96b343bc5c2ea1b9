"""Writes docs/columns.md, the columns of every table part, from their schemas: `python docs/generate_columns.py`.

A test compares the committed file with what this script gives.
"""

from pathlib import Path

import pyarrow as pa

from pipelines.dataset import SCHEMAS

PAGE = Path(__file__).resolve().parent / "columns.md"

INTRODUCTION = """\
# Columns of every table part

<!-- Written by docs/generate_columns.py; a test compares. Edit pipelines/schemas.py, not this page. -->

A part of this name means the same in every dataset. Which dataset has which parts stands in [datasets](datasets.md).
"""


def render() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(table(name, schema) for name, schema in SCHEMAS.items())])


def table(name: str, schema: pa.Schema) -> str:
    """The columns of one part."""
    rows = [
        f"| `{column.name}` | {column.type}{', nullable' if column.nullable else ''} "
        f"| {(column.metadata or {})[b'description'].decode()} |\n"
        for column in schema
    ]
    return f"## {name}\n\n| column | type | meaning |\n|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
