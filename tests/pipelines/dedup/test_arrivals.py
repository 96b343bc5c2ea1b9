"""What happens to documents that were kept before, and to those that are only compared with."""

import pytest

from pipelines.dedup.params import DedupParams
from pipelines.store import Store
from tests.pipelines.dedup.corpus import Deduplicated, deduplicate, prose

APPEND_ONLY = DedupParams(append_only=True)


def arrives(store: Store, config: DedupParams) -> tuple[Deduplicated, Deduplicated]:
    """A short text, and later a longer one that is similar, in an earlier source."""
    yesterday = deduplicate(store, {"trusted": [], "web": [{"short": prose(100)}, {"other": prose(50, 900)}]}, config)
    today = deduplicate(
        store,
        {"trusted": [{"long": prose(105)}], "web": [{"short": prose(100)}, {"other": prose(50, 900), "new": "new"}]},
        config,
        earlier=yesterday.clusters,
    )
    return yesterday, today


def test_usually_what_arrives_can_evict_what_was_kept(store: Store) -> None:
    _, today = arrives(store, DedupParams())
    assert today.removed == {"short": ("long", "minhash")}


def test_in_append_only_mode_what_was_kept_stays_and_its_shards_with_it(store: Store) -> None:
    yesterday, today = arrives(store, APPEND_ONLY)
    assert today.removed == {"long": ("short", "minhash")}
    assert today.kept == {"short", "other", "new"}
    assert today.unique["web"].parts["documents"].shards[0] == yesterday.unique["web"].parts["documents"].shards[0]


def test_what_was_removed_comes_back_when_what_stood_for_it_is_gone(store: Store) -> None:
    yesterday = deduplicate(store, {"s": [{"long": prose(105), "short": prose(100)}]}, APPEND_ONLY)
    assert yesterday.kept == {"long"}
    today = deduplicate(store, {"s": [{"short": prose(100)}]}, APPEND_ONLY, earlier=yesterday.clusters)
    assert today.kept == {"short"}


def test_a_text_that_changed_has_to_arrive_anew(store: Store) -> None:
    yesterday = deduplicate(store, {"s": [{"a": prose(20), "b": prose(100)}]}, APPEND_ONLY)
    assert yesterday.kept == {"a", "b"}
    changed = {"s": [{"a": prose(105), "b": prose(100)}]}
    assert deduplicate(store, changed, APPEND_ONLY, earlier=yesterday.clusters).kept == {"b"}
    assert deduplicate(store, changed, APPEND_ONLY).kept == {"a"}


def test_a_version_that_compared_otherwise_binds_nobody(store: Store) -> None:
    texts = {"s": [{"long": prose(105), "short": prose(100)}]}
    strict = deduplicate(store, texts, APPEND_ONLY.model_copy(update={"threshold": 1.0}))
    assert strict.kept == {"long", "short"}
    assert deduplicate(store, texts, APPEND_ONLY, earlier=strict.clusters).kept == {"long"}


@pytest.mark.parametrize("days", [2, 3])
def test_a_day_on_which_nothing_arrives_changes_nothing(store: Store, days: int) -> None:
    yesterday, made = arrives(store, APPEND_ONLY)
    for _ in range(days):
        sources = {
            "trusted": [{"long": prose(105)}],
            "web": [{"short": prose(100)}, {"other": prose(50, 900), "new": "new"}],
        }
        again = deduplicate(store, sources, APPEND_ONLY, earlier=made.clusters)
        assert again.clusters.shards("clusters") == made.clusters.shards("clusters")
        made = again
    assert yesterday.kept <= made.kept


def test_what_is_in_a_source_to_compare_with_goes_and_the_source_with_it(store: Store) -> None:
    texts = {
        "web": [{"exam copied": prose(60), "own": prose(60, 500), "near": prose(105, 2000)}],
        "exams": [{"exam": prose(60), "the same again": prose(60), "long exam": prose(100, 2000)}],
    }
    made = deduplicate(store, texts, DedupParams(against=["exams"]))
    assert made.kept == {"own"}
    assert made.removed["exam copied"][1] == "exact"
    assert made.removed["near"] == ("long exam", "minhash")
    stats = made.unique["exams"].stats
    assert stats["dropped"] == {"exact": 0, "simhash": 0, "minhash": 0, "only_compared": 3}
    assert (stats["documents_in"], stats["documents_out"], stats["only_compared"]) == (3, 0, True)
    assert made.clusters.version.stats["copies_left"] == 0


def test_nothing_stays_for_an_exam_that_resembles_another(store: Store) -> None:
    # b resembles a and c, which are unlike: were b removed in favour of a, what resembles b alone would stay.
    a, b, c = prose(100), prose(100, 8), prose(100, 16)
    made = deduplicate(
        store, {"exams": [{"a": a, "b": b}], "web": [{"c": c}]}, DedupParams(against=["exams"], threshold=0.8)
    )
    assert made.removed["c"][0] == "b"
    assert made.kept == set()


def test_an_exam_that_is_added_removes_even_what_was_kept_before(store: Store) -> None:
    config = DedupParams(against=["exams"], append_only=True)
    yesterday = deduplicate(store, {"web": [{"page": prose(60)}], "exams": []}, config)
    assert yesterday.kept == {"page"}
    texts = {"web": [{"page": prose(60)}], "exams": [{"exam": prose(60)}]}
    assert deduplicate(store, texts, config, earlier=yesterday.clusters).kept == set()
