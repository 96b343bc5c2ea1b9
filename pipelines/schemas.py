"""The Arrow schema of every table, with the meaning and unit of each column.

A stage that writes a table names its schema here; the Dagster UI shows the same descriptions. Where tables live is
`pipelines/dataset.py`'s business.
"""

import pyarrow as pa


def column(name: str, kind: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    """One described column."""
    return pa.field(name, kind, nullable=nullable, metadata={"description": description})


TEXT = pa.large_string()

DOC_ID = column("doc_id", TEXT, "128-bit xxh3 of source and uri, 32 hex digits: stable across clones and re-ingestion")

DOCUMENTS = pa.schema(
    [
        DOC_ID,
        column("source", TEXT, "name of the source in the profile"),
        column("uri", TEXT, "path inside the source, '#', and the user's id, the record number or a qualified name"),
        column("text", TEXT, "the text, valid UTF-8"),
        column("language", TEXT, "ISO 639 code of the main language, 'und' where undetermined", nullable=True),
        column("license", TEXT, "SPDX expression or the words the source used", nullable=True),
        column("metadata", TEXT, "further fields of the record as a JSON object", nullable=True),
    ]
)

REJECTS = pa.schema(
    [
        column("source", TEXT, "name of the source in the profile"),
        column("uri", TEXT, "file, '#', record: where the bad input stands"),
        column("reason", TEXT, "short name of the reason, the one that counts are grouped by"),
        column("detail", TEXT, "what exactly was wrong", nullable=True),
    ]
)

DECISIONS = pa.schema(
    [
        DOC_ID,
        column("keep", pa.bool_(), "true: the document goes on"),
        column("stage", TEXT, "stage that decided"),
        column("rule", TEXT, "rule that decided; 'kept' where none objected"),
        column("value", pa.float64(), "what the rule measured", nullable=True),
        column("threshold", pa.float64(), "what it was compared with", nullable=True),
        column("detail", TEXT, "more, for example the document that is kept instead", nullable=True),
    ]
)

CLUSTERS = pa.schema(
    [
        DOC_ID,
        column("source", TEXT, "source of the removed document"),
        column("kept_id", TEXT, "document that stays in its place"),
        column("kept_source", TEXT, "source of the document that stays"),
        column("level", TEXT, "'exact', 'simhash' or 'minhash'"),
        column(
            "similarity",
            pa.float64(),
            "0 to 1: 1 for exact copies; Jaccard similarity (minhash); share of equal bits (simhash)",
        ),
    ]
)

TOXICITY = pa.schema(
    [
        DOC_ID,
        column(
            "toxicity", pa.float64(), "probability from the screen, 0 to 1; null: language unknown to it", nullable=True
        ),
    ]
)

PERPLEXITY = pa.schema(
    [
        DOC_ID,
        column(
            "perplexity",
            pa.float64(),
            "exp of the mean negative log probability per token; null: no tokens",
            nullable=True,
        ),
        column("tokens", pa.int64(), "tokens that the language model scored"),
        column("fold", pa.int8(), "fold whose model made the score: never the one that holds the document"),
    ]
)

MIXTURE = pa.schema(
    [
        column("source", TEXT, "name of the source"),
        column("wanted_share", pa.float64(), "share of tokens asked for, 0 to 1"),
        column("planned_share", pa.float64(), "share of tokens that can be had, 0 to 1"),
        column(
            "available_tokens",
            pa.int64(),
            "tokens in one epoch (estimated from bytes in the plan, counted in the blend)",
        ),
        column("planned_tokens", pa.int64(), "tokens the mixture takes"),
        column("epochs", pa.float64(), "planned tokens / available tokens"),
        column("note", TEXT, "what could not be met, in words", nullable=True),
    ]
)

TOKEN_DOCUMENTS = pa.schema(
    [
        DOC_ID,
        column("tokens", pa.int64(), "token ids of the document, end-of-document included"),
        column("bytes", pa.int64(), "length of the text, bytes"),
    ]
)
