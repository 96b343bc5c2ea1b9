"""The toxicity screen: the package's own probabilities, and what passages are for."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.filters.toxicity import screen as screen_module
from pipelines.filters.toxicity.screen import Screen, extract_screen
from tests.pipelines.filters.corpus import comments, paragraphs, tweets

WHOLE = 10**9


def test_whole_texts_score_as_with_the_package_itself(screen: Screen) -> None:
    from profanity_check import predict_prob

    texts, _ = comments()
    assert screen.score(pa.array(texts), WHOLE) == pytest.approx(predict_prob(texts), abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters(exclude_characters="\u0130", exclude_categories=["Cs"]), max_size=60))
def test_any_text_scores_as_with_the_package_itself(screen: Screen, text: str) -> None:
    from profanity_check import predict_prob

    assert screen.score(pa.array([text]), WHOLE) == pytest.approx(predict_prob([text]), abs=1e-9)


def test_labelled_comments_are_told_apart(screen: Screen) -> None:
    """The bounds are the package's own: 0.98 on these tweets, but 0.84 on comments that rarely name a slur."""
    from sklearn.metrics import roc_auc_score

    texts, toxic = tweets(3000)
    assert roc_auc_score(toxic, screen.score(pa.array(texts), 500)) > 0.97
    texts, toxic = comments()
    assert roc_auc_score(toxic, screen.score(pa.array(texts), 500)) > 0.84


def test_an_insult_is_found_in_a_long_clean_text(screen: Screen) -> None:
    insult = "You are a fucking idiot and I hate you, piece of shit."
    clean = "".join(paragraphs("alice_11.txt")[3:30])
    scores = screen.score(pa.array([clean, f"{clean}\n\n{insult}\n\n{clean}", f"{clean} {insult} {clean}"]), 500)
    assert scores[0] < 0.95
    assert (scores[1:] > 0.99).all()
    assert screen.score(pa.array([f"{clean}\n\n{insult}\n\n{clean}"]), WHOLE)[0] < 0.3


def test_a_text_scores_as_its_worst_passage(screen: Screen) -> None:
    """Given two lines longer than half a window, they are the passages."""
    kind, rude = "what a lovely garden you have there my friend", "you stupid, stupid moron and idiot, shut up please"
    alone = screen.score(pa.array([kind, rude]), WHOLE)
    assert screen.score(pa.array([f"{kind}\n{rude}"]), 60)[0] == pytest.approx(max(alone))


def test_a_short_rest_belongs_to_the_passage_before_it(screen: Screen) -> None:
    kind = "what a lovely garden you have there my friend"
    together = screen.score(pa.array([f"{kind}\nhell"]), WHOLE)[0]
    assert screen.score(pa.array([f"{kind}\nhell"]), 50)[0] == pytest.approx(together)
    assert screen.score(pa.array(["hell"]), 50)[0] > together


def test_texts_without_known_words_get_the_score_of_silence(screen: Screen) -> None:
    scores = screen.score(pa.array(["", " ", "!!!", None, "qqqqzzzz"]), 500)
    assert len(set(np.round(scores, 12))) == 1
    assert scores[0] < 0.5


def test_the_screen_is_one_file_with_the_same_bytes_every_time(screen: Screen, tmp_path: Path) -> None:
    assert screen.to_bytes() == extract_screen().to_bytes()
    (tmp_path / "screen.npz").write_bytes(screen.to_bytes())
    texts = pa.array(["damn", "hello there"])
    assert Screen.open(tmp_path / "screen.npz").score(texts, 500).tolist() == screen.score(texts, 500).tolist()


def test_a_package_with_another_kind_of_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(screen_module._EXPECTED, "ngram_range", (1, 2))
    with pytest.raises(RuntimeError, match="a form that the toxicity screen does not know"):
        extract_screen()
