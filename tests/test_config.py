"""What ships under config/: profiles and price books load, and the page about profiles names every key."""

from pathlib import Path
from types import ModuleType

import pytest

from pipelines.prices.book import load_book
from resources.settings import HOME, load_profile
from tests.test_docs import script

CONFIG = HOME / "config"


@pytest.mark.parametrize("path", sorted(CONFIG.glob("*.yaml")), ids=lambda path: path.name)
def test_a_shipped_profile_loads_with_its_price_book(path: Path) -> None:
    profile = load_profile(path)

    assert profile.name == path.stem
    assert load_book(profile.prices_path).core_hour.usd > 0


@pytest.mark.parametrize("path", sorted((CONFIG / "prices").glob("*.yaml")), ids=lambda path: path.name)
def test_a_shipped_price_book_loads(path: Path) -> None:
    assert load_book(path).name == path.stem


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return script("generate_profile")


def test_the_page_about_profiles_has_a_line_for_every_key(generator: ModuleType) -> None:
    page = generator.PAGE.read_text(encoding="utf-8")
    headings = dict(generator.sections())

    assert len(generator.keys()) > 80
    for heading, model in headings.items():
        section = page.split(f"\n### {heading}\n")[1].split("\n### ")[0]
        for key in model.model_fields:
            assert f"\n| `{key}` | " in section, f"{heading}.{key}"


def test_the_production_profile_keeps_text_out_of_the_event_log_and_refuses_to_train_on_a_cpu() -> None:
    profile = load_profile(CONFIG / "production.yaml")

    assert profile.previews == "store"
    assert profile.training.device == "cuda"
    assert {source.reader for source in profile.sources} == {"jsonl", "parquet"}


def test_the_production_model_has_124_million_parameters() -> None:
    torch = pytest.importorskip("torch", reason="needs the train group")
    pytest.importorskip("transformers", reason="needs the train group")
    from pipelines.training.model import build_model, parameter_counts

    profile = load_profile(CONFIG / "production.yaml")

    with torch.device("meta"):  # sizes only, no memory
        model = build_model(profile.training, profile.tokenizer.vocabulary, {})

    assert round(parameter_counts(model)[0] / 1e6) == 124
    assert profile.training.batch_size * profile.training.sequence_length == 524_288


def test_a_blend_packed_for_other_sequences_than_training_reads_is_refused_before_anything_runs(tmp_path: Path) -> None:
    text = (CONFIG / "demo.yaml").read_text(encoding="utf-8")
    packed = "blend: {packing: best_fit, sequence_length: %d}\n"
    profile = tmp_path / "demo.yaml"

    profile.write_text(text + packed % 128, encoding="utf-8")
    assert load_profile(profile).blend.sequence_length == 128

    profile.write_text(text + packed % 64, encoding="utf-8")
    with pytest.raises(ValueError, match=r"blend.sequence_length is 64 and training.sequence_length 128: make them eq"):
        load_profile(profile)
