"""`corpusmill reproduce`: what a version was made from and with, and whether it comes out the same again."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

import jobs.rebuild
from jobs.build import ASSETS, build_definitions, full_range
from jobs.command import main
from jobs.environment import PROFILE_VARIABLE, SET_VARIABLE
from jobs.rebuild import LOSS_TOLERANCE, Training
from pipelines.costs.account import Account
from pipelines.costs.ledger import RUN_LOCK, Ledger, beginnings
from pipelines.dataset import Draft, Version
from pipelines.prices.book import load_book
from pipelines.processes import process_identity
from pipelines.store import Store
from resources.settings import Profile, load_profile
from tests.jobs.corpus import make_profile, write_profile
from tests.jobs.processes import COMMAND, Mill, mills

LINEAGE = {
    ("raw_documents", "books"),
    ("raw_documents", "web"),
    ("clean_documents", "books"),
    ("clean_documents", "web"),
    ("compliance_audit", "books"),
    ("compliance_audit", "web"),
    ("duplicate_clusters", ""),
    ("unique_documents", "books"),
    ("unique_documents", "web"),
    ("perplexity_model", ""),
    ("toxicity_scores", "web"),
    ("perplexity_scores", "web"),
    ("contamination_scores", "web"),
    ("filtered_documents", "web"),
}
"""What filtered_documents[web] is made from, and itself."""


def mill(folder: Path, selection: str) -> Profile:
    profile = make_profile(folder)
    with dg.DagsterInstance.ephemeral() as instance:
        definitions = build_definitions(profile)
        assets = dg.AssetSelection.from_string(selection).resolve(definitions.resolve_asset_graph())
        assert (
            definitions.resolve_job_def("full_job")
            .execute_in_process(instance=instance, tags=full_range(profile), asset_selection=list(assets))
            .success
        )
    return profile


@pytest.fixture(scope="module")
def milled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything up to the filtered documents has been made."""
    folder = tmp_path_factory.mktemp("milled")
    mill(folder, "*filtered_documents")
    return folder


class Copy:
    """A copy of it that a test may damage, and the command at work there."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture) -> None:
        self.folder, self._capsys = folder, capsys
        self.profile = load_profile(write_profile(folder))
        self.store = Store(self.profile.store_url)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.profile.ledger_url)

    def version(self, asset: str, partition: str = "") -> Version:
        pointer = self.ledger.current(asset, partition)
        assert pointer is not None
        return Version.load(self.store, pointer.version)

    def reproduce(self, *arguments: str) -> int:
        return main(["reproduce", *arguments, "--profile", str(self.folder / "profile.yaml")])

    def told(self) -> str:
        captured = self._capsys.readouterr()
        return captured.out + captured.err

    def verify(self, dataset: str = "filtered_documents[web]") -> tuple[int, dict[str, Any]]:
        self._capsys.readouterr()
        code = self.reproduce(dataset, "--verify", "--json")
        return code, json.loads(self._capsys.readouterr().out)

    def files(self) -> dict[str, bytes]:
        """Everything in the store that lasts."""
        root = Path(self.store.root)
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def left(self) -> list[Path]:
        """What a verification has left behind."""
        return list(Path(self.store.root).glob("work/reproduce*"))

    def damage(self, asset: str, partition: str, part: str) -> str:
        """Change one byte of an object, not its size."""
        name = self.version(asset, partition).parts[part].shards[0].object
        path = self.store.path(name)
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        return name

    def forget_beginnings(self) -> None:
        """As if the run were older than the record."""
        with sa.create_engine(self.profile.ledger_url).begin() as sql:
            sql.execute(beginnings.delete())


@pytest.fixture
def copy(milled: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Copy:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    for name in (PROFILE_VARIABLE, SET_VARIABLE):
        monkeypatch.setenv(name, "")
    folder = tmp_path / "copy"
    shutil.copytree(milled, folder)
    return Copy(folder, capsys)


def outcomes(said: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(v["asset"], v["partition"]): v["outcome"] for v in said["verdicts"]}


def others_same(said: dict[str, Any], but: tuple[str, str]) -> bool:
    return all(outcome == "same" for place, outcome in outcomes(said).items() if place != but)


def other_recipe(monkeypatch: pytest.MonkeyPatch, asset: str, **fields: Any) -> None:
    changed = [replace(recipe, **fields) if recipe.name == asset else recipe for recipe in ASSETS]
    monkeypatch.setattr(jobs.rebuild, "ASSETS", changed)


def other_body(monkeypatch: pytest.MonkeyPatch, asset: str, change: Callable[[Draft], Draft]) -> None:
    """Have an asset's code do something else under the same version."""
    body = {recipe.name: recipe.body for recipe in ASSETS}[asset]

    @wraps(body)
    def changed(*given: Any, **named: Any) -> Draft:
        return change(body(*given, **named))

    other_recipe(monkeypatch, asset, body=changed)


