"""The demo in Chromium, as somebody uses it who has just installed it: looks, launches, overrides, cancels, schedules.

The instance is the demo's profile with less text and a smaller model, in a folder of its own. `make ui` has started
it, and its first run was launched by clicks: see `milled`. What a click led to is asked of ledger and webserver.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.build import ASSETS, RANGE_END, RANGE_START, full_range
from pipelines.dataset import Version
from resources.settings import load_profile
from tests.jobs.processes import ROOT, Mill, wait_for
from tests.jobs.service import Service, free_port
from tests.ui.browser import PATIENCE, PICTURES, Browser, Locator, Person, chromium, expect

pytestmark = pytest.mark.slow

MOST_CLICKS = 6
"""From the start page of a new instance to what everything cost."""

SMALLER = 8
TRAINING = {
    "max_steps": 40,
    "evaluate_every_steps": 20,
    "hidden_size": 32,
    "layers": 1,
    "heads": 2,
    "kv_heads": 1,
    "intermediate_size": 64,
}
STRICTER = 0.05
"""A threshold of toxicity that drops some of the demo's harmless text."""

SUMMARY = re.compile(r"This run cost \$[\d.]+ .*With everything upstream, this version cost \$([\d.]+)\.")


def demo_profile(folder: Path) -> Path:
    """The demo's profile, an eighth of its text; its night is every minute, so that a schedule has something to do."""
    profile: dict[str, Any] = yaml.safe_load((ROOT / "config" / "demo.yaml").read_text())
    for source in profile["sources"]:
        source["max_megabytes"] /= SMALLER
    profile["training"] |= TRAINING
    profile |= {"store": f"{folder}/store", "ledger": f"{folder}/ledger.db", "schedules": {"nightly": "* * * * *"}}
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(profile, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\npictures: {PICTURES}")


@pytest.fixture(scope="module")
def demo(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A new instance, as `make ui` starts it."""
    pytest.importorskip("transformers", reason="the demo trains a model: needs the train extra")
    folder = tmp_path_factory.mktemp("demo")
    service = Service(Mill(folder, load_profile(demo_profile(folder))), free_port())
    service.start_ui()
    try:
        service.wait_until_it_answers()
        yield service
    finally:
        service.mill.end_everything()


@pytest.fixture(scope="module")
def milled(demo: Service, browser: Browser) -> Person:
    """Somebody who has made everything by clicks, starting at the start page, and has read what it cost."""
    person = Person.arrives(browser, address_of(demo))
    person.click(person.link("Jobs"))
    person.click(person.link("full_job"))
    person.click(person.button("Materialize all"))
    person.click(person.dialog("15 assets").get_by_role("button", name="All", exact=True))
    person.keeps("1 materialize all")
    person.click(person.button("Launch backfill"))
    (run,) = wait_for(demo.runs, "the run")
    demo.wait_for_status(run["runId"], "SUCCESS")
    person.click(person.page.get_by_text("Latest run:").get_by_role("link"))
    person.sees(person.page.get_by_text("RUN_SUCCESS"))
    return person


@pytest.fixture
def person(milled: Person, demo: Service, browser: Browser) -> Iterator[Person]:
    """Somebody new, on an instance with one finished run."""
    person = Person.arrives(browser, address_of(demo))
    yield person
    person.page.context.close()


def address_of(service: Service) -> str:
    return f"http://127.0.0.1:{service.port}"


def current(service: Service, asset: str, source: str = "") -> Version:
    """The current version of a dataset."""
    pointer = service.mill.ledger.current(asset, source)
    assert pointer is not None
    return Version.load(service.mill.store, pointer.version)


def runs_of_backfill(service: Service, person: Person) -> list[dict[str, Any]]:
    """The runs of the backfill that the page has just said it created, once it has ended well; its page is open."""
    person.click(person.page.get_by_role("button", name="View", exact=True).or_(person.link("View")).last)
    person.page.wait_for_url(re.compile("/runs/b/"))
    backfill = person.page.url.rpartition("/")[2].partition("?")[0]
    wait_for(lambda: service.backfill_status(backfill).startswith("COMPLETED"), f"backfill {backfill}")
    assert service.backfill_status(backfill) == "COMPLETED_SUCCESS"
    return [run for run in service.runs() if run["tags"].get("dagster/backfill") == backfill]


# -- looking --------------------------------------------------------------------------------------------------------


def test_a_new_user_makes_everything_and_reads_what_it_cost_in_six_clicks(milled: Person, demo: Service):
    # Given somebody who pressed Jobs, full_job, Materialize all, All, Launch backfill, and the latest run at the end
    assert milled.clicks <= MOST_CLICKS

    # Then it was one run of everything, and the log before them ends with what the model and all before it cost
    (run,) = demo.runs()[-1:]
    assert {**run["tags"], **full_range(demo.mill.profile)} == run["tags"]
    told = milled.page.get_by_text(SUMMARY).last
    milled.sees(told)
    milled.keeps("2 what it cost")
    said = SUMMARY.search(told.inner_text())
    lineage = demo.mill.account().lineage_usd(current(demo, "pretrained_model").id)
    assert said and float(said[1]) == pytest.approx(float(lineage), rel=0.01)


def test_the_graph_shows_every_asset_in_the_box_of_its_group(person: Person):
    person.click(person.link("Lineage"))
    person.sees(person.button("Materialize all"))
    person.page.keyboard.press("Alt+e")  # expands all groups
    graph = person.page.locator("svg foreignObject")
    for asset in ASSETS:
        cut = f"{asset.name[:10]}…{asset.name[-7:]}"  # of a name that is too long for its box
        node = graph.filter(has_text=re.compile(rf"^({asset.name}|{cut})(?!\w)")).last
        person.sees(node)
        box, inside = graph.filter(has_text=re.compile(rf"^{asset.group}$")).last.bounding_box(), node.bounding_box()
        assert box and inside
        assert box["x"] <= inside["x"] <= box["x"] + box["width"]
        assert box["y"] <= inside["y"] <= box["y"] + box["height"]
    person.page.mouse.move(900, 900)
    person.keeps("3 graph")


def test_an_asset_says_what_it_is_and_where_its_code_stands(person: Person):
    person.click(person.link("Catalog"))
    person.click(person.link("unique_documents"))
    for told in ("with all but one member of every duplicate cluster removed", "128-bit xxh3 of source and uri"):
        person.sees(person.page.get_by_text(told).first)
    person.sees(person.link("deduplication"))
    for file in ("assets/deduplication.py", "dedup/unique.py"):
        person.sees(person.page.locator(f"a[href*='{file}']"))
    person.keeps("4 asset")


def test_a_source_of_an_asset_shows_what_was_dropped_a_plot_and_the_cost(person: Person, demo: Service):
    # When somebody looks at one source of an asset
    person.opens("/assets/unique_documents")
    person.click(person.tab("Partitions"))
    person.click(person.page.get_by_text("docstrings", exact=True).first)

    # Then the table of reasons is the stage's own count, the plots are really drawn, and the cost is told in words
    version = current(demo, "unique_documents", "docstrings")
    reasons = {reason: documents for reason, documents in version.stats["dropped"].items() if documents}
    assert reasons
    for reason, documents in reasons.items():
        person.sees(person.page.get_by_role("row", name=re.compile(rf"^dropped: {reason} {documents}\b")))
    plots = person.page.get_by_role("img", name="text bytes")
    person.sees(plots)
    assert plots.evaluate("image => image.src.startsWith('data:image/svg') && image.naturalWidth") > 100
    person.sees(person.page.get_by_text(SUMMARY))
    person.keeps("5 source")


def test_costs_are_plotted_over_time(person: Person):
    person.opens("/assets/pretrained_model")
    person.click(person.button("Plots"))
    for key in ("cost/usd", "cost/lineage_usd", "cost/energy_kwh"):
        person.sees(person.page.get_by_text(key, exact=True))
    person.page.get_by_text("cost/lineage_usd", exact=True).scroll_into_view_if_needed()
    person.sees(person.page.locator("canvas").first)
    person.keeps("6 costs over time")


def test_checks_and_what_they_found_stand_on_the_page_of_the_asset(person: Person):
    person.opens("/assets/unique_documents")
    person.click(person.tab("Checks"))
    for check in ("rows_balance", "no_exact_duplicate_left", "keeps_some", "drift"):
        person.sees(person.page.get_by_text(check, exact=True).first)
    person.click(person.page.get_by_text("rows_balance", exact=True).first)
    for found in ("A version that fails is not published.", "docstrings", "Succeeded"):
        person.sees(person.page.get_by_text(found).last)
    person.keeps("7 checks")


# -- doing ----------------------------------------------------------------------------------------------------------


def test_an_override_from_the_page_of_an_asset_is_in_the_version_and_its_check_warns(person: Person, demo: Service):
    # When filtered_documents is made again for all sources with a stricter threshold
    person.opens("/assets/filtered_documents")
    person.click(person.button("Materialize"))
    dialog = person.dialog("Launch runs to materialize filtered_documents")
    person.click(dialog.get_by_role("button", name="All", exact=True))
    person.click(dialog.get_by_text("Config", exact=True))
    person.click(dialog.get_by_role("button", name="Add config"))
    editor = person.dialog("Config Editor")
    person.click(editor.locator(".CodeMirror").first)
    person.page.keyboard.insert_text(f"ops:\n  filtered_documents:\n    config:\n      max_toxicity: {STRICTER}\n")
    person.sees(editor.get_by_text("No errors"))
    person.keeps("8 override")
    person.click(editor.get_by_role("button", name="Save config"))
    person.click(person.button("Launch backfill"))

    # Then it was one run, the versions of all sources carry the threshold, and the page says that less is kept
    (run,) = runs_of_backfill(demo, person)
    for source in demo.mill.profile.source_names:
        assert current(demo, "filtered_documents", source).params["max_toxicity"] == STRICTER
    assert current(demo, "filtered_documents", "docstrings").stats["dropped"]["toxicity"] > 0
    person.opens("/assets/filtered_documents?view=partitions&partition=docstrings")
    person.sees(person.link(run["runId"][:8]))
    person.sees(person.page.get_by_text("dropped: toxicity"))
    person.keeps("9 overridden")
    person.opens("/assets/filtered_documents")
    person.click(person.tab("Checks"))
    person.click(person.page.get_by_text("drift", exact=True).first)
    person.sees(person.page.get_by_text("A failure warns").first)
    person.sees(person.page.get_by_text(re.compile(r"kept [\d.]+%, now \d")).first)
    person.sees(person.page.get_by_text("Failed", exact=True).first)
    person.keeps("10 a check that warns")


def test_a_backfill_of_two_sources_makes_one_run_for_each(person: Person, demo: Service):
    # When two sources that are no neighbours are chosen
    person.opens("/assets/clean_documents")
    person.click(person.button("Materialize"))
    person.click(person.page.get_by_text("Select a partition"))
    for source in ("readmes", "licences"):
        person.click(person.option(source))
    person.page.keyboard.press("Escape")
    person.sees(person.page.get_by_text("2 partitions"))
    person.click(person.button("Launch backfill"))

    # Then each of them is made, and nothing else
    runs = runs_of_backfill(demo, person)
    assert sorted((run["tags"][RANGE_START], run["tags"][RANGE_END]) for run in runs) == [
        ("licences", "licences"),
        ("readmes", "readmes"),
    ]
    person.sees(person.page.get_by_text("100% completed"))
    person.keeps("11 backfill")


def test_terminate_cancels_a_training_that_was_launched_from_the_launchpad(person: Person, demo: Service):
    # Given a model that is to read the whole blend, launched with another value in the launchpad
    before = current(demo, "pretrained_model").id
    person.opens("/assets/pretrained_model")
    person.click(person.button("Materialize").locator("xpath=following::button[1]"))
    person.click(person.option("Open launchpad"))
    launchpad = person.dialog("Launchpad")
    person.replace_line(launchpad, "max_steps:", "      max_steps: 0")
    person.keeps("12 launchpad")
    person.click(launchpad.get_by_role("button", name="Materialize"))
    person.page.wait_for_url(re.compile("/runs/"))
    run = person.page.url.rpartition("/")[2]
    demo.open_attempt(run, "pretrained_model", finished_tasks=0)

    # When it is cancelled
    person.click(person.button("Terminate"))
    person.click(person.dialog("Do you wish to continue?").get_by_role("button", name="Terminate 1 run"))

    # Then the page says so, what it used is charged, and the model before it is still the current one
    person.sees(person.page.get_by_text("Canceled", exact=True).first)
    demo.wait_for_status(run, "CANCELED")
    person.keeps("13 cancelled")
    attempt = demo.mill.attempt("pretrained_model")
    assert (attempt.run, attempt.status) == (run, "cancelled")
    assert attempt.charge.usd > 0
    assert current(demo, "pretrained_model").id == before


def test_a_schedule_that_is_turned_on_ticks_and_asks_for_a_run_of_all_sources(person: Person, demo: Service):
    # Given automations that are all off
    def automation(name: str) -> Locator:
        return person.page.get_by_role("link", name=re.compile(rf"\b{name}\b"))

    person.click(person.link("Automation"))
    for name in ("nightly", "weekly", "new_files", "settlement", "audit", "failure_alert", "housekeeping"):
        person.sees(automation(name))
    switches = person.page.get_by_role("checkbox")
    assert not any(switch.is_checked() for switch in switches.all())
    person.keeps("14 automation")

    # When the nightly schedule is turned on
    person.click(automation("nightly"))
    switch = person.page.get_by_role("checkbox")
    person.click(person.page.locator("label").filter(has=switch))
    expect(switch).to_be_checked(timeout=PATIENCE)

    # Then within its minute it asks for one run of all sources, and the page shows the tick
    def asked_for() -> list[dict[str, Any]]:
        return [run for run in demo.runs() if run["tags"].get("dagster/schedule_name") == "nightly"]

    (run, *_) = wait_for(asked_for, "a run of the schedule")
    person.click(person.page.locator("label").filter(has=switch))
    expect(switch).not_to_be_checked(timeout=PATIENCE)
    assert {**run["tags"], **full_range(demo.mill.profile)} == run["tags"]
    person.sees(person.page.get_by_text("1 requested").or_(person.link(run["runId"][:8])).first)
    person.keeps("15 ticked")
    demo.wait_for_status(run["runId"], "SUCCESS")
