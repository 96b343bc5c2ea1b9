"""Token shards beside megatron-core itself, from PyPI: it reads them, and writes the same bytes."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from pipelines.engines.local import Engine
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from tests.pipelines.tokens.corpus import documents, sealed
from tests.pipelines.tokens.tokenizers import dataset_like

MEGATRON = ("megatron-core==0.16.1", "einops")
"""What is installed, without what these ask for: NumPy and PyTorch are this environment's."""


@pytest.fixture(scope="module")
def megatron(tmp_path_factory):
    """Runs the script beside this file with megatron-core; the tests skip where that cannot be had."""
    pytest.importorskip("torch", reason="megatron-core needs PyTorch: install corpusmill[train]")
    folder = tmp_path_factory.mktemp("megatron")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", *MEGATRON]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"megatron-core cannot be installed from PyPI here: {done.stderr.strip().splitlines()[-1]}")
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")  # after its own, so that those come first

    def run(prefix, copy):
        command = [str(python), str(Path(__file__).with_name("megatron_script.py")), str(prefix), str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "name"), [("uint16", "uint16"), ("int32", "int32")])
def test_megatron_reads_every_document_and_writes_the_same_bytes(store, tmp_path, megatron, dtype, name):
    # Given a shard with an empty document, a one-token one, and one that is cut because it is too long
    texts = {"a": "", "b": "to be", "c": "b", "d": "to be or not to be, that is the question " * 3}
    params = TokenizeParams(dtype=dtype, longest_document=12)
    draft = tokenize(documents(store, {"web": [texts]}), dataset_like(store, "llama3"), params, Engine(store, 1))
    shards = sealed(store, draft, "token_shards", "web")
    shards.folder("tokens", tmp_path)
    prefix = next(tmp_path.glob("*.bin")).with_suffix("")

    told = megatron(prefix, tmp_path / "copy")

    # Then megatron-core has the documents, and its own writer makes our files
    lengths = shards.table("token_documents")["tokens"].to_pylist()
    ids = np.fromfile(prefix.with_suffix(".bin"), f"<{np.dtype(dtype).str[1:]}")
    assert told["documents"] == [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
    assert (told["lengths"], told["dtype"]) == (lengths, name)
    assert told["starts"] == list(range(len(lengths) + 1))
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"copy{suffix}").read_bytes() == prefix.with_suffix(suffix).read_bytes()
