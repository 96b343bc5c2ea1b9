"""Which language a text is in; the oracle is the declaration of human rights."""

import re
from pathlib import Path

import pytest

from pipelines.clean.language import identify
from pipelines.clean.repair import repair

SHARED = Path(__file__).parents[3] / "../shared/data"
LANGUAGES = {
    "arb": "ar",
    "cmn_hans": "zh",
    "deu_1996": "de",
    "eng": "en",
    "fra": "fr",
    "heb": "he",
    "hin": "hi",
    "jpn": "ja",
    "kor": "ko",
    "rus": "ru",
    "spa": "es",
    "tha": "th",
    "vie": "vi",
}


@pytest.mark.parametrize("name", LANGUAGES)
def test_articles_of_the_declaration_of_human_rights(name: str) -> None:
    path = SHARED / f"multilingual/udhr_{name}.xml"
    if not path.exists():
        pytest.skip("the shared data folder is not beside this repository")
    articles = [repair(text).text for text in re.findall(r"<para>(.*?)</para>", path.read_text(), re.DOTALL)]
    assert len(articles) > 50
    right = [score >= 0.65 for language, score in map(identify, articles) if language == LANGUAGES[name]]
    assert sum(right) >= 0.85 * len(articles)
    language, score = identify("\n".join(articles))
    assert (language, score >= 0.9) == (LANGUAGES[name], True)


@pytest.mark.parametrize("text", ["", " \n", "12345 67.8", "!?#$%", "🙂🙂", "\u0301"])
def test_a_text_without_letters_is_undetermined(text: str) -> None:
    assert identify(text) == ("und", 0.0)


def test_capitals_and_markup_do_not_hide_english() -> None:
    assert identify("THIS IS THE LICENCE UNDER WHICH THE SOFTWARE IS PROVIDED TO EVERYBODY")[0] == "en"
    badges = "[![b](https://x.io/b.svg)](https://x.io) | --- | `pip install x` \n" * 3
    language, score = identify(badges + "This library reads the files of a folder and tells you what is in them.")
    assert (language, score > 0.65) == ("en", True)


def test_a_chinese_text_with_some_kana_stays_chinese_and_greek_letters_do_not_make_greek() -> None:
    assert identify("人人生而自由，在尊严和权利上一律平等。の他们赋有理性和良心，并应以兄弟关系相对待。")[0] == "zh"
    assert identify("the angle α and the angle β are equal, so the lines are parallel")[0] == "en"
