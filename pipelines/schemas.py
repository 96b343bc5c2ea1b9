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

QUALITY = pa.schema(
    [
        DOC_ID,
        column("language_score", pa.float64(), "how sure the language is, 0 to 1; below a threshold it is 'und'"),
        column("characters", pa.float64(), "code points of the repaired text, before personal data is masked"),
        column("alphanumeric_share", pa.float64(), "letters and digits per character; null: no text", nullable=True),
        *(
            column(f"pii_{kind}", pa.float64(), f"{meaning} found in the text that goes on, masked or not")
            for kind, meaning in {
                "email": "e-mail addresses",
                "phone": "phone numbers",
                "ip": "public IP addresses",
                "card": "payment card numbers",
                "iban": "bank account numbers",
                "national_id": "personal numbers of countries",
                "credential": "keys, tokens and passwords",
            }.items()
        ),
        *(
            column(name, pa.float64(), f"{meaning}; null: not asked for, or there is none", nullable=True)
            for name, meaning in {
                "gopher_quality_words": "words that are not only signs",
                "gopher_quality_mean_word_characters": "mean length of these words, code points",
                "gopher_quality_hashes_per_word": "signs # per word",
                "gopher_quality_ellipses_per_word": "ellipses per word",
                "gopher_quality_bullet_line_share": "share of lines that begin with a bullet",
                "gopher_quality_ellipsis_line_share": "share of lines that end in an ellipsis",
                "gopher_quality_alphabetic_word_share": "share of words with a letter",
                "gopher_quality_stop_words": "different words of the eight English stop words",
                "gopher_repetition_duplicate_paragraph_share": "share of paragraphs seen before",
                "gopher_repetition_duplicate_paragraph_character_share": "share of characters in such paragraphs",
                "gopher_repetition_duplicate_line_share": "share of lines seen before",
                "gopher_repetition_duplicate_line_character_share": "share of characters in such lines",
                **{
                    f"gopher_repetition_top_{n}gram_character_share": "share of characters in the most frequent "
                    f"{n}-gram of words"
                    for n in (2, 3, 4)
                },
                **{
                    f"gopher_repetition_duplicate_{n}gram_character_share": f"share of characters in {n}-grams of "
                    "words seen before"
                    for n in range(5, 11)
                },
                "c4_lorem_ipsum_lines": "lines that C4 counts and that hold 'lorem ipsum'",
                "c4_curly_bracket_lines": "lines that C4 counts and that hold a {",
                "c4_sentences": "sentences in lines that C4 counts",
                "c4_removed_lines": "lines that C4 does not count, and removes where c4.remove_lines is true",
                "fineweb_punctuated_line_share": "share of lines that end in a mark that ends a sentence",
                "fineweb_short_line_share": "share of short lines",
                "fineweb_duplicate_line_character_share": "share of characters in lines seen before",
                "fineweb_newlines_per_word": "line breaks per word",
                "code_longest_line_characters": "code points of the longest line",
                "code_mean_line_characters": "mean length of lines, code points",
                "code_alphanumeric_share": "letters and digits per character",
            }.items()
        ),
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

AUDIT = pa.schema(
    [
        column("source", TEXT, "name of the source in the profile"),
        column("obligation", TEXT, "'licence', 'consent', 'retention', 'region', 'opt_out' or 'personal_data'"),
        column("required", TEXT, "what the profile requires"),
        column("found", TEXT, "what the source and its clean documents are found to be"),
        column("documents", pa.int64(), "documents that offend"),
        column("met", pa.bool_(), "true: the requirement is met, or there is none"),
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
            "toxicity",
            pa.float64(),
            "how likely the worst passage is toxic, 0 to 1, as the deciding scorer says; null: no scorer knows the "
            "language",
            nullable=True,
        ),
        column("toxicity_mean", pa.float64(), "mean over all passages, of the same scorer", nullable=True),
        column("scorer", TEXT, "'lexicon', 'screen', 'neural' or 'remote': whose score decided", nullable=True),
        column(
            "agreement",
            pa.float64(),
            "share of the neural models that are on the same side of toxicity.neural_threshold as their common score; "
            "null: fewer than two read it",
            nullable=True,
        ),
    ]
)

TOXICITY_SCREEN = pa.schema(
    [
        DOC_ID,
        *(
            column(name, pa.float64(), f"{meaning}, 0 to 1; null: language unknown to it", nullable=True)
            for name, meaning in {
                "screen": "the linear screen's own probability that the worst passage is toxic",
                "screen_mean": "its mean over all passages",
                "lexicon": "score of the worst passage by its hits of the lexicon",
                "lexicon_mean": "mean of these scores over all passages",
            }.items()
        ),
    ]
)

TOXICITY_LABELS = pa.schema(
    [
        DOC_ID,
        column("scorer", TEXT, "'neural:' and the model's name, or 'remote'"),
        column("label", TEXT, "label of the model, or attribute of the remote scorer"),
        column("max", pa.float64(), "probability of the worst passage, 0 to 1; null: not to be scored", nullable=True),
        column("mean", pa.float64(), "mean over all passages; null: not to be scored", nullable=True),
    ]
)

TOXICITY_SENTENCES = pa.schema(
    [
        DOC_ID,
        column("scorer", TEXT, "whose score it is, as in toxicity"),
        column("start", pa.int64(), "where the sentence begins in the document's text, bytes"),
        column("length", pa.int64(), "length of the sentence with the white space after it, bytes"),
        column("toxicity", pa.float64(), "how likely the sentence is toxic, 0 to 1"),
    ]
)

PERPLEXITY = pa.schema(
    [
        DOC_ID,
        column(
            "perplexity",
            pa.float64(),
            "exp of the mean negative log probability per token of the model; null: fewer than two tokens were scored",
            nullable=True,
        ),
        column(
            "bits_per_byte",
            pa.float64(),
            "negative log2 probability of these tokens per byte of their text: for models that read every byte, "
            "comparable whatever their tokens; null where perplexity is",
            nullable=True,
        ),
        column("tokens", pa.int64(), "tokens that the language model scored"),
        column(
            "fold",
            pa.int8(),
            "fold whose model made the score: never the one that holds the document; null: one model for all",
            nullable=True,
        ),
    ]
)

BUCKET = pa.schema(
    [
        DOC_ID,
        column("language", TEXT, "ISO 639 code, as in documents", nullable=True),
        column(
            "bucket",
            TEXT,
            "'head', 'middle' or 'tail': where its perplexity lies among the reference's in this language; null: no "
            "score, or the reference has too few documents in it",
            nullable=True,
        ),
    ]
)

CONTAMINATION = pa.schema(
    [
        DOC_ID,
        column(
            "contamination",
            pa.float64(),
            "share of the document's words in passages that an evaluation example holds too, 0 to 1",
        ),
        column("hits", pa.int64(), "such passages: its rows of contamination_hits"),
        column("evaluation_set", TEXT, "set of the example that it shares most n-grams with", nullable=True),
        column("example", TEXT, "that example: its id, or its number in the file", nullable=True),
        column("example_share", pa.float64(), "share of the example's n-grams that it holds, 0 to 1", nullable=True),
    ]
)

CONTAMINATION_HITS = pa.schema(
    [
        DOC_ID,
        column("evaluation_set", TEXT, "name of the evaluation set"),
        column("example", TEXT, "the example that holds the passage too: its id, or its number in the file"),
        column("example_share", pa.float64(), "share of the example's n-grams in the document, all passages, 0 to 1"),
        column("text", TEXT, "the passage as it stands in the document: a maximal run of matching n-grams"),
        column("start", pa.int64(), "where it begins in the document's text, bytes"),
        column("length", pa.int64(), "length of the passage, bytes"),
        column("ngrams", pa.int64(), "consecutive n-grams that match"),
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
