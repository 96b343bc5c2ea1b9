"""The demonstration corpus, from a small environment that is written here."""

from collections.abc import Callable
from email.message import Message
from pathlib import Path

import pytest

from pipelines.ingest.environment import docstrings
from pipelines.ingest.licences import licence_of, permissive_expression
from pipelines.ingest.records import Record

LONG = "It is long enough to tell a reader something that the name of the thing alone does not tell. " * 2


def install(root: Path, name: str, files: dict[str, str], headers: str = "License-Expression: MIT") -> None:
    about = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{headers}\n\n# About {name}\n"
    files = files | {f"{about}/METADATA": metadata}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / about / "RECORD").write_text("".join(f"{path},,\n" for path in files) + f"{about}/RECORD,,\n")


@pytest.fixture
def environment(folder: Path) -> Path:
    install(
        folder,
        "alpha",
        {
            "alpha/__init__.py": f'"""{LONG}"""\nclass A:\n    def f(self):\n        """{LONG}"""\n',
            "alpha/broken.py": "def (:\n",
            "alpha/_vendor/other.py": f'"""{LONG}"""\n',
            "alpha/guide.md": "a guide",
            "alpha/tests/words.md": "not prose",
            "alpha-1.0.dist-info/licenses/LICENSE": "the MIT licence",
            "alpha-1.0.dist-info/licenses/AUTHORS": "somebody",
        },
    )
    install(folder, "beta", {"beta.py": "x = 1\n"}, "License: GPL-3.0")
    install(folder, "gamma", {"gamma.py": "y = 2\n"}, "Summary: no licence")
    install(folder, "corpusmill", {"corpusmill.py": "z = 3\n"})
    return folder


def test_docstrings_are_named_by_what_they_document(environment: Path, read: Callable) -> None:
    got = read(reader="environment", what="docstrings")
    assert set(got.texts) == {"alpha/__init__.py#<module>", "alpha/__init__.py#A.f"}
    assert got.documents[0]["license"] == "MIT"
    assert got.documents[0]["metadata"] == '{"package": "alpha", "version": "1.0"}'
    assert got.reasons["alpha/broken.py"] == "invalid_python"


def test_packages_without_a_permissive_licence_are_counted_with_their_words(environment: Path, read: Callable) -> None:
    got = read(reader="environment", what="code")
    assert set(got.texts) == {"alpha/__init__.py#0", "alpha/broken.py#0"}
    told = {row["reason"]: row["detail"] for row in got.rejects}
    assert told == {
        "licence_not_permissive": "beta-1.0 says 'GPL-3.0'",
        "licence_unknown": "gamma-1.0 names no licence",
    }
    assert got.draft.stats["files_left_out"] == {"editable_package": 1}
    assert len(read(reader="environment", what="code", errors="fail").documents) == 2


def test_readmes_and_licences(environment: Path, read: Callable) -> None:
    readmes = read(reader="environment", what="readmes").texts
    assert readmes == {"alpha-1.0.dist-info/METADATA#0": "# About alpha\n", "alpha/guide.md#0": "a guide"}
    assert set(read(reader="environment", what="licences").texts) == {
        "alpha-1.0.dist-info/licenses/AUTHORS#0",
        "alpha-1.0.dist-info/licenses/LICENSE#0",
    }


def test_patterns_choose_among_the_files_of_packages(environment: Path, read: Callable) -> None:
    got = read(reader="environment", what="code", exclude=["broken.py"])
    assert set(got.texts) == {"alpha/__init__.py#0"}
    assert got.draft.stats["files_left_out"] == {"editable_package": 1, "excluded": 1}


def test_a_file_that_the_package_lists_and_lacks_is_a_rejection(environment: Path, read: Callable) -> None:
    (environment / "alpha/__init__.py").unlink()
    assert read(reader="environment", what="code").reasons["alpha/__init__.py"] == "vanished_file"


def test_docstrings_of_nested_and_repeated_definitions() -> None:
    source = f'''
if True:
    def f():
        """{LONG}"""
        async def g():
            """{LONG}"""
else:
    def f():
        """{LONG}"""
def short():
    """Too short."""
'''
    found = [(item.key, isinstance(item, Record)) for item in docstrings(source.encode())]
    assert found == [("f", True), ("f.<locals>.g", True), ("f", False)]


def test_docstrings_below_a_long_chain_of_branches_are_found() -> None:
    chain = "if a:\n pass\n" + "elif a:\n pass\n" * 80 + f'else:\n def f():\n  """{LONG}"""\n'
    assert [item.key for item in docstrings(chain.encode())] == ["f"]


@pytest.mark.parametrize("data", [b"\0", b"\xff = 1", b"(" * 2000, b"x = '" + b"\\" * 3, b"# coding: nonsense\n"])
def test_files_that_are_no_python_never_crash(data: bytes) -> None:
    [reject] = docstrings(data)
    assert not isinstance(reject, Record)
    assert reject.reason == "invalid_python"


@pytest.mark.parametrize(
    ("words", "expression"),
    [
        ("MIT", "MIT"),
        ("mit license", "MIT"),
        ("Apache License, Version 2.0", "Apache-2.0"),
        ("BSD 3-Clause OR Apache-2.0", "BSD-3-Clause OR Apache-2.0"),
        ("MPL-2.0 OR MIT", "MIT"),
        ("MPL-2.0 AND MIT", None),
        ("(MIT OR GPL-2.0-only) AND ISC", "MIT AND ISC"),
        ("MIT AND (0BSD OR Zlib)", "MIT AND (0BSD OR Zlib)"),
        ("GPL-2.0-only OR MIT AND ISC", "MIT AND ISC"),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", "BSD-2-Clause AND Apache-2.0 WITH LLVM-exception"),
        ("GPL-3.0", None),
        ("MIT AND", None),
        ("(MIT", None),
        ("", None),
        ("MIT " * 100, None),
    ],
)
def test_an_expression_is_permissive_if_all_parts_or_one_alternative_are(words: str, expression: str | None) -> None:
    assert permissive_expression(words) == expression


def said(*headers: tuple[str, str]) -> Message:
    message = Message()
    for name, value in headers:
        message[name] = value
    return message


OSI = "License :: OSI Approved :: "


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        (said(("License-Expression", "GPL-3.0-only"), ("Classifier", OSI + "MIT License")), None),
        (said(("License", "MIT"), ("Classifier", OSI + "MIT License")), "MIT"),
        (said(("License", "MIT"), ("Classifier", OSI + "GNU General Public License v3 (GPLv3)")), None),
        (said(("License", "LGPL with exceptions"), ("Classifier", OSI + "MIT License")), None),
        (said(("License", "Copyright me. " * 50), ("Classifier", OSI + "BSD License")), "LicenseRef-BSD"),
        (said(("Classifier", OSI + "MIT License"), ("Classifier", OSI + "BSD License")), "MIT AND LicenseRef-BSD"),
        (said(("Classifier", "License :: OSI Approved")), None),
        (said(), None),
    ],
)
def test_what_a_package_says_about_its_licence(metadata: Message, licence: str | None) -> None:
    assert licence_of(metadata)[0] == licence