# -- what it was made from and with ---------------------------------------------------------------------------------


def test_as_json_everything_that_a_version_was_made_from_and_with(copy: Copy) -> None:
    version = copy.version("filtered_documents", "web")

    assert copy.reproduce("filtered_documents[web]", "--json") == 0
    said = json.loads(copy.told())

    assert {key: said[key] for key in ("version", "asset", "partition", "params", "code_version")} == {
        "version": version.id,
        "asset": "filtered_documents",
        "partition": "web",
        "params": version.params,
        "code_version": version.code_version,
    }
    assert said["run"] == copy.ledger.current("filtered_documents", "web").run
    assert said["began_with"].keys() == {"profile", "lock", "corpusmill", "commit", "dirty", "python", "platform"}
    assert said["began_with"]["profile"]["name"] == "test"
    assert "pyarrow==" + __import__("pyarrow").__version__ in said["began_with"]["lock"]
    assert {(member["asset"], member["partition"]) for member in said["lineage"]} == LINEAGE
    seen: set[str] = set()
    for member in said["lineage"]:
        assert {pin for _, _, pin in member["inputs"]} <= seen, "each after its inputs"
        seen.add(member["version"])


def test_as_text_a_summary(copy: Copy) -> None:
    version = copy.version("filtered_documents", "web")

    assert copy.reproduce(f"filtered_documents@{version.id[:6]}") == 0
    told = copy.told()

    assert f"filtered_documents[web]@{version.id}" in told
    assert "pyarrow " + __import__("pyarrow").__version__ in told
    assert f"code version {version.code_version}" in told
    assert "perplexity_model" in told


def test_the_lock_and_the_profile_as_files_that_can_be_used(copy: Copy, tmp_path: Path) -> None:
    target = tmp_path / "then"

    assert copy.reproduce("filtered_documents[web]", "--write", str(target)) == 0

    moved = {"store", "ledger", "sources"}  # the run that is told of was in another folder
    then = load_profile(target / "profile.yaml")
    assert then.model_dump(exclude=moved) == copy.profile.model_dump(exclude=moved)
    assert then.source_names == copy.profile.source_names
    assert "pyarrow==" in (target / "requirements.txt").read_text()
    copy.told()
    assert copy.reproduce("filtered_documents[web]", "--write", str(target)) == 1
    assert "exists already; name another folder" in copy.told()


def test_an_old_run_has_no_record_and_says_so(copy: Copy, tmp_path: Path) -> None:
    copy.forget_beginnings()

    assert copy.reproduce("filtered_documents[web]", "--json") == 0
    assert json.loads(copy.told())["began_with"] is None
    assert copy.reproduce("filtered_documents[web]") == 0
    assert "has no record of what it began with" in copy.told()
    assert copy.reproduce("filtered_documents[web]", "--write", str(tmp_path / "then")) == 1
    assert "so there is nothing to write" in copy.told()
    assert copy.verify()[1]["reproduced"], "it can be made again all the same"


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("filtered_documents", "can be filtered_documents[books]@"),
        ("filtered_documents[news]", "no dataset 'filtered_documents[news]' has been made"),
        ("filtered_documents[web]@zz", "no dataset 'filtered_documents[web]@zz' has been made"),
    ],
)
def test_one_sentence_for_what_is_ambiguous_or_unknown(copy: Copy, wanted: str, told: str) -> None:
    assert copy.reproduce(wanted) == 1

    said = copy.told()
    assert told in said
    assert said.count("\n") == 1


# -- making it again ------------------------------------------------------------------------------------------------


