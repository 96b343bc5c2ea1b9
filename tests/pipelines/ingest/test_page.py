"""docs/formats.md names a test for every claim: they exist."""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_every_test_that_the_page_names_exists() -> None:
    page = (HERE.parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    there = {
        name for module in HERE.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", module.read_text(), re.M)
    }
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 40
    assert named <= there
