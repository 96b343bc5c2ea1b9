"""What a tokenizer must be before a corpus is encoded with it, trained and loaded alike.

It gives texts back as they were, it has an end-of-text token and another one for padding, and its ids can be stored.
Encoding documents is `encode.py`'s business, what is measured beside it `fertility.py`'s.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer, normalizers

from pipelines.tokens.encode import id_space, ready
from pipelines.tokens.hostile import SPELT_OUT, hostile_texts
from pipelines.tokens.indexed import token_type
from pipelines.tokens.loading import ROLES

BATCH_CHARACTERS = 1 << 20
"""Text encoded at a time."""

_COMPOSED = normalizers.NFC()


@dataclass(frozen=True)
class Encoded:
    """A text encoded and decoded again. same: it came back as it was. equivalent: at least its characters did, composed
    (Unicode's canonical equivalence, NFC)."""

    tokens: int
    same: bool
    equivalent: bool
    back: str


def there_and_back(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterable[Encoded]:
    """Every text encoded and decoded, in order. A special token that is spelt out is text."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    before, tokenizer.encode_special_tokens = tokenizer.encode_special_tokens, True
    try:
        for batch in _batches(texts):
            encodings = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            decoded = tokenizer.decode_batch([encoding.ids for encoding in encodings], skip_special_tokens=False)
            for text, encoding, back in zip(batch, encodings, decoded, strict=True):
                same = back == text
                alike = same or _COMPOSED.normalize_str(back) == _COMPOSED.normalize_str(text)
                yield Encoded(len(encoding.ids), same, alike, back)
    finally:
        tokenizer.encode_special_tokens = before


def hostile_changes(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """The hostile texts that come back as something else, and as what."""
    texts = hostile_texts(special_tokens(tokenizer)[:SPELT_OUT])
    encoded = there_and_back(tokenizer, texts)
    return [(text, one.back) for text, one in zip(texts, encoded, strict=True) if not one.equivalent]


def special_tokens(tokenizer: Tokenizer) -> list[str]:
    """The special tokens, in order of their ids."""
    added = tokenizer.get_added_tokens_decoder()
    return [token.content for _, token in sorted(added.items()) if token.special]


def check_ids(tokenizer: Tokenizer, name: str) -> None:
    """Raises `ValueError` where there are no ids, one does not fit token files, or they are left to chance."""
    if getattr(tokenizer.model, "dropout", None):
        raise ValueError(
            f"the tokenizer {name} drops merges at random (model.dropout), so that one text has other ids every time: "
            "set model.dropout in its tokenizer.json to null"
        )
    size = id_space(tokenizer)
    if not size:
        raise ValueError(f"the tokenizer {name} has an empty vocabulary")
    largest = 1 << (8 * token_type(size).itemsize - (token_type(size).kind == "i"))
    if size > largest:
        raise ValueError(
            f"the tokenizer {name} has the id {size - 1:,}, and token files hold ids below {largest:,}: renumber its "
            "added tokens"
        )


def special_ids(tokenizer: Tokenizer, roles: Mapping[str, str], name: str) -> dict[str, int]:
    """Id of each role's token. Raises `ValueError` where the end of a text or padding has none, both have the same, or
    a token is named that the vocabulary lacks."""
    special = special_tokens(tokenizer)
    ids: dict[str, int] = {}
    for role in ROLES:
        if role not in roles:
            continue
        found = tokenizer.token_to_id(roles[role])
        if found is None:
            raise ValueError(
                f"tokenizer.{role}: the tokenizer {name} has no token {roles[role]!r}; name one of its own, or add it "
                f"by tokenizer.reserved_tokens; {_offered(special)}"
            )
        ids[role] = found
    for role, what in (("eos_token", "ends a document"), ("pad_token", "fills batches")):
        if role not in ids:
            raise ValueError(
                f"the tokenizer {name} does not say which token {what}: name it by tokenizer.{role}; "
                f"{_offered(special)}, and tokenizer.reserved_tokens adds further ones"
            )
    if ids["pad_token"] == ids["eos_token"]:
        raise ValueError(
            f"the tokenizer {name} has {roles['eos_token']!r} as end of text and as padding, so that training could "
            f"not tell one from the other: name another token by tokenizer.pad_token; {_offered(special)}, and "
            "tokenizer.reserved_tokens adds further ones"
        )
    return ids


def refuse_spelled(tokenizer: Tokenizer, named: Mapping[str, Sequence[str]], name: str) -> None:
    """Raise `ValueError` where a document that spells out one of these tokens gets its id, and so could end itself.

    named: tokens by the parameter that names them. Special tokens are safe; other added tokens, and pieces, are not.
    """
    tokenizer = ready(Tokenizer.from_str(tokenizer.to_str()))
    for parameter, tokens in named.items():
        for token in tokens:
            number = tokenizer.token_to_id(token)
            assert number is not None  # roles have ids, and reserved tokens were added
            texts = [token, tokenizer.decode([number], skip_special_tokens=False)]  # Ġthe, and what it stands for
            if any(number in tokenizer.encode(text, add_special_tokens=False).ids for text in texts):
                raise ValueError(
                    f"tokenizer.{parameter}: plain text can have the id of {token!r} in the "
                    f'tokenizer {name}, for it is none of its special tokens: mark it "special": true among the '
                    f"added_tokens of its tokenizer.json, or name another one; {_offered(special_tokens(tokenizer))}"
                )


def _offered(special: Sequence[str]) -> str:
    return f"its special tokens are {', '.join(special[:12])}" if special else "it has no special tokens"


def _batches(texts: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and size + len(text) > BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
