"""Personal data out of texts: placeholders in its place, everything else byte for byte as it was.

A placeholder is the type's name in capitals, <EMAIL>, <PHONE>, <IP>, <CARD>, <IBAN>, <NATIONAL_ID> or <CREDENTIAL>;
where values are hashed, sixteen letters follow, <EMAIL_kpbmngcolhadefij>: 64 bits of a keyed BLAKE2b of the value.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.clean.pii.find import findings
from pipelines.clean.pii.params import TYPES, PiiParams
from pipelines.text.words import text_buffers

MOST_ROUNDS = 16
"""So often a text is looked at again."""
_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
"""Letters for hexadecimal digits, so that no hash looks like a number."""


@dataclass(frozen=True)
class Masked:
    """Texts without personal data, and what was found: int32 per text.

    texts: large_string, the very same array where nothing was replaced. counts: by type, also of types that stay.
    """

    texts: pa.Array
    counts: dict[str, npt.NDArray[np.int32]]


def mask(texts: pa.Array, params: PiiParams) -> Masked:
    """Replace the personal data of texts by placeholders, as the parameters say.

    Masking what it gives changes nothing: a text is looked at again until nothing is left in it (a placeholder can
    take away the word that made a neighbour harmless). What turns up then counts too.

    Memory: the texts again. Raises `ValueError` when a text is null or the file of the hash key is not fit.
    """
    if texts.type != pa.large_string():
        texts = texts.cast(pa.large_string())
    key = params.hash_key()
    counts = {kind: np.zeros(len(texts), np.int32) for kind in TYPES}
    rows = np.arange(len(texts))
    masked, again = _replace(texts, rows, params, key, counts, True)
    for _ in range(MOST_ROUNDS):
        if not len(again):
            break
        left, changed = _replace(masked.take(pa.array(again)), again, params, key, counts, False)
        if len(changed):
            places = np.arange(len(masked))
            places[again] = len(masked) + np.arange(len(again))
            masked = pa.concat_arrays([masked, left]).take(pa.array(places))
        again = changed
    return Masked(masked, counts)


def _replace(
    texts: pa.Array,
    rows: npt.NDArray[np.int64],
    params: PiiParams,
    key: bytes | None,
    counts: dict[str, npt.NDArray[np.int32]],
    first: bool,
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """One pass: the texts (the same array where nothing was replaced), and the rows in which something was.

    Adds to `counts`; what stays as it is counts the first time only.
    """
    data, offsets = text_buffers(texts)
    view = data.data
    pieces: list[memoryview | bytes] = []
    at = int(offsets[0])
    growth = np.zeros(len(texts), np.int64)
    changed = []
    strings = texts.to_pylist() if params.presidio else None
    for text, found in findings(data, offsets, strings, params):
        replaced = False
        for finding in found:
            action = params.action(finding.type)
            if action in ("redact", "hash"):
                value = bytes(view[finding.start : finding.stop])
                token = placeholder(finding.type, value, key if action == "hash" else None)
                pieces += (view[at : finding.start], token)
                at = finding.stop
                growth[text] += len(token) - len(value)
                replaced = True
            elif not first:
                continue
            counts[finding.type][rows[text]] += 1
        if replaced:
            changed.append(text)
    if not changed:
        return texts, rows[:0]
    pieces.append(view[at : int(offsets[-1])])
    moved = offsets - offsets[0] + np.concatenate(([0], np.cumsum(growth)))
    made = pa.Array.from_buffers(
        pa.large_string(), len(texts), [None, pa.py_buffer(moved.astype(np.int64)), pa.py_buffer(b"".join(pieces))]
    )
    return made, rows[np.array(changed)]


def placeholder(kind: str, value: bytes, key: bytes | None) -> bytes:
    """What stands for a value; with a key, the hash of its letters and digits, in whatever way they are written."""
    if key is None:
        return f"<{kind.upper()}>".encode()
    text = value.decode("utf-8", "replace")
    spelled = (
        text if kind == "credential" else "".join(filter(lambda sign: sign.isalnum() or sign in "@.:", text)).casefold()
    )
    if kind not in ("email", "ip", "credential"):
        spelled = "".join(filter(str.isalnum, spelled))
    hashed = hashlib.blake2b(spelled.encode("utf-8", "surrogatepass"), key=key, digest_size=8, person=kind.encode())
    return f"<{kind.upper()}_{hashed.hexdigest().translate(_LETTERS)}>".encode()
