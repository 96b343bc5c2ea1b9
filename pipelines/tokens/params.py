"""Parameters of tokenization: the tokenizer and the token shards. Those of the blend stand in `blend_params.py`."""

from pipelines.tokens.tokenize_params import TokenizeParams as TokenizeParams
from pipelines.tokens.tokenizer_params import END_OF_TEXT as END_OF_TEXT
from pipelines.tokens.tokenizer_params import PADDING as PADDING
from pipelines.tokens.tokenizer_params import TokenizerParams as TokenizerParams
