"""Perplexity by a causal language model: windows, the scores of a naive reader, memory, and which model it is."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dataset import Dataset, Draft, Part
from pipelines.engines.local import Engine
from pipelines.filters.perplexity import causal
from pipelines.filters.perplexity.causal import CausalScorer, batches, windows
from pipelines.filters.perplexity.likelihood import score_table
from pipelines.filters.perplexity.params import PerplexityParams
from pipelines.filters.perplexity.stage import score_perplexity
from pipelines.filters.toxicity.neural_runtime import torch_threads
from pipelines.histograms import added
from pipelines.pretrained import ModelError, cached_folder, content_hash, open_causal_model
from pipelines.store import Store
from tests.pipelines.filters.corpus import column, doc_id, documents, published, trained_model
from tests.pipelines.filters.perplexity.causal_model import CONTEXT, TEXTS, make_model


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def scorer(folder: Path) -> CausalScorer:
    import torch

    return CausalScorer(*open_causal_model(folder, torch.float32))


def config(folder: Path | None = None, max_scored_tokens: int = 10**6, **values: Any) -> PerplexityParams:
    asked = {"path": str(folder or "anywhere"), "window": 16, "stride": 8, "batch_tokens": 64, "device": "cpu"}
    return PerplexityParams(model="causal", causal={**asked, **values}, max_scored_tokens=max_scored_tokens)


def naive(scorer: CausalScorer, text: str, window: int, stride: int) -> tuple[float, int]:
    """Log probability and tokens of a text, one token at a time: each by a reading of its own of what precedes it."""
    import torch

    ids = [scorer.tokenizer.bos_token_id, *scorer.tokenizer(text)["input_ids"]]
    total = 0.0
    for place in range(1, len(ids)):
        begin = max(0, math.ceil((place + 1 - window) / stride)) * stride
        assert place - begin >= min(place, window - stride)
        with torch.no_grad():
            logits = scorer.model(input_ids=torch.tensor([ids[begin:place]])).logits[0, -1]
        total += float(torch.log_softmax(logits.double(), -1)[ids[place]])
    return total, len(ids) - 1


@pytest.mark.parametrize(("window", "stride"), [(16, 8), (16, 15), (5, 2)])
def test_every_token_has_the_probability_that_a_naive_reader_gives_it(
    scorer: CausalScorer, window: int, stride: int
) -> None:
    texts = ["The miller sees the river.", TEXTS[1], TEXTS[5]]
    found = scorer.likelihoods(column(texts), config(window=window, stride=stride), 64)

    expected = [naive(scorer, text, window, stride) for text in texts]
    assert found.tokens.tolist() == [tokens for _, tokens in expected]
    assert found.log_probability == pytest.approx([total for total, _ in expected], rel=1e-5)
    assert found.bytes.tolist() == [len(text.encode()) for text in texts]


def test_a_text_within_one_window_has_the_loss_that_transformers_computes(scorer: CausalScorer) -> None:
    import torch

    text = TEXTS[3]
    ids = torch.tensor([[scorer.tokenizer.bos_token_id, *scorer.tokenizer(text)["input_ids"]]])
    with torch.no_grad():
        loss = float(scorer.model(input_ids=ids, labels=ids).loss)

    scores = table(scorer, [text], config(window=CONTEXT)).to_pylist()[0]

    assert scores["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    bits = loss * scores["tokens"] / math.log(2)
    assert scores["bits_per_byte"] == pytest.approx(bits / len(text.encode()), rel=1e-5)
    assert scores["fold"] is None


def table(scorer: CausalScorer, texts: list[str], asked: PerplexityParams) -> pa.Table:
    ids = pa.chunked_array([pa.array([doc_id(text) for text in texts], pa.large_string())])
    return score_table(ids, scorer.likelihoods(column(texts), asked))


@given(st.integers(0, 200), st.integers(2, 40), st.data())
def test_windows_score_each_token_once_with_what_precedes_it(tokens: int, window: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, window - 1))
    found = list(windows(3, tokens, window, stride))
    assert [place for w in found for place in range(w.scored, w.end)] == list(range(1, tokens))
    for w in found:
        assert w.text == 3
        assert w.end - w.begin <= window
        assert w.scored - w.begin >= min(w.scored, window - stride)


@given(st.lists(st.integers(0, 90), max_size=12), st.integers(1, 100))
def test_batches_hold_every_window_once_the_longest_first(tokens: list[int], batch_tokens: int) -> None:
    given_windows = [w for text, count in enumerate(tokens) for w in windows(text, count, 16, 8)]
    made = list(batches(given_windows, batch_tokens))
    assert sorted(w for batch in made for w in batch) == sorted(given_windows)
    lengths = [[w.end - w.begin for w in batch] for batch in made]
    assert all(len(one) == 1 or len(one) * max(one) <= batch_tokens for one in lengths)
    in_order = [length for one in lengths for length in one]
    assert in_order == sorted(in_order, reverse=True)


def test_scores_do_not_depend_on_neighbours_or_batches(scorer: CausalScorer) -> None:
    alone = [scorer.likelihoods(column([text]), config(), 1).log_probability[0] for text in TEXTS]
    together = scorer.likelihoods(column(TEXTS), config(), 10**6).log_probability
    assert together == pytest.approx(alone, rel=1e-5)


def test_a_text_of_less_than_two_tokens_has_no_score(scorer: CausalScorer) -> None:
    scores = table(scorer, ["", "e", "The miller"], config())
    assert scores["tokens"].to_pylist()[:2] == [0, 1]
    assert scores["perplexity"].is_null().to_pylist() == [True, True, False]
    assert scores["bits_per_byte"].is_null().to_pylist() == [True, True, False]


def test_a_long_text_is_read_up_to_the_limit_and_its_bytes_are_those_read(scorer: CausalScorer) -> None:
    text = TEXTS[0]
    place = scorer.tokenizer(text, return_offsets_mapping=True)["offset_mapping"][19][1]
    limited = table(scorer, [text], config(max_scored_tokens=20)).to_pylist()[0]
    beginning = table(scorer, [text[:place]], config()).to_pylist()[0]
    assert limited["tokens"] == beginning["tokens"] == 20
    assert limited["bits_per_byte"] == pytest.approx(beginning["bits_per_byte"])


def test_the_beginning_is_read_whatever_the_tokenizer_keeps_of_long_texts(scorer: CausalScorer, folder: Path) -> None:
    import torch

    other = CausalScorer(*open_causal_model(folder, torch.float32))
    other.tokenizer.truncation_side = "left"
    asked = config(max_scored_tokens=5)
    assert table(other, TEXTS, asked).equals(table(scorer, TEXTS, asked))


def test_what_a_text_says_of_special_tokens_is_text(scorer: CausalScorer) -> None:
    found = scorer.likelihoods(column(["<|endoftext|>"]), config())
    assert found.tokens[0] > 5


def test_without_a_token_to_start_from_the_first_one_is_not_scored(tmp_path: Path) -> None:
    import torch

    scorer = CausalScorer(*open_causal_model(make_model(tmp_path, start=None), torch.float32))
    text = TEXTS[3]
    encoded = scorer.tokenizer(text, return_offsets_mapping=True)
    ids, places = encoded["input_ids"], encoded["offset_mapping"]
    found = scorer.likelihoods(column([text, "e", ""]), config(window=CONTEXT))
    assert found.tokens.tolist() == [len(ids) - 1, 0, 0]
    assert found.bytes[0] == len(text[places[0][1] :].encode())


def test_a_model_that_gives_no_number_gives_no_score(folder: Path) -> None:
    import torch

    model, tokenizer = open_causal_model(folder, torch.float32)
    with torch.no_grad():
        model.transformer.wte.weight[5:] = float("nan")
    scores = table(CausalScorer(model, tokenizer), TEXTS, config())
    assert scores["perplexity"].null_count == len(TEXTS)
    assert not any(math.isnan(value) for value in scores["perplexity"].drop_null().to_pylist())


# -- the stage -----------------------------------------------------------------------------------------------------


def test_the_stage_scores_every_shard_with_the_model_that_scored_the_reference(
    store: Store, engine: Engine, folder: Path, scorer: CausalScorer
) -> None:
    reference = documents(store, TEXTS, language=["en", "zh", "hi", "en", "de", "en"], shard_rows=4)
    model = trained_model(store, reference, config(folder), engine)
    (file,) = model.shards("perplexity_model")
    described = json.loads(store.get(file.object))
    assert described["model"]["kind"] == "causal"
    assert described["languages"] == {"de": 1, "en": 3, "hi": 1, "zh": 1}
    assert described["by_language"]["en"]["documents"] == 3

    later = engine.charged_to("later")
    draft = score_perplexity(reference, model, config(folder), later)

    assert [result.reused for result in later.results] == [True, True]
    assert draft.stats["model"] == described["model"]
    assert draft.stats["shards_by_batch_tokens"] == {"64": 2}
    made = published(store, draft, "perplexity_scores", "book").table("perplexity")
    expected = table(scorer, TEXTS, config())
    assert made["perplexity"].to_pylist() == pytest.approx(expected["perplexity"].to_pylist(), rel=1e-5)
    assert described["by_language"]["en"]["quantiles"] == sorted(made["perplexity"].to_numpy()[[0, 3, 5]])


def test_what_decides_scores_is_in_the_key_and_where_the_model_lies_is_not(
    store: Store, engine: Engine, folder: Path, tmp_path: Path
) -> None:
    reference = documents(store, TEXTS)
    model = trained_model(store, reference, config(folder), engine)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for path in folder.iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    later = engine.charged_to("later")
    score_perplexity(reference, model, config(moved), later)
    score_perplexity(reference, model, config(moved, batch_tokens=128), later)
    assert [result.reused for result in later.results] == [True, False]


def test_scores_of_another_model_or_another_reading_are_refused(
    store: Store, engine: Engine, folder: Path, tmp_path: Path
) -> None:
    reference = documents(store, TEXTS)
    model = trained_model(store, reference, config(folder), engine)
    other = make_model(tmp_path, seed=2)
    for asked in (config(other), config(folder, stride=4), config(folder, window=32)):
        with pytest.raises(ValueError, match=r"was scored by the model causal .* ask for causal .* again"):
            score_perplexity(reference, model, asked, engine)


def test_when_memory_does_not_suffice_the_shard_is_done_again_with_half_the_batch(
    store: Store, engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    tried: list[int] = []
    really = CausalScorer._sums

    def limited(self: CausalScorer, rows: list[Any], scored: list[int]) -> Any:
        tried.append(len(rows) * max(map(len, rows)))
        if tried[-1] > 70:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return really(self, rows, scored)

    reference = documents(store, TEXTS, shard_rows=5)
    expected = published(store, score(reference, config(folder, batch_tokens=64), engine), "a").table("perplexity")
    monkeypatch.setattr(CausalScorer, "_sums", limited)
    draft = score(reference, config(folder, batch_tokens=256), engine)

    assert max(tried) > 70
    assert draft.stats["shards_by_batch_tokens"] == {"64": 1, "256": 1}  # the last shard is a short text
    assert published(store, draft, "b").table("perplexity").equals(expected)
    tried.clear()
    score(reference, config(folder, batch_tokens=256), engine.charged_to("later"))
    assert tried == []


def test_memory_for_not_even_one_window_is_an_error_and_no_result(
    store: Store, engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: CausalScorer, rows: list[Any], scored: list[int]) -> Any:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory")

    reference = documents(store, TEXTS)
    with monkeypatch.context() as patched:
        patched.setattr(CausalScorer, "_sums", never)
        with pytest.raises(ModelError, match=r"does not suffice for one window of 16 tokens; lower causal\.window"):
            score(reference, config(folder), engine)
    score(reference, config(folder), engine)


def score(data: Dataset, asked: PerplexityParams, engine: Engine) -> Draft:
    """The scores alone."""
    results = causal.score_shards(data.shards("documents"), asked, engine)
    counted = added(result.stats["shards_by_batch_tokens"] for result in results)
    shards = tuple(shard for result in results for shard in result.parts["perplexity"].shards)
    return Draft({"perplexity": Part("table", shards)}, {"shards_by_batch_tokens": counted})


def test_a_model_that_cannot_be_used_is_told_with_a_way_out(
    store: Store, engine: Engine, folder: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    reference = documents(store, TEXTS)
    with pytest.raises(ModelError, match=r"window 64 is longer than the context of the model, 32 tokens"):
        score(reference, config(folder, window=64), engine)
    with pytest.raises(ModelError, match=r"holds no model: config\.json and weights"):
        score(reference, config(tmp_path), engine)
    (make_model(tmp_path) / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ModelError, match="holds no causal model that transformers can load"):
        score(reference, config(tmp_path), engine)
    weights = load_file(folder / "model.safetensors")
    del weights["transformer.wpe.weight"]
    save_file(weights, make_model(tmp_path) / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"1 of its weights are missing, the first is transformer\.wpe\.weight"):
        score(reference, config(tmp_path), engine)
    with pytest.raises(ModelError, match="'cuda', and no GPU is there"):
        score(reference, config(folder, device="cuda"), engine)


def test_a_model_that_is_replaced_while_it_is_opened_is_told(
    store: Store, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(tmp_path)

    def slowly(*how: Any) -> Any:
        opened = open_causal_model(*how)
        make_model(tmp_path, seed=2)
        return opened

    monkeypatch.setattr(causal, "open_causal_model", slowly)
    with pytest.raises(ModelError, match="changed while it was read; start the run again"):
        score(documents(store, TEXTS), config(tmp_path), engine)


def test_a_name_on_the_hub_is_read_from_the_cache_and_never_downloaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    place, commit = tmp_path / "models--someone--tiny", "c" * 40
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots").mkdir()
    (place / "snapshots" / commit).symlink_to(folder)
    assert content_hash(cached_folder("someone/tiny", None)) == content_hash(folder)
    with pytest.raises(ModelError, match=r"someone/else is not in .* cache.*hf download someone/else --revision v2"):
        cached_folder("someone/else", "v2")


def test_the_hash_is_of_what_decides(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (copy / "README.md").write_text("about this model")
    (copy / "pytorch_model.bin").write_bytes(b"the same weights in another format, which are not read")
    assert content_hash(copy) == content_hash(folder)
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "model.safetensors").write_bytes(bytes(data))
    assert content_hash(copy) != content_hash(folder)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"window": 16, "stride": 16}, "stride 16 must be less than window 16"),
        ({"path": None}, "set causal.path or causal.name"),
        ({"name": "gpt2"}, "set one of them"),
        ({"revision": "main"}, "revision is of a name"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        config(**values)


def test_scores_of_nothing(store: Store, engine: Engine, folder: Path) -> None:
    model = trained_model(store, documents(store, TEXTS), config(folder), engine)
    nothing = published(store, Draft({"documents": Part("table", ())}), "unique_documents", "none")
    draft = score_perplexity(nothing, model, config(folder), engine)
    assert draft.stats["documents_in"] == draft.parts["perplexity"].rows == 0
    assert np.sum(draft.stats["histograms"]["bits per byte"]["documents"]) == 0
