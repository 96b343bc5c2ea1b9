"""Which assets Dagster calls stale, asked as its own pages ask: through the instance."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from assets import cleaning
from jobs import build
from jobs.build import build_definitions, full_range
from resources.settings import Profile, load_profile
from tests.jobs.corpus import make_profile, prose
from tests.jobs.test_chain import Mill, reason

DATA = 'key:"*" and not key:"pretrained_model"'


def made(folder: Path) -> Iterator[Mill]:
    """A mill that has made everything but the model."""
    with dg.DagsterInstance.ephemeral() as instance:
        mill = Mill(make_profile(folder), instance)
        run(mill)
        assert stale(mill) == set()
        yield mill


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    yield from made(tmp_path)


@pytest.fixture(scope="module")
def milled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mill]:
    """For tests that only ask."""
    yield from made(tmp_path_factory.mktemp("milled"))


def run(mill: Mill, selection: str = DATA, **how: Any) -> None:
    result = mill.run(selection, **how)
    assert result.success, reason(result)


def statuses(mill: Mill, profile: Profile | None = None) -> dict[str, str]:
    """What the instance says of every partition under a profile: FRESH, STALE or MISSING."""
    graph = build_definitions(profile or mill.profile).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(mill.instance, graph, LoadingContextForTest(mill.instance))
    found = {}
    for key in graph.executable_asset_keys:
        partitions = graph.get(key).partitions_def
        for partition in partitions.get_partition_keys() if partitions else [None]:
            name = f"{key.to_user_string()}[{partition}]" if partition else key.to_user_string()
            found[name] = resolver.get_status(key, partition).value
    return found


def stale(mill: Mill, profile: Profile | None = None) -> set[str]:
    return {name for name, status in statuses(mill, profile).items() if status == "STALE"}


def of(asset: str) -> set[str]:
    return {f"{asset}[books]", f"{asset}[web]"}


def profile_of(mill: Mill) -> Path:
    return Path(mill.profile.store_url).parent / "profile.yaml"


def edited(mill: Mill, old: str, new: str) -> Profile:
    """The profile with one place of its text changed."""
    text = profile_of(mill).read_text()
    assert old in text
    path = profile_of(mill).with_name("edited.yaml")
    path.write_text(text.replace(old, new, 1))
    return load_profile(path)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("filters.max_toxicity=0.5", of("filtered_documents")),
        ("toxicity.window_bytes=400", of("toxicity_scores")),
        ("perplexity.min_tokens=90", {"perplexity_model", *of("perplexity_scores")}),
        ("contamination.ngram=8", of("contamination_scores")),
        ("dedup.threshold=0.9", {"duplicate_clusters"}),
        ("clean.min_characters=7", of("clean_documents") | of("compliance_audit")),
        ("reference_sources=[web]", {"perplexity_model"}),
        ("tokenizer.sources=[books]", {"tokenizer"}),
        ("engine.workers=2", set()),
        ("checks.strict=true", set()),
    ],
)
def test_a_changed_parameter_makes_stale_what_it_belongs_to_and_nothing_else(
    milled: Mill, override: str, expected: set[str]
) -> None:
    assert stale(milled, load_profile(profile_of(milled), [override])) == expected


def test_after_a_run_with_an_override_the_result_is_stale_against_the_profile(mill: Mill) -> None:
    config = {"ops": {"filtered_documents": {"config": {"max_toxicity": 0.5}}}}

    run(mill, "filtered_documents", tags=full_range(mill.profile), run_config=config)

    assert of("filtered_documents") <= stale(mill)
    assert not of("filtered_documents") & stale(mill, load_profile(profile_of(mill), ["filters.max_toxicity=0.5"]))


def test_comments_make_nothing_stale(milled: Mill) -> None:
    assert stale(milled, edited(milled, "\nsources:", "\n# a thought\nsources: # another")) == set()


def test_raising_the_version_of_a_stage_makes_its_asset_stale(milled: Mill, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = replace(cleaning.clean_documents, stage_versions=(99,))
    monkeypatch.setattr(build, "ASSETS", tuple(newer if a.name == newer.name else a for a in build.ASSETS))

    assert stale(milled) == of("clean_documents")


def test_new_text_makes_the_readers_of_its_source_stale_one_after_another(mill: Mill) -> None:
    books = Path(mill.profile.source("books").path or "") / "part 1.jsonl"
    books.write_text(books.read_text() + json.dumps({"id": "new", "text": prose(77)}) + "\n")
    run(mill, "raw_documents")

    assert "clean_documents[books]" in stale(mill)
    assert not any(name.startswith(("unique_documents", "token_shards")) for name in stale(mill))

    run(mill, "clean_documents")
    assert {"duplicate_clusters", "unique_documents[books]"} <= stale(mill)
    run(mill)
    assert stale(mill) == set()


def test_a_source_that_is_read_otherwise_makes_raw_documents_stale(milled: Mill) -> None:
    assert stale(milled, edited(milled, "id: id", "id: name")) == of("raw_documents")


def test_a_new_source_is_missing_and_makes_stale_what_reads_all_sources(milled: Mill) -> None:
    found = statuses(milled, edited(milled, "\nsources:\n", "\nsources:\n- {name: third, path: web}\n"))

    missing = {name for name, status in found.items() if status == "MISSING"}
    assert missing - {"pretrained_model"} == {name for name in found if "third" in name}
    assert {"duplicate_clusters", "training_mixture", "training_blend"} <= {
        name for name, status in found.items() if status == "STALE"
    }


def test_a_run_of_one_source_may_leave_fresh_data_stale_but_never_stale_data_fresh(mill: Mill) -> None:
    run(mill, "clean_documents", partition_key="books")

    assert stale(mill) >= {"unique_documents[books]", "duplicate_clusters"}  # its data version is another: one per step
    run(mill)
    assert stale(mill) == set()
