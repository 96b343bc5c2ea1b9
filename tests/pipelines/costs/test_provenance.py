"""What a run began with: recorded once, equal texts once, and without passwords."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml
from packaging.requirements import Requirement

from pipelines.costs.ledger import Ledger, beginnings, texts
from pipelines.costs.provenance import Beginning, checkout, installed, masked, observe
from pipelines.profile import Params


class Settings(Params):
    """As much of a profile as is needed here."""

    name: str = "small"
    ledger: str = "postgresql://miller:pass/w0rd@db.example:5432/ledger"
    seed: int = 1


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def rows(url: str, table: sa.Table) -> int:
    with sa.create_engine(url).connect() as sql:
        return sql.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def test_a_beginning_says_profile_packages_python_and_code() -> None:
    began = observe(Settings())

    assert yaml.safe_load(began.profile)["seed"] == 1
    assert began.packages["pyarrow"] == __import__("pyarrow").__version__
    assert began.packages["PyYAML"] == yaml.__version__
    assert list(began.packages) == sorted(began.packages, key=lambda name: re.sub(r"[-_.]+", "-", name).lower())
    assert began.python.startswith("3.")
    assert f"corpusmill {began.corpusmill}" in began.code


def test_the_lock_is_a_file_that_pip_reads_without_the_project_itself() -> None:
    lines = [line for line in observe(Settings()).requirements.splitlines() if not line.startswith("#")]

    read = {requirement.name: str(requirement.specifier) for requirement in map(Requirement, lines)}

    assert read == {name: f"=={version}" for name, version in installed().items() if name != "corpusmill"}


def test_a_run_keeps_what_its_first_step_began_with(url: str) -> None:
    ledger, asked = Ledger(url), []

    def began_with(seed: int) -> Callable[[], Beginning]:
        return lambda: asked.append(seed) or observe(Settings(seed=seed))

    ledger.open_run("run", "digest", began_with(1))
    ledger.open_run("run", "digest", began_with(2))

    assert asked == [1]
    assert Ledger(url).began_with("run") == observe(Settings(seed=1))


def test_equal_profiles_and_locks_are_stored_once(url: str) -> None:
    ledger = Ledger(url)

    for number, seed in enumerate([1, 1, 2]):
        ledger.open_run(f"run {number}", "digest", lambda seed=seed: observe(Settings(seed=seed)))

    assert rows(url, beginnings) == 3
    assert rows(url, texts) == 3, "one lock, two profiles"


def test_a_ledger_from_before_goes_on_working(url: str) -> None:
    Ledger(url).open_run("old", "digest")
    with sa.create_engine(url).begin() as sql:
        beginnings.drop(sql)
        texts.drop(sql)

    ledger = Ledger(url)
    ledger.open_run("old", "digest", lambda: observe(Settings()))
    ledger.open_run("new", "digest", lambda: observe(Settings()))

    assert ledger.began_with("old") is None
    assert ledger.began_with("new") == observe(Settings())


def test_no_password_reaches_the_ledger(url: str, tmp_path: Path) -> None:
    Ledger(url).open_run("run", "digest", lambda: observe(Settings()))

    assert "postgresql://miller:***@db.example:5432/ledger" in Ledger(url).began_with("run").profile
    assert not [path for path in tmp_path.iterdir() if b"pass/w0rd" in path.read_bytes()]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://u:p@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u:p@ss@h/db", "postgresql://u:***@h/db"),
        ("postgresql://:p@h/db?sslmode=on", "postgresql://:***@h/db?sslmode=on"),
        ("postgresql://h/db?user=u&password=p&sslmode=on", "postgresql://h/db?user=u&password=***&sslmode=on"),
        ("postgresql://h:5432/db", "postgresql://h:5432/db"),
        ("s3://bucket/store", "s3://bucket/store"),
        ("a text: with an @ in it", "a text: with an @ in it"),
        (
            {"smtp_password": "p", "tokens": 60, "tokenizer": "bpe"},
            {"smtp_password": "***", "tokens": 60, "tokenizer": "bpe"},
        ),
        ({"alerts": [{"webhook": "https://h/secret"}]}, {"alerts": [{"webhook": "***"}]}),
        ({"api_key": ""}, {"api_key": ""}),
    ],
)
def test_secrets_are_masked_and_nothing_else(value: object, shown: object) -> None:
    assert masked(value) == shown


def test_a_checkout_tells_commit_and_local_changes(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert checkout(tmp_path) == (None, None)
    git("init")
    assert checkout(tmp_path) == (None, None), "nothing is committed"
    (tmp_path / "code.py").write_text("a = 1\n")
    git("add", "code.py")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD")

    assert checkout(tmp_path) == (commit, False)
    (tmp_path / "notes.txt").write_text("not tracked\n")
    assert checkout(tmp_path) == (commit, False)
    (tmp_path / "code.py").write_text("a = 2\n")
    assert checkout(tmp_path) == (commit, True)
    (tmp_path / "below").mkdir()
    assert checkout(tmp_path / "below") == (None, None), "the checkout is another project's"


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))

    assert checkout(tmp_path) == (None, None)
