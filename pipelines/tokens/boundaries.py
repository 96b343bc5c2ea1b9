"""What stands around a document: its beginning-of-text and end-of-text tokens, and where too long a document is cut.

Text is encoded without any special token, whatever the tokenizer's own template would add; those that are wanted are
put here, so none is ever doubled.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from pipelines.tokens.encode import id_space
from pipelines.tokens.indexed import token_type
from pipelines.tokens.loading import token_text
from pipelines.tokens.tokenize_params import TokenizeParams

ROLES = {"bos_id": "bos_token", "eos_id": "eos_token", "pad_id": "pad_token"}
"""The roles that readers of token files must know, and where `tokenizer_config.json` names their tokens."""

WORDS = {"bos_token": "beginning-of-text token", "eos_token": "end-of-text token", "pad_token": "padding token"}


@dataclass(frozen=True)
class Boundaries:
    """The ids put before and after each document, None where none is, and the type that all ids are stored in.

    facts: what readers of the token files must know, JSON values.
    """

    before: int | None
    after: int | None
    kind: np.dtype
    vocabulary_size: int
    facts: dict[str, Any]


def boundaries(tokenizer: Tokenizer, config_path: Path, config: TokenizeParams) -> Boundaries:
    """What is put around the documents of a tokenizer.

    config_path: its `tokenizer_config.json`. Raises `ValueError` when a token that is wanted is missing, when the
    padding token would be the end-of-text token, and when ids do not fit the type that is asked for.
    """
    named = json.loads(config_path.read_text(encoding="utf-8"))
    ids = {role: token_of(tokenizer, named, key) for role, key in ROLES.items()}
    size = id_space(tokenizer)
    if not size:
        raise ValueError("the tokenizer has an empty vocabulary")
    before = _before(tokenizer, ids["bos_id"], config)
    if config.eos == "always" and ids["eos_id"] is None:
        raise ValueError(
            "tokenizer_config.json names no eos_token, and documents are to end with one; name it there, or set "
            "tokenize.eos to never"
        )
    if config.eos == "always" and ids["pad_id"] == ids["eos_id"]:
        raise ValueError(
            f"the tokenizer pads with its end-of-text token {named['eos_token']!r}: training, which leaves padding "
            "out, would never learn to end a text; give it a pad_token of its own, or none"
        )
    return Boundaries(
        before,
        ids["eos_id"] if config.eos == "always" else None,
        _kind(size, config),
        size,
        {"vocabulary_size": size, **ids, "bos": before is not None, "eos": config.eos == "always"},
    )


def token_of(tokenizer: Tokenizer, named: dict[str, Any], key: str) -> int | None:
    """Id of the token with a role; None where none is named. Raises `ValueError` when `tokenizer.json` lacks it."""
    text = token_text(named.get(key))
    if text is None:
        return None
    found = tokenizer.token_to_id(text)
    if found is None:
        raise ValueError(f"tokenizer_config.json names the {WORDS[key]} {text!r}, which tokenizer.json lacks")
    return found


def surrounded(
    ids: np.ndarray, lengths: npt.NDArray[np.int64], before: int | None, after: int | None
) -> tuple[np.ndarray, npt.NDArray[np.int64]]:
    """The ids of documents of these lengths with a token before and one after each; the new lengths."""
    added = (before is not None) + (after is not None)
    if not added:
        return ids, lengths
    longer = lengths + added
    ends = np.cumsum(longer)
    made = np.empty(len(ids) + added * len(lengths), ids.dtype)
    is_text = np.ones(len(made), dtype=bool)
    for token, places in ((before, ends - longer), (after, ends - 1)):
        if token is not None:
            made[places] = token
            is_text[places] = False
    made[is_text] = ids
    return made, longer


def cut(lengths: npt.NDArray[np.int64], longest: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(lengths of the pieces of documents, none longer than `longest`; pieces of each document)."""
    counts = -(-lengths // longest)
    pieces = np.full(int(counts.sum()), longest, np.int64)
    pieces[np.cumsum(counts) - 1] = lengths - (counts - 1) * longest
    return pieces, counts


def _before(tokenizer: Tokenizer, bos_id: int | None, config: TokenizeParams) -> int | None:
    if config.bos == "never":
        return None
    if config.bos == "always":
        if bos_id is None:
            raise ValueError(
                "tokenizer_config.json names no bos_token, and documents are to begin with one; name it there, or set "
                "tokenize.bos to auto or never"
            )
        return bos_id
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    before = next((whole[:n] for n in range(len(whole)) if whole[n : n + len(bare)] == bare), [])
    if before and before != [bos_id]:
        put = ", ".join(repr(tokenizer.id_to_token(token)) for token in before)
        raise ValueError(
            f"the tokenizer itself begins a text with {put}, which is not the bos_token of tokenizer_config.json; set "
            "tokenize.bos to always or never"
        )
    return before[0] if before else None


def _kind(size: int, config: TokenizeParams) -> np.dtype:
    kind = token_type(size) if config.dtype == "auto" else np.dtype(config.dtype).newbyteorder("<")
    if size - 1 > np.iinfo(kind).max:
        raise ValueError(
            f"tokenize.dtype: the ids of a vocabulary of {size:,} tokens do not fit {kind.name}; set it to auto"
        )
    return kind
