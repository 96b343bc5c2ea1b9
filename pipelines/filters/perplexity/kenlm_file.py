"""Perplexity by an n-gram model in a file: a binary of KenLM, or an ARPA file, which needs no package.

How text is cut for it decides what its numbers mean, so that belongs to the model's identity. What is made of its
probabilities stands in `likelihood.py`; our own n-gram models, in `ngram_folds.py`.
"""

import functools
import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from pipelines.dataset import Shard
from pipelines.engines.local import Engine
from pipelines.engines.task import Inputs, Made, Result, Stats, Task
from pipelines.filters.perplexity.arpa import read_arpa
from pipelines.filters.perplexity.likelihood import SCORING_VERSION, Likelihoods, score_table, score_tally
from pipelines.filters.perplexity.ngram_folds import bytes_of_words
from pipelines.filters.perplexity.ngram_scoring import SPECIAL_WORDS
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.words import ABSENT, ALONE, PART_SHIFT, WORD, language_model_alphabet
from pipelines.pretrained import ModelError, file_hash
from pipelines.store import digest

OWN_READER = "arpa.py 2"
_BINARY = b"mmap lm http://kheafield.com/code"
"""How binary files of KenLM begin."""
_SPECIAL = frozenset(word.encode() for word in SPECIAL_WORDS)
_WHITE_SPACE = re.compile(r"[ \t\n\r\v\f]")
_UNKNOWN = SPECIAL_WORDS[0].encode()


@dataclass(frozen=True)
class KenlmFile:
    """A model that is found, and how text is cut for it. contents: SHA-256 of the file, and of the tokenizer if any."""

    path: Path
    tokenizer: Path | None
    contents: tuple[str, ...]
    words: str
    by_line: bool

    @classmethod
    def find(cls, config: PerplexityParams) -> "KenlmFile":
        """The model that the parameters name. Raises `ModelError` where a file cannot be read."""
        asked = config.kenlm
        path, tokenizer = Path(asked.path or ""), Path(asked.tokenizer) if asked.tokenizer else None
        contents = [_known(path, "path")] + ([_known(tokenizer, "tokenizer")] if tokenizer else [])
        return cls(path, tokenizer, tuple(contents), asked.words, asked.sequence == "line")

    @property
    def identity(self) -> str:
        """SHA-256, hex, of all that decides what a perplexity means: the files, and how text is cut."""
        tables = unicodedata.unidata_version if self.words == "folded" else ""
        return digest([list(self.contents), self.words, self.by_line, tables])


def _known(path: Path, key: str) -> str:
    try:
        return file_hash(path)
    except OSError as error:
        raise ModelError(f"perplexity: {path} cannot be read ({error.strerror}); correct kenlm.{key}") from None


# -- tasks -------------------------------------------------------------------------------------------------------


def score_shards(shards: Sequence[Shard], config: PerplexityParams, engine: Engine) -> list[Result]:
    """Score every shard of documents; part "perplexity"."""
    model = KenlmFile.find(config)
    reader = _reader(model)
    params = {"model": model.identity, "max_scored_tokens": config.max_scored_tokens, "reader": reader}
    return engine.map(
        [
            Task(
                score_shard,
                "filters.perplexity.kenlm",
                SCORING_VERSION,
                params,
                (shard.object,),
                payload=(model, reader, config.max_scored_tokens),
                rows=shard.rows,
            )
            for shard in shards
        ]
    )


def _reader(model: KenlmFile) -> str:
    """What reads the file: the package kenlm of that version, or `OWN_READER`."""
    try:
        return version("kenlm")
    except PackageNotFoundError:
        with model.path.open("rb") as file:
            if file.read(len(_BINARY)) != _BINARY:
                return OWN_READER
        raise ModelError(
            f"perplexity: {model.path} is a binary file, which needs kenlm, and that is not installed: pip install -e "
            "'.[kenlm]', then run again; an ARPA file needs no package"
        ) from None


