"""How much damage a source may have, and what a rejection says of its place."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.dataset import Version
from pipelines.health import DAMAGE, CheckParams
from pipelines.ingest.params import Source
from pipelines.ingest.records import BadInput

GOOD, BAD = b'{"text": "good"}\n', b"oops\n"


def test_a_wrong_checksum_costs_no_document(folder: Path, read: Callable) -> None:
    lines = "".join(json.dumps({"text": f"document {number}"}) + "\n" for number in range(1000)).encode()
    data = bytearray(gzip.compress(lines))
    data[-8] ^= 1  # the first byte of the CRC
    (folder / "a.jsonl.gz").write_bytes(data)
    got = read()
    assert len(got.documents) == 1000
    assert list(got.reasons.values()) == ["damaged_file"]


def test_a_budget_is_for_each_file(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(GOOD + BAD * 2)
    (folder / "b.jsonl").write_bytes(GOOD + BAD * 2 + b'{"text": ""}\n')  # an empty text is no damage
    assert len(read(errors=2).rejects) == 5
    with pytest.raises(BadInput, match=r"a\.jsonl#2: invalid_json .* is error 2 of the file, and `errors` allows 1"):
        read(errors=1)


def test_a_budget_of_none_is_the_policy_fail(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(GOOD + BAD)
    for policy in (0, "fail"):
        with pytest.raises(BadInput, match=r"a\.jsonl#1: invalid_json"):
            read(errors=policy)


@pytest.mark.parametrize("policy", [-1, True, "some", 1.5])
def test_other_policies_are_refused(policy: object) -> None:
    with pytest.raises(ValidationError, match="errors"):
        Source(name="s", path="x", errors=policy)


def test_a_rejection_tells_line_and_byte(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + GOOD + b"\n" + BAD)
    (folder / "b.csv").write_bytes(b'text,n\n"a\nb",1\nshort\n')
    details = {row["uri"]: row["detail"] for row in read().rejects}
    assert details["a.jsonl#1"].startswith(f"line 3 at byte {3 + len(GOOD) + 1}: ")
    assert details["b.csv#1"].startswith("the row from line 4 at byte 15 ")


def test_the_byte_that_is_told_is_that_of_the_unpacked_text_in_utf_8(folder: Path, read: Callable) -> None:
    first = '\ufeff{"text": "é"}\n'
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(GOOD * 100 + BAD))
    (folder / "b.jsonl").write_bytes((first + "oops\n").encode("utf-16-le"))
    (folder / "c.csv").write_bytes("\ufefftext,n\né,1\nshort\n".encode("utf-16-le"))
    details = {row["uri"]: row["detail"] for row in read().rejects}
    assert details["a.jsonl.gz#100"].startswith(f"line 101 at byte {len(GOOD) * 100}: ")
    assert details["b.jsonl#1"].startswith(f"line 2 at byte {len(first.encode())}: ")
    assert details["c.csv#1"].startswith(f"the row from line 3 at byte {3 + 7 + 5} ")


def test_the_number_of_damaged_inputs_is_a_count(folder: Path, read: Callable) -> None:
    (folder / "a.jsonl").write_bytes(GOOD * 18 + BAD + b'{"text": ""}\n')
    (folder / "dead.txt").symlink_to(folder / "nothing")
    stats = read().draft.stats
    assert stats["damaged"] == 2 and stats["documents_in"] == 21


@pytest.mark.parametrize(("damaged", "passes"), [(9, True), (10, True), (11, False)])
def test_a_share_of_damage_beyond_the_limit_is_warned_of(damaged: int, passes: bool) -> None:
    stats = {"damaged": damaged, "documents_in": 100, "documents_out": 100 - damaged}
    version = Version("id", "raw_documents", "corpus", {}, {}, "1", stats=stats)
    finding = DAMAGE.look(version, None, CheckParams(damage_share=0.1))
    assert finding and finding.passed == passes
    assert finding.told == f"{damaged} of 100 inputs ({damaged}.0%) are damaged"
    alone = Version("id", "raw_documents", "corpus", {}, {}, "1", stats={"damaged": 9, "documents_in": 9})
    assert DAMAGE.look(alone, None, CheckParams()).passed  # too few to be a sign


SCRIPT = """
import json, resource, sys
from pathlib import Path
from pipelines.ingest.params import Source
from pipelines.ingest.readers import read_file
from pipelines.ingest.streams import Stream
path = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Stream(path.open("rb"), path.name, path.stat().st_size) as stream:
    found = [[item.key, getattr(item, "reason", "")] for item in read_file(stream, Source(name="s", path="x"), 10**6)]
print(json.dumps([found, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "before", "after", "found"),
    [
        ("a.jsonl", GOOD + b'{"text": "', b'"}\n' + GOOD, [["0", ""], ["1", "too_large"], ["2", ""]]),
        ("a.json", b'[{"text": "one"}, {"text": "', b'"}, {"text": "3"}]', [["0", ""], ["1", "too_large"], ["2", ""]]),
        ("a.csv", b"text,n\none,1\n", b"\nthree,3\n", [["0", ""], ["1", "too_large"], ["2", ""]]),
        ("a.txt", b"text", b"", [["0", "too_large"]]),
    ],
)
def test_a_row_of_two_gigabytes_takes_no_memory(
    tmp_path: Path, name: str, before: bytes, after: bytes, found: list[list[str]]
) -> None:
    with (tmp_path / name).open("wb") as file:  # a hole in the file is two gigabytes of zeros
        file.write(before)
        file.seek(2**31, 1)
        file.write(after or b".")
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / name)], capture_output=True, text=True, check=True
    ).stdout
    items, megabytes = json.loads(told)
    assert items == found
    assert megabytes < 64
