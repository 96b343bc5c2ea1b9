"""Training the tokenizer: byte-level BPE on a sample of named sources, in the files that `transformers` loads.

No normalisation, so that decoding gives back exactly what was encoded (texts are normalised when they are cleaned);
digits one by one; words split as in GPT-2. Encoding documents is `encode.py`'s business.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Stats, Task
from pipelines.tokens.encode import library_threads
from pipelines.tokens.params import END_OF_TEXT, PADDING, TokenizerParams
from pipelines.tokens.sample import Sample

VERSION = 2

LONGEST_LEARNT_WORD = 200
"""Longest stretch without a space, in byte symbols, that merges are learnt from."""

MEASURED_BYTES = 1_000_000
"""Sample text per source that bytes per token are measured on, and that is encoded and decoded as a check."""

HOSTILE_TEXTS = (
    "",
    " ",
    "\n\n\n\t \r\n",
    "\x00\x01\x7f\x80",
    "\ufeff\ufffe\uffff\U0010ffff",
    "e\u0301 \u00e9 A\u030a \u212b \ufb01",
    "Z\u0351\u036b\u0343a\u0321l\u0310g\u0322o",
    "\u202eright to left\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f1e9\U0001f1ea\U0001f44b\U0001f3fd",
    "吾輩は猫である。名前はまだ無い。",
    "0123456789 ٠١٢٣ Ⅷ ½ 1e-05 3.14",
    "a" * 5_000,
    " " * 300 + "x",
    f"{END_OF_TEXT}{PADDING} <|endoftext |> < |pad| >",
)
"""Texts that break tokenizers: each must come back from encoding and decoding unchanged."""


@dataclass(frozen=True)
class TrainingWork:
    """What the training task needs: parameters, and how many of the input shards belong to each source, in order."""

    config: TokenizerParams
    shards: tuple[tuple[str, int], ...]


def train_tokenizer(filtered_documents: Dataset, config: TokenizerParams, engine: Engine) -> Draft:
    """Train a byte-level BPE tokenizer; the draft has the part `tokenizer`: three JSON files.

    filtered_documents: the sources to learn from; further ones are passed over when `config.sources` names some.
    Special tokens come first: `<|endoftext|>` 0 (end of document, and what a generation starts from, as in GPT-2),
    `<|pad|>` 1, then the reserved ones. The same inputs give the same bytes whatever the number of threads. The
    vocabulary is smaller than asked where the sample has too few pairs. Memory: the sample (`sample_megabytes`), one
    shard, and the distinct words of the sample. Raises `ValueError` for unknown sources and when there is no text.
    """
    present = filtered_documents.partitions
    for name in [*config.sources, *config.weights]:
        if name not in present:
            raise ValueError(
                f"the tokenizer is to learn from {name!r}, which is not among the sources: {', '.join(present)}"
            )
    names = [name for name in present if not config.sources or name in config.sources]
    documents = filtered_documents.of(*names)
    shards = tuple((name, len(documents.of(name).shards("documents"))) for name in names)
    params = config.model_dump(exclude={"sources"}) | {
        "shards": [list(pair) for pair in shards],
        "tokenizers": version("tokenizers"),
    }
    result = engine.run(
        Task(
            run_training,
            "tokens.tokenizer",
            VERSION,
            params,
            inputs=tuple(shard.object for shard in documents.shards("documents")),
            payload=TrainingWork(config, shards),
            rows=documents.rows("documents"),
        )
    )
    return Draft(result.parts, result.stats)


def run_training(inputs: Inputs, work: TrainingWork) -> Iterable[Made]:
    """Sample, train, check, write."""
    samples = _draw(inputs, work)
    texts = [pair for sample in samples for pair in sample.documents()]
    if not any(text for _, text in texts):
        names = ", ".join(name for name, _ in work.shards) or "none"
        raise ValueError(f"the tokenizer has nothing to learn from: its sources ({names}) hold no text")
    special = [END_OF_TEXT, PADDING, *work.config.reserved_tokens]
    with library_threads():
        tokenizer = train([text for _, text in texts], work.config, special)
        bytes_per_token = _check_and_measure(tokenizer, texts)
    by_source = {name: sum(1 for source, _ in texts if source == name) for name, _ in work.shards}
    taken = {name: sum(len(t.encode()) for s, t in texts if s == name) for name, _ in work.shards}
    yield "tokenizer", File("tokenizer.json", tokenizer.to_str(pretty=True).encode())
    yield "tokenizer", File("tokenizer_config.json", _json(tokenizer_config(tokenizer, special)))
    yield "tokenizer", File("special_tokens_map.json", _json(special_tokens_map(special)))
    yield Stats(
        {
            "documents_in": sum(sample.offered_documents for sample in samples),
            "bytes_in": sum(sample.offered_bytes for sample in samples),
            "sample_documents": by_source,
            "sample_bytes": taken,
            "vocabulary_size": tokenizer.get_vocab_size(),
            "vocabulary_wanted": work.config.vocabulary,
            "eos_id": tokenizer.token_to_id(END_OF_TEXT),
            "pad_id": tokenizer.token_to_id(PADDING),
            "bytes_per_token": bytes_per_token,
        }
    )


def train(texts: Sequence[str], config: TokenizerParams, special: Sequence[str]) -> Tokenizer:
    """A byte-level BPE tokenizer learnt from texts (Sennrich et al. 2016; bytes as in Radford et al. 2019)."""
    tokenizer = Tokenizer(models.BPE())
    words = [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ]
    # Learning takes time that grows with the square of a word's length, so a megabyte without a space is learnt in
    # pieces; encoding is linear and takes words whole.
    pieces = pre_tokenizers.Split(Regex(f".{{{LONGEST_LEARNT_WORD}}}"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*words, pieces])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        min_frequency=config.min_frequency,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((texts[i : i + 1000] for i in range(0, len(texts), 1000)), trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
    return tokenizer


def tokenizer_config(tokenizer: Tokenizer, special: Sequence[str]) -> dict[str, Any]:
    """What `transformers.AutoTokenizer` reads beside `tokenizer.json`."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "pad_token": PADDING,
        "additional_special_tokens": list(special[2:]),
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(token)): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for token in special
        },
        "clean_up_tokenization_spaces": False,
        "padding_side": "right",
    }