def score_shard(inputs: Inputs, payload: tuple[KenlmFile, str, int]) -> Iterable[Made]:
    """The task of one shard: its scores and their tally. payload: the model, its reader, and max_scored_tokens."""
    model, reader, max_tokens = payload
    documents = inputs.table(0, ["doc_id", "text"])
    scores = score_table(documents["doc_id"], likelihoods(model, reader, documents["text"], max_tokens))
    yield "perplexity", scores
    yield Stats(score_tally(documents, scores))


# -- scoring -----------------------------------------------------------------------------------------------------


def likelihoods(model: KenlmFile, reader: str, texts: pa.ChunkedArray, max_tokens: int) -> Likelihoods:
    """What the model says of texts, read up to max_tokens tokens each. Raises `ModelError` where it is no model, or
    another one than was found."""
    opened, cutter = _open(model, reader), _cutter(model)
    found = Likelihoods.nothing(len(texts))
    for number, text in enumerate(texts.to_pylist()):
        log10, found.tokens[number], found.bytes[number] = _score(opened, cutter, text or "", model.by_line, max_tokens)
        found.log_probability[number] = log10 * math.log(10)
    return found


def _score(opened: "Sentences", cutter: "Cutter", text: str, by_line: bool, max_tokens: int) -> tuple[float, int, int]:
    """Log10 probability, tokens, and bytes read of one text. Lines without a word are passed over."""
    total, tokens, read = 0.0, 0, 0
    lines = text.split("\n") if by_line else [text]
    for number, line in enumerate(lines):
        sentence, room = cutter.sentence(line), max_tokens - tokens
        words = sentence.encode().split()
        if not words:
            continue
        if not room:
            return total, tokens, _bytes_before(lines, read) - 1
        whole = len(words) + by_line <= room
        if not whole:
            words = words[:room]
        if not whole or ("<" in sentence and not _SPECIAL.isdisjoint(words)):
            sentence = b" ".join(_UNKNOWN if word in _SPECIAL else word for word in words).decode()
        total += opened.score(sentence, bos=True, eos=by_line and whole)
        tokens += len(words) + (by_line and whole)
        read = number + 1
        if not whole:
            return total, tokens, _bytes_before(lines, number) + cutter.reach(line, len(words))
    return total, tokens, len(text.encode())


def _bytes_before(lines: Sequence[str], number: int) -> int:
    """Bytes of the first so many lines, with the line breaks that end them."""
    return sum(len(line.encode()) + 1 for line in lines[:number])


class Sentences(Protocol):
    """A model that is open, as the package kenlm has it."""

    def score(self, sentence: str, bos: bool, eos: bool) -> float:
        """Log10 probability of words that white space parts. bos: they begin a sentence; eos: they end it."""


class ArpaSentences:
    """The same of an ARPA file, for machines without kenlm, where it takes longer to open."""

    def __init__(self, path: Path) -> None:
        self._model = read_arpa(path)

    def score(self, sentence: str, bos: bool, eos: bool) -> float:
        """See `Sentences`; here a sentence always has its beginning."""
        (total,), _ = self._model.score(pa.array([sentence], pa.large_string()), sys.maxsize, end=eos)
        return float(total) / math.log(10)


@functools.lru_cache(maxsize=1)
def _open(model: KenlmFile, reader: str) -> Sentences:
    """The model, opened once for all shards that a process scores."""
    opened = _read(model.path, reader)
    if file_hash(model.path) != model.contents[0]:
        raise ModelError(f"perplexity: {model.path} changed while it was read; start the run again")
    return opened


def _read(path: Path, reader: str) -> Sentences:
    if reader == OWN_READER:
        try:
            return ArpaSentences(path)
        except ValueError as error:
            raise ModelError(f"perplexity: kenlm.path cannot be read: {error}") from None
    import kenlm

    how = kenlm.Config()
    how.show_progress, how.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    try:
        opened: Sentences = kenlm.Model(str(path), how)
        return opened
    except (OSError, RuntimeError) as error:
        raise ModelError(
            f"perplexity: kenlm cannot read {path} (kenlm.path): {_reason(str(error))}; give a file that KenLM's "
            "build_binary made, or a whole ARPA file"
        ) from None


