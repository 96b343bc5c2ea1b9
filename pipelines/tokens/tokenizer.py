"""The tokenizer: trained on a sample of named sources or loaded as it is, checked, and measured on that sample.

It is kept in the files that `transformers` loads. How a vocabulary is learnt stands in `tokenizer_training.py`, how one
is found in `loading.py`. Encoding documents is `encode.py`'s business.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from tokenizers import Tokenizer

from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.engines.task import File, Inputs, Made, Stats, Task
from pipelines.tokens.encode import id_space, library_threads
from pipelines.tokens.fertility import measure
from pipelines.tokens.loading import (
    TOKENIZER,
    FoundTokenizer,
    converted,
    find_tokenizer,
    named_roles,
    opened,
    trained_files,
    with_roles,
)
from pipelines.tokens.sample import Sample, Sampled
from pipelines.tokens.tokenizer_checks import check_ids, hostile_changes, refuse_spelled, special_ids
from pipelines.tokens.tokenizer_params import END_OF_TEXT, OF_LOADED, OF_TRAINED, PADDING, TokenizerParams
from pipelines.tokens.tokenizer_training import libraries, train

VERSION = 4


@dataclass(frozen=True)
class TokenizerWork:
    """What the task needs: parameters, how many of the input shards belong to each source, in order, and the tokenizer
    to load, if there is one, with what it is known by."""

    config: TokenizerParams
    shards: tuple[tuple[str, int], ...]
    found: FoundTokenizer | None
    identity: dict[str, Any]


def make_tokenizer(filtered_documents: Dataset, config: TokenizerParams, engine: Engine) -> Draft:
    """Train or load a tokenizer; the draft has the part `tokenizer`: tokenizer.json, tokenizer_config.json,
    special_tokens_map.json, and what else a loaded one has.

    filtered_documents: the sources to learn from and to measure on; further ones are passed over when `sources` or
    `weights` names some. Special tokens of a trained one come first: the beginning and end of text (one token,
    `<|endoftext|>`, unless they are named), padding, then the reserved ones. The same inputs give the same bytes
    whatever the number of threads. The vocabulary is smaller than asked where the sample has too few pairs. Memory: the
    sample (`sample_megabytes`) a few times, one shard, and the distinct words of the sample. Raises `ValueError` for
    unknown sources, when there is no text, for a tokenizer that is not there, and for one that does not do.
    """
    present = filtered_documents.partitions
    for name in [*config.sources, *config.weights]:
        if name not in present:
            raise ValueError(
                f"the tokenizer is to learn from {name!r}, which is not among the sources: {', '.join(present)}"
            )
    names = [name for name in present if not config.named_sources or name in config.named_sources]
    documents = filtered_documents.of(*names)
    shards = tuple((name, len(documents.of(name).shards("documents"))) for name in names)
    found = find_tokenizer(config) if config.kind == "loaded" else None
    identity = found.identity() if found else {}
    params = config.model_dump(exclude={"sources", "lossy"} | OF_LOADED | (OF_TRAINED if found else set()))
    params |= {"shards": [list(pair) for pair in shards]}
    params |= {"loaded": identity, "tokenizers": version("tokenizers")} if found else libraries(config)
    result = engine.run(
        Task(
            run_tokenizer,
            "tokens.tokenizer",
            VERSION,
            params,
            inputs=tuple(shard.object for shard in documents.shards("documents")),
            payload=TokenizerWork(config, shards, found, identity),
            rows=documents.rows("documents"),
        )
    )
    if config.lossy == "refuse":
        _refuse_lossy(result.stats["round_trip"], found.name if found else "trained here")
    return Draft(result.parts, result.stats)


def run_tokenizer(inputs: Inputs, work: TokenizerWork) -> Iterable[Made]:
    """Sample, train or load, check, measure, write."""
    config = work.config
    samples = _draw(inputs, work)
    documents = [document for sample in samples for document in sample.documents()]
    if not any(document.text for document in documents):
        names = ", ".join(name for name, _ in work.shards) or "none"
        raise ValueError(f"the tokenizer has nothing to learn from: its sources ({names}) hold no text")
    with library_threads():
        if work.found:
            made_by = "loaded"
            tokenizer, files, ids = _load(work.found, work.identity, config)
        else:
            tokenizer, made_by = train([document.text for document in documents], config)
            files, ids = _as_trained(tokenizer, config)
        measured = _measured(tokenizer, documents)
    for file in sorted(files):
        yield "tokenizer", File(file, files[file])
    yield Stats(
        {
            "documents_in": sum(sample.offered_documents for sample in samples),
            "bytes_in": sum(sample.offered_bytes for sample in samples),
            "sample_documents": {name: sum(1 for d in documents if d.source == name) for name, _ in work.shards},
            "sample_bytes": {
                name: sum(len(d.text.encode()) for d in documents if d.source == name) for name, _ in work.shards
            },
            **_attention(samples, id_space(tokenizer), config),
            "made_by": made_by,
            "vocabulary_size": id_space(tokenizer),
            **({} if work.found else {"vocabulary_wanted": config.vocabulary}),
            **{role.replace("_token", "_id"): ids.get(role) for role in ("bos_token", "eos_token", "pad_token")},
            **measured,
        }
    )


def _load(
    found: FoundTokenizer, identity: dict[str, Any], config: TokenizerParams
) -> tuple[Tokenizer, dict[str, bytes], dict[str, int]]:
    """(tokenizer, its files, ids of its roles)."""
    files = converted(found.read(identity), found.name)
    tokenizer = opened(files[TOKENIZER], found.name)
    asked = {"bos_token": config.bos_token, "eos_token": config.eos_token, "pad_token": config.pad_token}
    roles = named_roles(files, found.name) | {role: token for role, token in asked.items() if token}
    files = with_roles(files, tokenizer, roles, config.reserved_tokens, found.name)
    check_ids(tokenizer, found.name)
    ids = special_ids(tokenizer, roles, found.name)
    named = {role: [token] for role, token in roles.items()} | {"reserved_tokens": config.reserved_tokens}
    refuse_spelled(tokenizer, named, found.name)
    return tokenizer, files, ids


def _as_trained(tokenizer: Tokenizer, config: TokenizerParams) -> tuple[dict[str, bytes], dict[str, int]]:
    """(files, ids of the roles)."""
    eos = config.eos_token or END_OF_TEXT
    roles = {"bos_token": config.bos_token or eos, "eos_token": eos, "pad_token": config.pad_token or PADDING}
    ids = special_ids(tokenizer, roles, "trained here")
    return trained_files(tokenizer, roles, config.special_tokens), ids


def _draw(inputs: Inputs, work: TokenizerWork) -> list[Sample]:
    """One sample over all sources (so in proportion to size), or one of its own for every source with a weight."""
    limit = round(work.config.sample_megabytes * 1e6)
    weights, seed = work.config.weights, work.config.seed
    if weights:
        parts = {name: limit * weights[name] / sum(weights.values()) for name in sorted(weights)}
        samples = {name: Sample(max(1, round(part)), seed) for name, part in parts.items()}
    else:
        samples = dict.fromkeys((name for name, _ in work.shards), Sample(limit, seed))
    owners = [name for name, count in work.shards for _ in range(count)]
    for index, owner in enumerate(owners):
        if owner not in samples:
            continue
        table = inputs.table(index, ["doc_id", "language", "text"])
        columns = (table["doc_id"].to_pylist(), table["language"].to_pylist(), table["text"])
        for doc_id, language, text in zip(*columns, strict=True):
            samples[owner].offer(owner, doc_id, language or "", text)
    distinct = {id(sample): sample for sample in samples.values()}
    return list(distinct.values())


def _attention(samples: Sequence[Sample], vocabulary: int, config: TokenizerParams) -> dict[str, str]:
    """What is not as it was asked for: the sample's proportions, the vocabulary's size."""
    told = []
    if config.weights:
        short = [
            f"{name} gives {sample.offered_bytes:,} of {sample.limit_bytes:,} bytes"
            for name, sample in zip(sorted(config.weights), samples, strict=True)
            if sample.offered_bytes < sample.limit_bytes
        ]
        if short:
            told.append(f"The sample is not in proportion to tokenizer.weights: {'; '.join(short)}.")
    if config.kind != "loaded" and vocabulary < config.vocabulary:
        told.append(f"The sample gave {vocabulary:,} of {config.vocabulary:,} tokens: there was nothing more to learn.")
    return {"attention": " ".join(told)} if told else {}


def _measured(tokenizer: Tokenizer, documents: Sequence[Sampled]) -> dict[str, Any]:
    """How finely the sample is cut, and what of it, and of the hostile texts, does not come back, as stats."""
    hostile = hostile_changes(tokenizer)
    measured = measure(tokenizer, documents)
    total = measured.total
    return {
        "tokens_per_word": total.tokens / max(1, total.words),
        "bytes_per_token": measured.bytes_per_token(),
        "fertility": measured.rows(),
        "round_trip": {
            "documents": total.documents,
            "composed_otherwise": total.equivalent,
            "changed": total.changed,
            "first_changed": ", ".join(measured.first_changed),
            "hostile_texts_changed": len(hostile),
            "first_hostile_text_changed": " became ".join(ascii(text[:40]) for text in hostile[0]) if hostile else "",
        },
    }


def _refuse_lossy(found: dict[str, Any], name: str) -> None:
    """Raises `ValueError` for a tokenizer that changes texts."""
    if not found["changed"] and not found["hostile_texts_changed"]:
        return
    which = f" (first {found['first_changed']})" if found["changed"] else ""
    such = f", first {found['first_hostile_text_changed']}" if found["hostile_texts_changed"] else ""
    raise ValueError(
        f"the tokenizer {name} changes {found['changed']:,} of {found['documents']:,} documents{which} and "
        f"{found['hostile_texts_changed']} hostile texts{such}: they do not come back from encoding and decoding; set "
        "tokenizer.lossy to 'accept' if a model need never see the difference"
    )
