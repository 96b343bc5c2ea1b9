"""What can be set about token shards: the engine, the tokens around a document, what is too long."""

from typing import Literal

from pydantic import Field

from pipelines.profile import Params
from pipelines.tokens.indexed import LONGEST_DOCUMENT


class TokenizeParams(Params):
    """How documents become token ids."""

    engine: Literal["auto", "fastokens", "tokenizers"] = Field(
        default="auto",
        description="what encodes text: 'fastokens', many times as fast, only while its ids are those of 'tokenizers'; "
        "'auto': fastokens where it is installed and agrees, else tokenizers; 'fastokens' fails where it would not",
    )
    bos: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="the beginning-of-text token before each document: 'auto', where the tokenizer itself puts it "
        "before a text (Llama does, GPT-NeoX does not)",
    )
    eos: Literal["always", "never"] = Field(
        default="always", description="the end-of-text token after each document; without it documents run together"
    )
    dtype: Literal["auto", "uint16", "int32"] = Field(
        default="auto", description="type of stored ids; 'auto', as Megatron-LM: uint16 below 65,500 tokens, else int32"
    )
    longest_document: int = Field(
        default=LONGEST_DOCUMENT,
        ge=1,
        le=LONGEST_DOCUMENT,
        description="most tokens of one document of a token shard, the tokens around it included; the default is what "
        "the index can say",
    )
    long_documents: Literal["split", "drop"] = Field(
        default="split",
        description="what becomes of longer ones: 'split' into consecutive documents of that length, of which only the "
        "first begins and only the last ends with a token of its own; 'drop' them, counted",
    )
