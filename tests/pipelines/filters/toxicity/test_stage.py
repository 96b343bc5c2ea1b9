"""Stage toxicity_scores: rows stay aligned, unknown languages stay unscored, what does not matter is not in the key."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.dataset import Draft, Part
from pipelines.engines.local import Engine
from pipelines.filters.toxicity.params import ToxicityParams
from pipelines.filters.toxicity.stage import score_toxicity
from pipelines.store import Store
from tests.pipelines.filters.corpus import documents, published

TEXTS = ["a lovely day in the garden", "you stupid fucking idiot", "ein schöner Tag", "", "日本語"]
LANGUAGES = ["en", "en", "de", None, "ja"]


def test_every_document_has_a_row_and_unknown_languages_get_null(store: Store, engine: Engine) -> None:
    given = documents(store, TEXTS, language=LANGUAGES, shard_rows=2)
    draft = score_toxicity(given, ToxicityParams(), engine)
    scored = published(store, draft, "toxicity_scores")
    assert [shard.rows for shard in scored.shards("toxicity")] == [2, 2, 1]
    assert scored.table("toxicity")["doc_id"].equals(given.table("documents")["doc_id"])
    kind, rude, *unknown = scored.table("toxicity")["toxicity"].to_pylist()
    assert kind < 0.3 < 0.9 < rude
    assert unknown == [None, None, None]
    assert scored.table("toxicity")["scorer"].to_pylist() == ["screen", "screen", None, None, None]
    assert scored.table("toxicity")["toxicity_mean"].to_pylist()[:2] == [kind, rude]  # one passage each
    assert scored.table("toxicity")["agreement"].null_count == 5
    assert scored.table("toxicity_screen")["screen"].to_pylist() == [kind, rude, None, None, None]
    assert draft.stats["scored_by"] == {"screen": 2}
    assert draft.stats["unknown_language"] == {"de": 1, "ja": 1, "und": 1}
    assert draft.stats["documents_in"] == draft.stats["documents_out"] == 5
    counts = draft.stats["histograms"]["toxicity"]["documents"]  # twenty bins over 0 to 1
    assert (sum(counts), sum(counts[:6]), counts[18] + counts[19]) == (2, 1, 1)


def test_documents_without_a_language_are_those_in_und(store: Store, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "any.txt").write_text("moron\n")
    given = documents(store, ["you stupid fucking idiot", "you moron"], language=[None, "en"])
    for wanted in ({"languages": ["und"]}, {"languages": [], "lexicons": {"und": str(tmp_path / "any.txt")}}):
        draft = score_toxicity(given, ToxicityParams.model_validate(wanted), engine)
        assert draft.stats["unknown_language"] == {"en": 1}


def test_a_second_run_does_nothing_again(store: Store, engine: Engine) -> None:
    given = documents(store, TEXTS)
    first = score_toxicity(given, ToxicityParams(), engine)
    again = engine.charged_to("later")
    assert score_toxicity(given, ToxicityParams(), again) == first
    assert all(result.reused for result in again.results)


def test_the_window_is_in_the_key(store: Store, engine: Engine) -> None:
    given = documents(store, TEXTS)
    score_toxicity(given, ToxicityParams(), engine)
    other = engine.charged_to("later")
    score_toxicity(given, ToxicityParams(window_bytes=80), other)
    assert [result.reused for result in other.results] == [True, False, True]  # one passage anyway: the same scores


def test_no_shards_and_empty_shards_are_no_problem(store: Store, engine: Engine) -> None:
    nothing = published(store, Draft({"documents": Part("table", ())}), "unique_documents", "none")
    draft = score_toxicity(nothing, ToxicityParams(), engine)
    assert draft.stats["documents_in"] == 0
    assert draft.parts["toxicity"].rows == 0


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValidationError):
        ToxicityParams(window_bytes=0)
