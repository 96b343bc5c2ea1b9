"""The engines that encode text: `tokenizers`, whose ids are the right ones, and `fastokens`, many times as fast.

Whether the ids of a fast engine can be trusted for a tokenizer is found out in `parity.py`.
"""

import functools
import json
import os
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from pipelines.tokens.encode import Encoder, library_threads, ready

REFERENCE = "tokenizers"
FAST = "fastokens"

PUTS_A_SPACE = re.compile(r'"(?:Prepend|Metaspace)"|"add_prefix_space"\s*:\s*true')
"""What a tokenizer.json that puts a space before a text has in it."""


class EngineFailed(RuntimeError):
    """An engine cannot load a tokenizer, or ended in the middle of a text."""


class TokenizersEncoder:
    """The `tokenizers` library. definition: the content of a `tokenizer.json`."""

    def __init__(self, definition: str) -> None:
        self._definition = definition
        self.tokenizer = ready(Tokenizer.from_str(definition))

    @functools.cached_property
    def continuing(self) -> "TokenizersEncoder":
        """See `Encoder`."""
        other = continuing_definition(self._definition)
        return self if other is None else TokenizersEncoder(other)

    def encode(self, texts: list[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """See `Encoder`."""
        with library_threads():
            batch = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return _joined([np.array(encoding.ids, np.uint32) for encoding in batch])

    def encode_singly(self, texts: list[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """The same in the calling thread, whatever other threads do."""
        encodings = (self.tokenizer.encode(text, add_special_tokens=False) for text in texts)
        return _joined([np.array(encoding.ids, np.uint32) for encoding in encodings])


class FastokensEncoder:
    """The `fastokens` library: BPE, of bytes and of characters with byte fallback. Works in the calling thread and
    leaves the interpreter to others. Raises `EngineFailed` where it does not know a part of the tokenizer.
    """

    def __init__(self, definition: str) -> None:
        # Read when it is first used: an engine of ours has a thread or process for every core already.
        os.environ.setdefault("FASTOKENS_BPE_THREADS", "1")
        import fastokens

        self._definition = definition
        self._tokenizer = _call(fastokens.Tokenizer.from_json_str, definition)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @functools.cached_property
    def continuing(self) -> "FastokensEncoder":
        """See `Encoder`."""
        other = continuing_definition(self._definition)
        return self if other is None else FastokensEncoder(other)

    def encode(self, texts: list[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """See `Encoder`. Raises `EngineFailed`."""
        ids, offsets = _call(self._tokenizer.encode_batch_flat, texts, split_special_tokens=True)
        return np.frombuffer(ids, np.uint32), np.diff(np.frombuffer(offsets, np.int64)).astype(np.int64)


@functools.lru_cache(maxsize=4)
def opened(engine: str, path: Path) -> Encoder:
    """An engine with the tokenizer in a file of the store, loaded once in a process: it takes most of a second."""
    return FastokensEncoder(path.read_text(encoding="utf-8")) if engine == FAST else reference(path)


@functools.lru_cache(maxsize=4)
def reference(path: Path) -> TokenizersEncoder:
    """What the ids of a fast engine are compared with. Raises `ValueError` naming a file that is no tokenizer."""
    try:
        return TokenizersEncoder(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"{path} is not a tokenizer that the tokenizers library can read: {error}") from error


def engine_version(engine: str) -> str | None:
    """The installed version of an engine; None where it is not installed."""
    try:
        return version(engine)
    except PackageNotFoundError:
        return None


def continuing_definition(definition: str) -> str | None:
    """A tokenizer that puts no space before a text, where this one does; else None.

    Llama's tokenizer begins a text with one (normalizer Prepend, or pre-tokenizer Metaspace), GPT-2's may
    (add_prefix_space): the later pieces of a document must not get another.
    """
    if not PUTS_A_SPACE.search(definition):
        return None  # without looking at a vocabulary of megabytes
    config = json.loads(definition)
    bare = config | {name: _without_prefix(config.get(name)) for name in ("normalizer", "pre_tokenizer")}
    return None if bare == config else json.dumps(bare, ensure_ascii=False)


def _without_prefix(part: dict[str, Any] | None) -> dict[str, Any] | None:
    if part is None:
        return None
    kind = part.get("type")
    if kind == "Prepend":
        return None
    if kind == "Sequence":
        name = "normalizers" if "normalizers" in part else "pretokenizers"
        members = [_without_prefix(member) for member in part[name]]
        return part | {name: [member for member in members if member is not None]}
    if kind == "Metaspace" and part.get("prepend_scheme", "always") != "never":
        return part | {"prepend_scheme": "never"} | ({"add_prefix_space": False} if "add_prefix_space" in part else {})
    if part.get("add_prefix_space") and kind != "Metaspace":
        return part | {"add_prefix_space": False}
    return part


def _joined(found: list[npt.NDArray[np.uint32]]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    counts = np.array([len(ids) for ids in found], np.int64)
    return (np.concatenate(found) if found else np.empty(0, np.uint32)), counts


def _call(function: Any, *arguments: Any, **named: Any) -> Any:
    """What compiled code gives back; whatever it raises, a panic included, as `EngineFailed`. Lack of memory is none of
    its doing."""
    try:
        return function(*arguments, **named)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic is no Exception
        raise EngineFailed(f"{FAST} fails: {error}") from error