def special_tokens_map(special: Sequence[str]) -> dict[str, Any]:
    """The roles of the special tokens, as older readers expect them."""
    roles: dict[str, Any] = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "pad_token": PADDING}
    return roles | ({"additional_special_tokens": list(special[2:])} if special[2:] else {})


def _draw(inputs: Inputs, work: TrainingWork) -> list[Sample]:
    """One sample over all sources (so in proportion to size), or one of its own for every source with a weight."""
    limit = round(work.config.sample_megabytes * 1e6)
    weights, seed = work.config.weights, work.config.seed
    if weights:
        total = sum(weights.values())
        samples = {name: Sample(max(1, round(limit * weight / total)), seed) for name, weight in weights.items()}
    else:
        samples = dict.fromkeys((name for name, _ in work.shards), Sample(limit, seed))
    owners = [name for name, count in work.shards for _ in range(count)]
    for index, owner in enumerate(owners):
        if owner not in samples:
            continue
        table = inputs.table(index, ["doc_id", "text"])
        for doc_id, text in zip(table["doc_id"].to_pylist(), table["text"], strict=True):
            samples[owner].offer(owner, doc_id, text)
    distinct = {id(sample): sample for sample in samples.values()}
    return list(distinct.values())


def _check_and_measure(tokenizer: Tokenizer, texts: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Bytes per token of each source, from texts that are also decoded again; raises when one comes back changed."""
    measured_bytes: dict[str, int] = {}
    tokens: dict[str, int] = {}
    chosen: list[tuple[str, str]] = [("", text) for text in HOSTILE_TEXTS]
    for source, text in texts:
        if measured_bytes.get(source, 0) < MEASURED_BYTES:
            part = text[:MEASURED_BYTES]
            measured_bytes[source] = measured_bytes.get(source, 0) + len(part.encode())
            chosen.append((source, part))
    tokenizer.encode_special_tokens = True
    encodings = tokenizer.encode_batch_fast([text for _, text in chosen], add_special_tokens=False)
    decoded = tokenizer.decode_batch([encoding.ids for encoding in encodings], skip_special_tokens=False)
    tokenizer.encode_special_tokens = False
    for (source, text), encoding, back in zip(chosen, encodings, decoded, strict=True):
        if back != text:
            where = f"a text of {source}" if source else "a hostile text"
            raise ValueError(f"the tokenizer does not give back {where} unchanged: {text[:60]!r} became {back[:60]!r}")
        tokens[source] = tokens.get(source, 0) + len(encoding.ids)
    return {source: size / max(1, tokens[source]) for source, size in sorted(measured_bytes.items())}


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
