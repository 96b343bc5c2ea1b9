"""`corpusmill export`: token shards as tables of token lists."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from jobs.command import main
from pipelines.costs.ledger import Ledger, Pointer
from pipelines.engines.local import Engine
from pipelines.store import Store
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from resources.settings import Profile
from tests.jobs.corpus import make_profile
from tests.pipelines.tokens.corpus import documents, sealed
from tests.pipelines.tokens.tokenizers import dataset_like

pytestmark = pytest.mark.usefixtures("own_environment")


def publish_shards(profile: Profile, source: str, kind: str) -> None:
    """Token shards of a source by a tokenizer of some kind."""
    store = Store(profile.store_url)
    data = documents(store, {source: [{"a": "to be"}]})
    made = tokenize(data, dataset_like(store, kind), TokenizeParams(), Engine(store, 1))
    version = sealed(store, made, "token_shards", source).version
    Ledger(profile.ledger_url).publish([Pointer("token_shards", source, version.id, "attempt", "run")])


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A profile whose ledger knows token shards of two sources, and documents."""
    profile = make_profile(tmp_path)
    store = Store(profile.store_url)
    tokenizer = dataset_like(store, "llama3")
    data = documents(store, {"books": [{"a": "to be"}], "web": [{"b": "or not"}, {"c": "to be"}]})
    pointers = [Pointer("filtered_documents", v.partition, v.id, "attempt", "run") for v in data.versions]
    for source in ("books", "web"):
        draft = tokenize(data.of(source), tokenizer, TokenizeParams(), Engine(store, 1))
        made = sealed(store, draft, "token_shards", source).version
        pointers.append(Pointer("token_shards", source, made.id, "attempt", "run"))
    Ledger(profile.ledger_url).publish(pointers)
    return profile


def corpusmill(tmp_path: Path, *arguments: str) -> int:
    return main([*arguments, "--profile", str(tmp_path / "profile.yaml")])


@pytest.mark.usefixtures("profile")
def test_all_sources_or_one_are_written(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert corpusmill(tmp_path, "export", "token_shards", str(tmp_path / "all"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["documents"], len(told["files"])) == (3, 3)
    assert [pq.read_table(file)["doc_id"].to_pylist() for file in told["files"]] == [["a"], ["b"], ["c"]]

    assert corpusmill(tmp_path, "export", "token_shards[web]", str(tmp_path / "web"), "--format", "arrow") == 0
    assert "of 2 documents to 2 files" in capsys.readouterr().out
    assert len(list((tmp_path / "web").glob("web-*.arrow"))) == 2


@pytest.mark.usefixtures("profile")
@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("filtered_documents", "filtered_documents holds no token shards; token_shards and training_blend do"),
        ("nothing", "no dataset 'nothing' has been made"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture, dataset: str, message: str
) -> None:
    assert corpusmill(tmp_path, "export", dataset, str(tmp_path / "out")) == 1
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


@pytest.mark.usefixtures("profile")
def test_a_folder_that_holds_them_already_is_told(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert corpusmill(tmp_path, "export", "token_shards", str(tmp_path / "out")) == 0
    assert corpusmill(tmp_path, "export", "token_shards", str(tmp_path / "out")) == 1
    assert "exists already; name a new folder" in capsys.readouterr().err


def test_sources_with_other_tokenizers_are_not_mixed_and_one_that_is_no_source_any_more_is_left_out(
    profile: Profile, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    publish_shards(profile, "gone", "neox")
    assert corpusmill(tmp_path, "export", "token_shards", str(tmp_path / "out"), "--json") == 0
    assert not any("gone" in file for file in json.loads(capsys.readouterr().out)["files"])

    publish_shards(profile, "web", "neox")
    assert corpusmill(tmp_path, "export", "token_shards", str(tmp_path / "mixed")) == 1
    assert "encoded with different tokenizers: run token_shards for all" in capsys.readouterr().err
    assert not (tmp_path / "mixed").exists()
    assert corpusmill(tmp_path, "export", "token_shards[web]", str(tmp_path / "one")) == 0


def test_a_profile_without_any_of_its_sources_is_told(
    profile: Profile, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "profile.yaml"
    content = yaml.safe_load(path.read_text())
    content["sources"] = [{**content["sources"][0], "name": "pages"}]
    content["reference_sources"] = ["pages"]
    path.write_text(yaml.safe_dump(content))
    assert corpusmill(tmp_path, "export", "token_shards", str(tmp_path / "out")) == 1
    assert "was made of no source of this profile; its sources are pages" in capsys.readouterr().err
