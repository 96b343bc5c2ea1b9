"""The tokenizer and the documents as token ids."""

from assets.metered import asset
from pipelines.dataset import Dataset, Draft
from pipelines.engines.local import Engine
from pipelines.health import DRIFT, KEEPS_SOME, ROWS_BALANCE
from pipelines.tokens import indexed, parity, shards
from pipelines.tokens import tokenizer as training
from pipelines.tokens.shards import tokenize
from pipelines.tokens.tokenize_params import TokenizeParams
from pipelines.tokens.tokenizer import make_tokenizer
from pipelines.tokens.tokenizer_params import TokenizerParams


@asset(
    group="tokenization",
    kinds={"huggingface"},
    shows="tokenizer",
    stage_versions=[training.VERSION],
    narrow={"filtered_documents": lambda profile: profile.tokenizer.named_sources or profile.source_names},
)
def tokenizer(filtered_documents: Dataset, config: TokenizerParams, engine: Engine) -> Draft:
    """The tokenizer, trained on its own named sources (no other enters it) or loaded, and how finely it cuts text."""
    return make_tokenizer(filtered_documents, config, engine)


@asset(
    group="tokenization",
    kinds={"python"},
    shows="token_documents",
    stage_versions=[shards.VERSION, parity.VERSION, indexed.FORMAT_VERSION],
    partitioned_by_source=True,
    checks=[ROWS_BALANCE, KEEPS_SOME, DRIFT],
)
def token_shards(filtered_documents: Dataset, tokenizer: Dataset, config: TokenizeParams, engine: Engine) -> Draft:
    """Every filtered document as token ids, in Megatron's .bin/.idx format, an end-of-document token after each."""
    return tokenize(filtered_documents, tokenizer, config, engine)