def test_a_version_comes_out_the_same_and_nothing_stored_is_touched(copy: Copy) -> None:
    before = copy.files()

    code, said = copy.verify()

    assert code == 0 and said["reproduced"]
    assert outcomes(said).keys() == LINEAGE
    for verdict in said["verdicts"]:
        version = copy.version(verdict["asset"], verdict["partition"])
        assert verdict["outcome"] == "same"
        assert verdict["rebuilt"] == verdict["version"] == version.id
        assert verdict["bytes_compared"] == sum(part.bytes for part in version.parts.values())
        assert (verdict["bytes_compared"] > 0) is (verdict["asset"] != "contamination_scores")  # nothing looked for
    assert copy.files() == before
    assert not copy.left()


def test_it_waits_for_no_run_and_keeps_none_waiting(copy: Copy) -> None:
    copy.ledger.take_lock(RUN_LOCK, "a run", process_identity(os.getppid()))

    assert copy.verify("raw_documents[web]")[0] == 0


def test_the_verdict_is_a_table_and_the_last_line_says_it(copy: Copy) -> None:
    assert copy.reproduce("clean_documents[web]", "--verify") == 0

    told = copy.told()
    version = copy.version("clean_documents", "web").id
    assert "✓ raw_documents[web]" in told
    assert told.splitlines()[-1].startswith(f"clean_documents[web]@{version} is reproduced: ")


def test_what_it_used_is_overhead(copy: Copy) -> None:
    def account() -> Account:
        return Account.read(copy.ledger, load_book(copy.profile.prices_path))

    before = account().buckets()

    _, said = copy.verify("clean_documents[web]")

    after = account().buckets()
    attempt = account().attempt(said["ledger_id"])
    assert attempt.charge.usd > 0
    assert after.overhead == before.overhead + attempt.charge.usd
    assert (after.published, after.waste, after.salvaged) == (before.published, before.waste, before.salvaged)
    assert float(attempt.charge.usd) == said["usd"]


def test_a_damaged_object_is_found_and_its_dataset_named(copy: Copy) -> None:
    name = copy.damage("toxicity_scores", "web", "toxicity")

    code, said = copy.verify()

    assert code == 1 and not said["reproduced"]
    assert outcomes(said)["toxicity_scores", "web"] == "damaged"
    assert others_same(said, ("toxicity_scores", "web")), "its readers are made from what came out again"
    assert name[:16] in next(v["remark"] for v in said["verdicts"] if v["outcome"] == "damaged")


def test_bytes_that_gc_removed_are_not_missed_by_a_version_that_comes_out_again(copy: Copy) -> None:
    for shard in copy.version("toxicity_scores", "web").parts["toxicity"].shards:
        copy.store.path(shard.object).unlink()

    code, said = copy.verify()

    assert code == 0
    (gone,) = [v for v in said["verdicts"] if v["remark"]]
    assert (gone["asset"], gone["partition"]) == ("toxicity_scores", "web")
    assert "no longer stored" in gone["remark"]


def test_changed_and_vanished_files_of_a_source_are_told_as_that(copy: Copy) -> None:
    file = copy.folder / "web" / "part 1.jsonl"
    file.write_text(file.read_text().replace("village", "forest", 1))
    code, changed = copy.verify()
    shutil.rmtree(copy.folder / "web")
    _, vanished = copy.verify("raw_documents[web]")

    assert code == 1
    assert outcomes(changed)["raw_documents", "web"] == outcomes(vanished)["raw_documents", "web"] == "source changed"
    assert others_same(changed, ("raw_documents", "web")), "they are made from what was read then"
    for said in (changed, vanished):
        (told,) = [v["remark"] for v in said["verdicts"] if v["asset"] == "raw_documents" and v["partition"] == "web"]
        assert told.startswith("the files of source web are not what they were")


def test_a_touched_file_with_the_same_content_is_no_other_file(copy: Copy) -> None:
    os.utime(copy.folder / "web" / "part 1.jsonl")

    assert copy.verify("raw_documents[web]")[0] == 0


