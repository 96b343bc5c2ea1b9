"""A person at Dagster's UI: a headless Chromium that opens pages, clicks, and keeps pictures of what it saw.

Chromium is the system's own; nothing is downloaded. What it is shown comes from `tests/jobs/service.py`.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.jobs.processes import ROOT

pytest.importorskip("playwright", reason="needs the dev extra: pip install -e '.[dev]'")
from playwright.sync_api import Browser, Error, Locator, Page, expect, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PICTURES = ROOT / "var" / "screenshots"
"""Pictures stay here after the test; git ignores them."""

SIZE = {"width": 1600, "height": 1000}
PATIENCE = 60_000
"""Milliseconds that a page has to show something, on a machine that is busy with a run."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser. The test is skipped where there is none."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip(f"needs one of {', '.join(CHROMIUM)} in PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Person:
    """Somebody who has never been here: no cookies, nothing remembered. Every click is counted."""

    page: Page
    address: str
    clicks: int = 0

    @classmethod
    def arrives(cls, browser: Browser, address: str) -> "Person":
        """At the start page, in a window of `SIZE`."""
        page = browser.new_context(viewport=SIZE).new_page()
        page.set_default_timeout(PATIENCE)
        person = cls(page, address)
        person.opens("/")
        return person

    def opens(self, path: str) -> None:
        """Go to an address, up to three times: a webserver that is busy may be late."""
        for chance in (2, 1, 0):
            try:
                self.page.goto(f"{self.address}{path}")
                self.sees(self.link("Lineage"))
                return
            except (Error, AssertionError):
                if not chance:
                    raise

    def click(self, what: Locator) -> None:
        """Click something once it is there and can be clicked."""
        what.click()
        self.clicks += 1

    def replace_line(self, editor: Locator, key: str, line: str) -> None:
        """Write another line where a YAML editor shows a key."""
        editor.locator(".CodeMirror-line", has_text=key).click()
        self.page.keyboard.press("End")
        self.page.keyboard.press("Shift+Home")
        self.page.keyboard.press("Shift+Home")  # the first one stops at the indentation
        self.page.keyboard.insert_text(line)

    def sees(self, what: Locator) -> None:
        """Wait until something can be seen."""
        expect(what).to_be_visible(timeout=PATIENCE)

    def keeps(self, name: str) -> Path:
        """A picture of the page as it is now, once nothing turns any more."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        self.page.wait_for_timeout(1000)  # transitions end
        self.page.screenshot(path=path)
        return path

    # -- what Dagster's pages are made of -----------------------------------------------------------------------

    def link(self, name: str) -> Locator:
        """A link by its text; the name of an icon may stand before it, and after it one that explains it."""
        return self.page.get_by_role("link", name=re.compile(rf"(^|\s){re.escape(name)}( info)?$"))

    def button(self, name: str) -> Locator:
        """A button by a part of its text."""
        return self.page.get_by_role("button", name=name)

    def tab(self, name: str) -> Locator:
        """A tab of a page."""
        return self.page.get_by_role("tab", name=name, exact=True)

    def dialog(self, text: str) -> Locator:
        """The dialog that has this text."""
        return self.page.get_by_role("dialog").filter(has_text=text)

    def option(self, name: str) -> Locator:
        """An entry of a menu."""
        return self.page.get_by_role("menuitem").filter(has_text=name)
