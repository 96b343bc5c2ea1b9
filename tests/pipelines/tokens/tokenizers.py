"""Small tokenizers built like well-known ones, each learnt from a sentence; and a dataset of one."""

import functools
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from pipelines.dataset import Dataset, Draft, Part, Shard
from pipelines.store import Store
from tests.pipelines.tokens.corpus import sealed

KINDS = ("neox", "llama3", "llama", "metaspace")

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SENTENCES = [
    "to be or not to be, that is the question\n",
    "Whether 'tis nobler in the mind to suffer 12 slings  \n",
] * 9

ROLES = {
    "neox": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|padding|>"},
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"},
    "llama": {"bos_token": {"content": "<s>"}, "eos_token": {"content": "</s>"}, "unk_token": "<unk>"},
    "metaspace": {"bos_token": "<s>", "eos_token": "</s>"},
}


@functools.cache
def like(kind: str) -> str:
    """The `tokenizer.json` of a small one built like GPT-NeoX's, Llama 3's, Llama's, or a newer SentencePiece one."""
    tokenizer = {"neox": _neox, "llama3": _llama3, "llama": _llama, "metaspace": _metaspace}[kind]()
    return tokenizer.to_str()


def dataset_like(store: Store, kind: str, **roles: object) -> Dataset:
    """The same as a dataset, with the roles of its tokens; a role that is None is left out."""
    named = {role: token for role, token in (ROLES[kind] | roles).items() if token is not None}
    return dataset_of(store, like(kind).encode(), named)


def dataset_of(store: Store, definition: bytes | Path, roles: dict) -> Dataset:
    """A tokenizer.json with these roles as a dataset."""
    content = definition if isinstance(definition, bytes) else definition.read_bytes()
    files = {"tokenizer.json": content, "tokenizer_config.json": json.dumps(roles).encode()}
    shards = tuple(Shard(store.put(data), len(data), name=name) for name, data in files.items())
    return sealed(store, Draft({"tokenizer": Part("files", shards)}), "tokenizer")


def _learnt(tokenizer: Tokenizer, special: list[str], alphabet: list[str]) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=300 + len(alphabet) // 3 + len(special),
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def _neox() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    _learnt(tokenizer, ["<|endoftext|>", "<|padding|>"], sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([" " * count for count in range(8, 1, -1)])
    return tokenizer


def _llama3() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    words = pre_tokenizers.Split(Regex(WORDS), "isolated")
    symbols = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, symbols])
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    _learnt(tokenizer, special, sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = _template("<|begin_of_text|>", 0)
    return tokenizer


def _llama() -> Tokenizer:
    tokenizer = _sentencepiece()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def _metaspace() -> Tokenizer:
    tokenizer = _sentencepiece()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def _sentencepiece() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    _learnt(
        tokenizer,
        ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
        ["▁", *map(chr, range(33, 127))],
    )
    definition = json.loads(tokenizer.to_str())
    # The bytes are tokens of the model, not special ones.
    definition["added_tokens"] = definition["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(definition))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = _template("<s>", 1)
    return tokenizer


def _template(token: str, token_id: int) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, token_id)])
