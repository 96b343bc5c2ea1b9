"""Learning a byte-level vocabulary from texts: BPE, or unigram.

No normalisation but NFC, so that decoding gives back what was encoded. Merges are learnt by our own trainer where it
makes the same ones as that of `tokenizers` from the beginning of the sample, which is tried every time; else, and that
is told, by `tokenizers`.
"""

import io
import json
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from pipelines.tokens.hostile import HOSTILE_TEXTS
from pipelines.tokens.tokenizer_merges import learn_merges
from pipelines.tokens.tokenizer_params import BYTES, TokenizerParams
from pipelines.tokens.tokenizer_words import LONGEST_WORD, UnlikeTables, WordCounts, count_words

OWN, LIBRARY, SENTENCEPIECE = "corpusmill", "tokenizers", "sentencepiece"
"""What learnt a vocabulary."""

COMPARED_CHARACTERS, COMPARED_TOKENS = 100_000, 2_000
"""Text from the sample's beginning, and merges learnt from it, on which the two trainers are compared."""

LONGEST_PIECE = 64
"""Bytes of a piece of a unigram vocabulary: 16 characters, SentencePiece's limit, of four bytes."""

NEVER = -1e4
"""Logarithm of a probability that keeps special tokens out of what text is cut into."""

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where GPT-4's tokenizer cuts text (OpenAI's tiktoken, cl100k_base). It keeps three digits together, Qwen's one."""

GPT4_DIGITS = {"single": "", "three": "{1,3}", "whole": "+"}


