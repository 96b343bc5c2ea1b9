"""The profile: every mistake is told with its place in the YAML and what is allowed."""

from pathlib import Path

import pytest
from pydantic import Field

from pipelines.profile import Params, ProfileError, load


class Stage(Params):
    threshold: float = Field(default=0.75, ge=0, le=1)
    words: int = 5


class Source(Params):
    name: str


class Whole(Params):
    name: str
    dedup: Stage = Stage()
    sources: list[Source] = []


def profile(folder: Path, text: str, *overrides: str) -> Whole:
    path = folder / "p.yaml"
    path.write_text(text)
    return load(path, Whole, overrides)


def test_what_is_not_said_has_its_default(tmp_path: Path) -> None:
    loaded = profile(tmp_path, "name: mine\ndedup: {words: 8}")

    assert loaded == Whole(name="mine", dedup=Stage(threshold=0.75, words=8))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\ndedup: {treshold: 1}", "dedup.treshold is not a key; did you mean 'threshold'? allowed here: thr"),
        ("name: a\nsurces: []", "surces is not a key; did you mean 'sources'?"),
        ("name: a\ndedup: {threshold: 2}", "dedup.threshold: input should be less than or equal to 1, not 2"),
        ("name: a\ndedup: {threshold: .nan}", "dedup.threshold: input should be a finite number"),
        ("name: a\ndedup: {words: many}", "dedup.words: input should be a valid integer"),
        ("name: a\nsources: [{name: x}, {nam: y}]", "sources[1].nam is not a key"),
        ("name: a\nsources: [{}]", "sources[0].name is missing"),
        ("dedup: {}", "name is missing"),
        ("- a", "must hold keys and values"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_is_allowed(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ProfileError) as caught:
        profile(tmp_path, text)
    assert told in str(caught.value)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        profile(tmp_path, "nme: a\ndedup: {threshold: 2, words: x}")
    assert len(str(caught.value).splitlines()) == 4


def test_a_missing_profile_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"no profile at .*nowhere"):
        load(tmp_path / "nowhere.yaml", Whole)


def test_overrides_set_nested_values(tmp_path: Path) -> None:
    loaded = profile(tmp_path, "name: a", "dedup.threshold=0.8", "dedup.words=3", "name=b")

    assert loaded == Whole(name="b", dedup=Stage(threshold=0.8, words=3))


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("dedup.threshold", "write section.key=value"),
        ("sources=[]", "cannot change sources"),
        ("name.first=x", "name is a single value"),
        ("dedup.threshold=[", "not a YAML value"),
        ("dedup.threshold=7", "less than or equal to 1"),
        ("dedup.thresh=1", "dedup.thresh is not a key"),
    ],
)
def test_a_wrong_override_is_told(tmp_path: Path, override: str, told: str) -> None:
    with pytest.raises(ProfileError) as caught:
        profile(tmp_path, "name: a", override)
    assert told in str(caught.value)


def test_equal_profiles_have_equal_digests(tmp_path: Path) -> None:
    assert profile(tmp_path, "name: a").digest == profile(tmp_path, "name: a", "dedup.threshold=0.75").digest
    assert profile(tmp_path, "name: a").digest != profile(tmp_path, "name: b").digest