def test_a_version_of_other_code_gets_no_verdict_but_the_code_that_it_needs(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_recipe(monkeypatch, "clean_documents", stage_versions=(99,))

    code, said = copy.verify("clean_documents[web]")

    assert code == 1
    assert outcomes(said) == {("raw_documents", "web"): "same", ("clean_documents", "web"): "other code"}
    made_by = copy.version("clean_documents", "web").code_version
    remark = said["verdicts"][-1]["remark"]
    assert remark.startswith(f"made by code version {made_by}, today's is 99; its run worked with corpusmill ")


def test_other_bytes_under_the_same_code_version_are_found(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_first_shard(draft: Draft) -> Draft:
        part = draft.parts["documents"]
        return Draft({**draft.parts, "documents": replace(part, shards=part.shards[1:])}, draft.stats)

    other_body(monkeypatch, "clean_documents", without_first_shard)

    code, said = copy.verify("clean_documents[web]")

    assert code == 1
    verdict = said["verdicts"][-1]
    assert verdict["outcome"] == "differs" and verdict["rebuilt"] != verdict["version"]
    assert "part documents came out otherwise; the packages are those of its run" in verdict["remark"]


def test_other_figures_are_found_where_the_id_is_equal(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    other_body(monkeypatch, "clean_documents", lambda draft: Draft(draft.parts, draft.stats | {"documents_in": 7}))

    code, said = copy.verify("clean_documents[web]")

    assert code == 1
    verdict = said["verdicts"][-1]
    assert verdict["rebuilt"] == verdict["version"]
    assert "other figures: documents_in" in verdict["remark"]


def test_an_interrupt_leaves_nothing_behind_but_its_cost(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(draft: Draft) -> Draft:
        raise KeyboardInterrupt

    other_body(monkeypatch, "clean_documents", interrupt)
    before = copy.files()

    assert copy.reproduce("clean_documents[web]", "--verify") == 130

    assert "Nothing was kept" in copy.told()
    assert copy.files() == before
    assert not copy.left()
    last = Account.read(copy.ledger, load_book(copy.profile.prices_path)).attempts[-1]
    assert (last.role, last.status) == ("coordinator", "cancelled")


def test_what_a_killed_verification_left_is_removed_by_the_next(copy: Copy) -> None:
    left = Path(copy.store.root) / "work" / "reproduce" / "left"
    left.mkdir(parents=True)
    (left / "object").write_bytes(b"half")

    assert copy.verify("raw_documents[web]")[0] == 0

    assert not copy.left()


def test_a_loss_within_the_tolerance_passes_whatever_the_weights() -> None:
    near, far = 5.0 * (1 + LOSS_TOLERANCE / 2), 5.0 * (1 + LOSS_TOLERANCE * 2)

    assert Training(False, {"loss": (5.0, near)}).within_tolerance
    assert not Training(False, {"loss": (5.0, 5.0), "validation_loss": (5.0, far)}).within_tolerance
    assert str(Training(False, {"loss": (5.0, 4.5)})) == (
        "weights not equal; loss 5.0000, now 4.5000 (-0.5000); allowed ±2%"
    )


@pytest.mark.slow
def test_a_model_is_trained_again_and_compared_by_its_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="needs the train group")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    monkeypatch.setenv(PROFILE_VARIABLE, "")
    mill(tmp_path, "*pretrained_model")
    copy = Copy(tmp_path, capsys)
    before = copy.files()

    code, said = copy.verify("pretrained_model")

    assert code == 0
    model = said["verdicts"][-1]
    stats = copy.version("pretrained_model").stats
    assert model["outcome"] == "same" and model["rebuilt"] == model["version"]
    assert model["training"]["within_tolerance"]
    assert model["training"]["losses"]["loss"]["then"] == stats["loss"]
    assert abs(model["training"]["losses"]["validation_loss"]["now"] - stats["validation_loss"]) < 0.1
    assert all(v["training"] is None for v in said["verdicts"][:-1])
    assert copy.files() == before
    assert not copy.left()


@pytest.fixture
def make_mill(tmp_path: Path) -> Iterator[Callable[..., Mill]]:
    yield from mills(tmp_path)


@pytest.mark.slow
def test_ctrl_c_ends_every_process_and_removes_what_was_made(make_mill: Callable[..., Mill]) -> None:
    mill = make_mill("mill", slow=0.5)
    mill.run("--select", "*clean_documents")
    work = Path(mill.store.root) / "work" / "reproduce"
    run = mill.start("reproduce", "clean_documents[web]", "--verify", program=[*COMMAND])
    run.reaches(lambda: "raw_documents" in run.told and list(work.rglob("objects")), "clean_documents was at work")

    run.signal(signal.SIGINT, to_all=True)

    assert run.end() == 130, run.told
    assert "Nothing was kept" in run.told
    mill.wait_until_quiet()
    assert not work.exists()
    assert mill.coordinators()[-1].status == "cancelled"