def _reason(told: str) -> str:
    """The first sentence of what an error of kenlm says, without the place in its source, and where in the file."""
    inner = re.sub(r"^Cannot read model '.*' \((.*)\)$", r"\1", " ".join(told.split()))
    inner = re.sub(r"^.* threw [\w:]+( because `.*?')?\. ", "", inner)
    sentence, _, place = re.sub(r"( at byte \d+)?\.? Byte: ", "\0", inner).partition("\0")
    sentence = re.split(r"\. +(?=[A-Z])", sentence)[0][:300]
    return f"{sentence} at byte {place}" if place else sentence


# -- words -------------------------------------------------------------------------------------------------------


class Cutter(Protocol):
    """How a line becomes words."""

    def sentence(self, line: str) -> str:
        """The words, white space of ASCII between them."""

    def reach(self, line: str, count: int) -> int:
        """Bytes of the line up to the end of its count-th word."""


class Whitespace:
    """Words stand between white space of ASCII, which is where KenLM's programs cut."""

    def sentence(self, line: str) -> str:
        """See `Cutter`."""
        return line

    def reach(self, line: str, count: int) -> int:
        """See `Cutter`."""
        found = re.finditer(rb"\S+", line.encode())
        return next(word.end() for number, word in enumerate(found, 1) if number == count)


class Folded:
    """Words as our own model reads them (`words.py`)."""

    def __init__(self) -> None:
        self._characters = _FoldedCharacters()

    def sentence(self, line: str) -> str:
        """See `Cutter`."""
        return line.translate(self._characters)

    def reach(self, line: str, count: int) -> int:
        """See `Cutter`."""
        data = np.frombuffer(line.encode(), np.uint8)
        return int(bytes_of_words(data, 0, len(data), language_model_alphabet(), count))


class _FoldedCharacters(dict[int, str]):
    """What each character becomes in a sentence of folded words, as `str.translate` asks for it: filled as it asks."""

    def __missing__(self, code_point: int) -> str:
        entry = int(language_model_alphabet()[code_point])
        part, folded = entry >> PART_SHIFT << PART_SHIFT, chr(entry & (WORD - 1))
        self[code_point] = {WORD: folded, ALONE: f" {folded} ", ABSENT: ""}.get(part, " ")
        return self[code_point]


class Pieces:
    """Words are the pieces of a tokenizer of Hugging Face."""

    def __init__(self, path: Path) -> None:
        import tokenizers

        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # noqa: BLE001 - the library raises Exception itself
            raise ModelError(f"perplexity: {path} (kenlm.tokenizer) is no tokenizer.json: {error}") from None
        self._tokenizer.no_truncation()  # files of models hold what these were trained with
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # what a text says of special tokens is text

    def sentence(self, line: str) -> str:
        """See `Cutter`. White space in a piece stands as U+2581, as SentencePiece writes it."""
        pieces = self._tokenizer.encode(line, add_special_tokens=False).tokens
        return " ".join(_WHITE_SPACE.sub("▁", piece) for piece in pieces)

    def reach(self, line: str, count: int) -> int:
        """See `Cutter`."""
        ends = self._tokenizer.encode(line, add_special_tokens=False).offsets
        return len(line[: ends[count - 1][1]].encode())


@functools.lru_cache(maxsize=1)
def _cutter(model: KenlmFile) -> Cutter:
    if model.tokenizer is not None:
        pieces = Pieces(model.tokenizer)
        if file_hash(model.tokenizer) != model.contents[1]:
            raise ModelError(f"perplexity: {model.tokenizer} changed while it was read; start the run again")
        return pieces
    return Folded() if model.words == "folded" else Whitespace()
