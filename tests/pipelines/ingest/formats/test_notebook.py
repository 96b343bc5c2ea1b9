"""Notebooks: cells in order, code in fences, outputs left out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.records import Record, Reject

from .reading import items, reasons, records

PYTHON = {"kernelspec": {"name": "python3", "language": "python"}, "language_info": {"name": "python"}}


def cell(kind: str, source: Any, **more: Any) -> dict[str, Any]:
    return {"cell_type": kind, "source": source, "metadata": {}} | more


def of(*cells: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": PYTHON, "cells": list(cells)} | more).encode()


def test_prose_and_code_stand_in_their_order_without_outputs() -> None:
    output = {"output_type": "stream", "text": ["a very long output"]}
    data = of(
        cell("markdown", ["# Title\n", "\n", "Some prose."]),
        cell("code", "import numpy\nnumpy.pi\n", outputs=[output], execution_count=1),
        cell("raw", "as it is"),
    )
    [record] = records(items("notebook", data, "a.ipynb"))
    assert record.key == "0"
    assert record.text == "# Title\n\nSome prose.\n\n```python\nimport numpy\nnumpy.pi\n```\n\nas it is\n"
    assert json.loads(record.metadata or "") == {
        "programming_language": "Python",
        "code_cells": 1,
        "markdown_cells": 2,
    }


def test_version_3_has_worksheets_inputs_and_headings() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Method"]},
        {"cell_type": "code", "language": "julia", "input": ["x = 1"], "outputs": []},
    ]
    data = json.dumps({"nbformat": 3, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}).encode()
    [record] = records(items("notebook", data))
    assert record.text == "## Method\n\n```julia\nx = 1\n```\n"
    assert json.loads(record.metadata or "")["programming_language"] == "Julia"


def test_a_kernel_without_a_language_is_known_by_its_name() -> None:
    data = of(cell("code", "1"), metadata={"kernelspec": {"name": "python3"}})
    assert records(items("notebook", data))[0].text == "```python\n1\n```\n"


def test_a_fence_is_longer_than_any_within() -> None:
    [record] = records(items("notebook", of(cell("code", "s = '''\n````\n'''"))))
    assert record.text.startswith("`````python\n") and record.text.endswith("\n`````\n")


def test_the_licence_in_the_first_cell_is_the_notebooks() -> None:
    [record] = records(items("notebook", of(cell("code", "# SPDX-License-Identifier: Apache-2.0\n"))))
    assert record.license == "Apache-2.0"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"cells": [', "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b'{"a": 1}', "not_a_notebook"),
        (b"[1]", "not_a_notebook"),
        (of(), "empty_text"),
        (of(cell("code", " \n"), cell("markdown", [])), "empty_text"),
        (b"\x00" * 100, "not_text"),
    ],
)
def test_what_is_no_notebook_is_one_rejection(data: bytes, reason: str) -> None:
    assert reasons(items("notebook", data)) == [("0", reason)]


def test_a_lone_surrogate_in_a_cell_is_repaired() -> None:
    data = b'{"cells": [{"cell_type": "markdown", "source": "broken \\ud835 here"}]}'
    [record] = records(items("notebook", data))
    assert (record.text, record.repairs) == ("broken � here\n", ("lone_surrogates",))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cells", "cell_type", "source", "metadata", "worksheets", "input", "level", "kernelspec"]),
            inner | st.sampled_from(["code", "markdown", "heading"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_one_record_or_one_rejection(value: Any) -> None:
    [given_item] = items("notebook", json.dumps(value).encode())
    assert isinstance(given_item, Record | Reject)
