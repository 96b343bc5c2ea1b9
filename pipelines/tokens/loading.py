"""Tokenizers of Hugging Face, as files: found, known by their content, opened, and their roles named.

Nothing is downloaded. Whether a tokenizer is fit for a corpus is checked in `tokenizer_checks.py`.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from pipelines.pretrained import cached_folder, file_hash
from pipelines.tokens.tokenizer_params import TokenizerParams

TOKENIZER, CONFIG, SPECIAL = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"

SLOW = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "merges.txt", "vocab.txt")
"""Files of tokenizers that transformers turns into a tokenizer.json."""

BESIDE = ("added_tokens.json", "chat_template.jinja", "chat_template.json")
"""What else is the tokenizer's own in a model's folder."""

ROLES = ("bos_token", "eos_token", "pad_token")


@dataclass(frozen=True)
class FoundTokenizer:
    """The files of a tokenizer, by the names that transformers knows. name: what errors call it."""

    name: str
    files: tuple[tuple[str, Path], ...]

    def identity(self) -> dict[str, Any]:
        """What decides the tokenizer: its files by content, never by path, and the libraries that convert them."""
        contents = {file: file_hash(path) for file, path in self.files}
        made_by = {} if TOKENIZER in contents else _versions("transformers", "sentencepiece")
        return {"files": contents} | made_by

    def read(self, identity: Mapping[str, Any]) -> dict[str, bytes]:
        """The files by name. Raises `ValueError` where they are not those of the identity any more."""
        if self.identity() != identity:
            raise ValueError(f"the tokenizer {self.name} changed while it was read; start the run again")
        return {file: path.read_bytes() for file, path in self.files}


def find_tokenizer(config: TokenizerParams) -> FoundTokenizer:
    """The tokenizer that the parameters name. Raises `ValueError` where it is not there."""
    if config.name:
        return _in_folder(config.name, cached_folder(config.name, config.revision))
    path = Path(config.path or "")
    if path.is_file():
        if path.suffix != ".json":
            raise ValueError(f"tokenizer.path {path} is a file and no tokenizer.json; name the folder that holds it")
        return FoundTokenizer(str(path), ((TOKENIZER, path),))
    if not path.is_dir():
        raise ValueError(
            f"tokenizer.path: there is no folder and no file at {path}; for a tokenizer of the Hugging Face Hub fetch "
            "it by `hf download NAME`, and set tokenizer.name"
        )
    return _in_folder(str(path), path)


def _in_folder(name: str, folder: Path) -> FoundTokenizer:
    there = {path.name: path for path in sorted(folder.iterdir()) if path.is_file()}
    wanted = [CONFIG, SPECIAL, *BESIDE, *([TOKENIZER] if TOKENIZER in there else [*SLOW, "config.json"])]
    if not there.keys() & {TOKENIZER, *SLOW}:
        raise ValueError(
            f"the tokenizer {name} has no {TOKENIZER} and no other vocabulary in its folder, which holds: "
            f"{', '.join(list(there)[:10]) or 'nothing'}"
        )
    return FoundTokenizer(name, tuple((one, there[one]) for one in wanted if one in there))


def converted(files: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """The same files with a tokenizer.json, made by transformers of a SentencePiece model or of vocabulary and merges
    where there is none. Raises `ValueError` where that is not possible."""
    if TOKENIZER in files:
        return dict(files)
    held = ", ".join(one for one in SLOW if one in files)
    try:
        from transformers import AutoTokenizer

        with tempfile.TemporaryDirectory() as folder:
            for file, content in files.items():
                Path(folder, file).write_bytes(content)
            AutoTokenizer.from_pretrained(folder, local_files_only=True).save_pretrained(f"{folder}/fast")
            made = {path.name: path.read_bytes() for path in Path(folder, "fast").iterdir()}
            fast = {one: made[one] for one in (TOKENIZER, CONFIG, SPECIAL, *BESIDE) if one in made}
            fast[TOKENIZER]  # what some classes leave out
    except (ImportError, OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        told = " ".join(str(error).split())[:300]
        raise ValueError(
            f"the tokenizer {name} holds {held} and no {TOKENIZER}, and transformers (extra `train`, for SentencePiece "
            f"extra `unigram` too) did not convert it: {told}; where it can be opened, save it by "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        ) from error
    return fast


def opened(content: bytes, name: str) -> Tokenizer:
    """A tokenizer.json. Raises `ValueError` naming the tokenizer where it is none."""
    try:
        return Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"{name} is not a tokenizer that the tokenizers library can read: {error}") from error


def named_roles(files: Mapping[str, bytes], name: str) -> dict[str, str]:
    """The tokens that the files name as bos_token, eos_token and pad_token, as far as they name any."""
    found: dict[str, str] = {}
    for file in (SPECIAL, CONFIG):  # the second is what transformers believes
        said = read_json(files, file, name)
        for role in ROLES:
            if text := token_text(said.get(role)):
                found[role] = text
    return found


def read_json(files: Mapping[str, bytes], file: str, name: str) -> dict[str, Any]:
    """One of the files as a dictionary, empty where it is not there. Raises `ValueError` where it is none."""
    try:
        said = json.loads(files.get(file, b"{}"))
    except ValueError as error:
        raise ValueError(f"{file} of the tokenizer {name} is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise ValueError(f"{file} of the tokenizer {name} holds no keys and values")
    return said


def with_roles(
    files: Mapping[str, bytes], tokenizer: Tokenizer, roles: dict[str, str], reserved: Sequence[str], name: str
) -> dict[str, bytes]:
    """The files of a tokenizer for others to load: its own as they are where they say all of it, else with what was
    named. reserved: special tokens that it gets where it lacks them; the tokenizer is given them, too."""
    lacking = [token for token in reserved if tokenizer.token_to_id(token) is None]
    written = dict(files)
    if lacking:
        tokenizer.add_special_tokens(lacking)
    if lacking or TOKENIZER not in files:
        written[TOKENIZER] = tokenizer.to_str(pretty=True).encode()
    said = read_json(files, CONFIG, name)
    if lacking or CONFIG not in files or {role: token_text(said.get(role)) for role in roles} != dict(roles):
        usual = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        said = {**usual, **said, **roles}
        if lacking and said.get("added_tokens_decoder"):
            said["added_tokens_decoder"] |= {str(tokenizer.token_to_id(one)): _described(one) for one in lacking}
        written[CONFIG] = as_json(said)
    special = read_json(files, SPECIAL, name)
    if SPECIAL not in files or {role: token_text(special.get(role)) for role in roles} != dict(roles):
        written[SPECIAL] = as_json(special | roles)
    return written


def trained_files(tokenizer: Tokenizer, roles: dict[str, str], special: Sequence[str]) -> dict[str, bytes]:
    """The files of a tokenizer trained here."""
    further = [token for token in special if token not in roles.values()]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **roles,
        "additional_special_tokens": further,
        "added_tokens_decoder": {str(tokenizer.token_to_id(token)): _described(token) for token in special},
        "clean_up_tokenization_spaces": False,
        "padding_side": "right",
    }
    return {
        TOKENIZER: tokenizer.to_str(pretty=True).encode(),
        CONFIG: as_json(config),
        SPECIAL: as_json({**roles} | ({"additional_special_tokens": further} if further else {})),
    }


def as_json(value: Mapping[str, Any]) -> bytes:
    """A file for people and programs."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def token_text(token: Any) -> str | None:
    """A token as the files name it, as a text or with its properties; None where it is neither."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def _described(token: str) -> dict[str, Any]:
    """A special token as transformers describes it."""
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    return {"content": token, **flags, "special": True}


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found
