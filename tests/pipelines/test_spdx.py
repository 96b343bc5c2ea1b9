"""What is left of a licence expression when only some licences may be used."""

import pytest

from pipelines.spdx import LONGEST, permitted_expression

MAY = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("MIT", "MIT"),
        (" MIT ", "MIT"),
        ("GPL-3.0", None),
        ("MIT OR GPL-3.0", "MIT"),
        ("MIT AND GPL-3.0", None),
        ("MIT AND Apache-2.0", "MIT AND Apache-2.0"),
        ("GPL-3.0 OR MIT AND Apache-2.0", "MIT AND Apache-2.0"),  # AND binds tighter
        ("(GPL-3.0 OR MIT) AND Apache-2.0", "MIT AND Apache-2.0"),
        ("(MIT OR Apache-2.0) AND MIT", "(MIT OR Apache-2.0) AND MIT"),
        ("Apache-2.0 WITH LLVM-exception", "Apache-2.0 WITH LLVM-exception"),
        ("MIT OR", None),
        ("(MIT", None),
        ("MIT)", None),
        ("", None),
        ("MIT OR " * LONGEST + "MIT", None),
    ],
)
def test_of_alternatives_one_must_be_permitted_of_parts_all(words: str, left: str | None) -> None:
    assert permitted_expression(words, lambda name: name if name in MAY else None) == left