def byte_symbols() -> list[str]:
    """The characters that stand for the bytes 0 … 255 in a byte-level vocabulary (Radford et al. 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(BYTES)]


def skeleton(config: TokenizerParams, model: models.Model) -> Tokenizer:
    """A tokenizer that cuts text as the parameters say, and decodes it again."""
    tokenizer = Tokenizer(model)
    if config.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_cuts(config))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def train(texts: Sequence[str], config: TokenizerParams) -> tuple[Tokenizer, str]:
    """A tokenizer learnt from texts, and what learnt it.

    The same texts give the same tokenizer, on any number of threads. Raises `ValueError` where 'unigram' needs a
    library that is not there, and for a special token that text would be cut into.
    """
    if config.kind == "unigram":
        tokenizer, made_by = train_unigram(texts, config), SENTENCEPIECE
    elif _alike(texts, config):
        tokenizer, made_by = train_bpe(texts, config), OWN
    else:
        tokenizer, made_by = train_bpe_by_library(texts, config), LIBRARY
    merges = json.loads(tokenizer.to_str())["model"].get("merges", [])
    if words := {*byte_symbols(), *(left + right for left, right in merges)}.intersection(config.special_tokens):
        raise ValueError(
            f"the special token {min(words)!r} is also what text is cut into, so a document could not hold it as text: "
            "write it with signs at both ends, such as <|name|>"
        )
    return tokenizer, made_by


def train_bpe(texts: Sequence[str], config: TokenizerParams) -> Tokenizer:
    """Merges by our own trainer (Sennrich et al. 2016). Raises `UnlikeTables`."""
    special, symbols = config.special_tokens, byte_symbols()
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys([*special, *sorted(symbols)]))}
    byte_ids = np.array([vocabulary[symbol] for symbol in symbols], np.int64)
    spelt = {symbol: bytes([byte]) for byte, symbol in enumerate(symbols)}
    # A special token is met by merges only where all of its characters stand for bytes.
    tokens = [b"".join(map(spelt.__getitem__, token)) if set(token) <= spelt.keys() else b"" for token in vocabulary]
    strings = list(vocabulary)
    merges = []
    for left, right, both in learn_merges(
        _words(texts, config), byte_ids, tokens, config.vocabulary, config.min_frequency
    ):
        if both == len(strings):
            strings.append(strings[left] + strings[right])
        merges.append((strings[left], strings[right]))
    model = models.BPE(vocab={token: number for number, token in enumerate(strings)}, merges=merges)
    tokenizer = skeleton(config, model)
    tokenizer.add_special_tokens(special)
    return tokenizer


def train_bpe_by_library(texts: Sequence[str], config: TokenizerParams) -> Tokenizer:
    """The same by the trainer of `tokenizers`."""
    tokenizer = skeleton(config, models.BPE())
    pieces = pre_tokenizers.Split(Regex(f".{{{LONGEST_WORD}}}"), "isolated")
    whole = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*_cuts(config), pieces])
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        min_frequency=config.min_frequency,
        special_tokens=config.special_tokens,
        initial_alphabet=sorted(byte_symbols()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((texts[i : i + 1000] for i in range(0, len(texts), 1000)), trainer)
    tokenizer.pre_tokenizer = whole
    return tokenizer


def train_unigram(texts: Sequence[str], config: TokenizerParams) -> Tokenizer:
    """Pieces and their probabilities by SentencePiece (Kudo 2018), from words as byte symbols.

    On one thread: its sums, and which of two equal pieces is kept, depend on their order. The trainer in `tokenizers`
    adds them up in an order that changes from run to run.
    """
    try:
        import sentencepiece
    except ModuleNotFoundError:
        raise ValueError(
            "tokenizer: kind 'unigram' is trained by sentencepiece, which is not installed: pip install -e "
            "'.[unigram]', then run again; kind 'bpe' needs nothing more"
        ) from None
    special, symbols = config.special_tokens, byte_symbols()
    words = _words(texts, config)
    there = {symbols[byte] for byte in np.unique(words.data).tolist()}
    unseen = [symbol for symbol in symbols if symbol not in there]
    room = config.vocabulary - len(special) - len(unseen)
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_lines(words, symbols),
        model_writer=written,
        input_format="tsv",
        model_type="unigram",
        vocab_size=room + len(special) + 1,  # pieces may be spelt like special tokens; and its token for the unknown
        hard_vocab_limit=False,
        character_coverage=1.0,
        max_sentencepiece_length=LONGEST_PIECE,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        split_by_whitespace=False,
        split_by_unicode_script=False,
        split_by_number=False,
        max_sentence_length=8 * LONGEST_WORD,
        num_threads=1,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        minloglevel=2,
    )
    read = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    found = [(read.id_to_piece(i), read.get_score(i)) for i in range(1, len(read))]  # the likeliest first
    symbols_left = len(there)
    learnt: list[tuple[str, float]] = []
    for piece, score in found:
        if piece in there:
            symbols_left -= 1
        elif piece in special or len(learnt) + symbols_left >= room:
            continue
        learnt.append((piece, score))
    rarest = learnt[-1][1]
    pieces = [(token, NEVER) for token in special] + learnt + [(symbol, rarest - 10.0) for symbol in unseen]
    tokenizer = skeleton(config, models.Unigram(pieces, None, False))
    tokenizer.add_special_tokens(special)
    return tokenizer


def libraries(config: TokenizerParams) -> dict[str, str]:
    """Versions of what decides a vocabulary."""
    found = {"tokenizers": version("tokenizers")}
    if config.kind == "unigram":
        try:
            found["sentencepiece"] = version("sentencepiece")
        except PackageNotFoundError:
            found["sentencepiece"] = "none"  # told when it is trained
    return found


def _cuts(config: TokenizerParams) -> list[pre_tokenizers.PreTokenizer]:
    if config.pattern == "gpt4":
        expression = GPT4.format(digits=GPT4_DIGITS[config.digits])
        return [
            pre_tokenizers.Split(Regex(expression), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    alone = [pre_tokenizers.Digits(individual_digits=True)] if config.digits == "single" else []
    return [*alone, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]


def _words(texts: Sequence[str], config: TokenizerParams) -> WordCounts:
    composed = map(normalizers.NFC().normalize_str, texts) if config.nfc else texts
    return count_words(composed, config.pattern, config.digits)


def _lines(words: WordCounts, symbols: Sequence[str]) -> Iterator[str]:
    """The words in SentencePiece's format: symbols, a tab, how often."""
    for word, count in zip(words.words(), words.counts.tolist(), strict=True):
        yield f"{''.join(map(symbols.__getitem__, word))}\t{count}"


def _alike(texts: Sequence[str], config: TokenizerParams) -> bool:
    """Whether both trainers make the same of hostile texts and of the sample's beginning."""
    beginning = list(HOSTILE_TEXTS)
    left = COMPARED_CHARACTERS
    for text in texts:
        beginning.append(text[:left])
        left -= len(beginning[-1])
        if not left:
            break
    few = len(config.special_tokens) + BYTES + COMPARED_TOKENS
    small = config.model_copy(update={"vocabulary": min(config.vocabulary, few), "min_frequency": 1})
    try:
        ours, theirs = (make(beginning, small) for make in (train_bpe, train_bpe_by_library))
    except UnlikeTables:
        return False
    return bool(json.loads(ours.to_str()) == json.loads(theirs.to_str()))
