"""Samples of texts: a few of what was kept and of what was dropped, where the profile lets them go."""

import json

import pytest

from assets.outcomes import figures_metadata, outcome_metadata
from assets.previews import CHARACTERS, preview_metadata
from pipelines.clean.params import CleanParams
from pipelines.clean.stage import clean
from pipelines.dataset import Dataset, Draft, Part, seal, write_shard
from pipelines.engines.local import Engine
from pipelines.ingest.stage import write_rejects
from pipelines.store import Store
from tests.assets.test_outcomes import rows
from tests.pipelines.filters.corpus import documents

GOOD = "All human beings are born free and equal in dignity and rights. " * 9
TEXTS = [GOOD, "secret", "short", "tiny", "-" * 80, GOOD + "again"]


@pytest.fixture
def cleaned(store: Store) -> Dataset:
    raw = documents(store, TEXTS, shard_rows=2)
    draft = clean(raw, CleanParams(), Engine(store, 1))
    version = seal(store, draft, asset="clean_documents", partition="book", inputs=[raw])
    return Dataset("clean_documents", (version,), store)


def test_kept_and_dropped_documents_are_shown_with_the_reason_and_cut(cleaned: Dataset) -> None:
    shown = preview_metadata(cleaned, "ui")

    kept = rows(shown["preview"])
    assert [name for name, _ in kept] == ["file#0"]  # of the first shard that has any
    assert len(kept[0][1].replace("\u200b", "")) == CHARACTERS + 1
    assert rows(shown["preview of what was dropped"]) == [
        ("file#1", "too_short", "6 against 50", "secret"),
        ("file#2", "too_short", "5 against 50", "short"),  # and no third of the same reason
        ("file#4", "few_alphanumerics", "0 against 0.25", "\u200b".join(["-" * 24] * 3 + ["-" * 8])),
    ]


def test_a_store_preview_keeps_every_text_out_of_the_event_log(cleaned: Dataset) -> None:
    shown = preview_metadata(cleaned, "store")

    assert set(shown) == {"preview"}
    samples = json.loads(cleaned.store.get(shown["preview"].removeprefix("object ")))
    assert samples["preview of what was dropped"][0]["text"] == "secret"
    assert "secret" not in str({**shown, **outcome_metadata(cleaned.version.stats)})


def test_without_previews_nothing_is_read_or_stored(cleaned: Dataset) -> None:
    assert preview_metadata(cleaned, "off") == {}


def test_input_that_could_not_be_read_is_shown_by_its_reason(store: Store) -> None:
    told = [("a.jsonl#0", "invalid_json", "line 1"), ("b.jsonl#3", "empty_text", "")]
    (_, table), _ = write_rejects(None, {"source": "s", "rejects": told})
    version = seal(store, Draft({"rejects": Part("table", (write_shard(store, "rejects", table),))}), asset="raw")

    assert rows(preview_metadata(Dataset("raw", (version,), store), "ui")["preview of what was dropped"]) == told


def test_what_a_model_writes_obeys_the_setting_too(store: Store) -> None:
    samples = [{"prompt": "The", "continuation": "secret"}]
    version = seal(store, Draft({}, {"samples": samples, "loss": 3.0}), asset="pretrained_model")
    model = Dataset("pretrained_model", (version,), store)

    assert rows(preview_metadata(model, "ui")["preview"]) == [("The", "secret")]
    assert "secret" not in str(preview_metadata(model, "store"))
    assert "secret" not in str({**outcome_metadata(version.stats), **figures_metadata(version.stats)})


def test_nothing_to_show_is_no_label(store: Store) -> None:
    version = seal(store, Draft({"documents": Part("table", ())}), asset="unique_documents")

    for where in ("ui", "store"):
        assert preview_metadata(Dataset("unique_documents", (version,), store), where) == {}
