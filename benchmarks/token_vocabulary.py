"""Learning a vocabulary: our trainer beside that of `tokenizers`, at the same merges.

Run `python -m benchmarks.token_vocabulary [--quick] [--json]`. Correctness is tested in tests/pipelines/tokens.
"""

from benchmarks.harness import Measurement, installed_texts, main, seconds
from pipelines.tokens.encode import library_threads
from pipelines.tokens.tokenizer_params import TokenizerParams
from pipelines.tokens.tokenizer_training import train, train_bpe_by_library

SETTINGS = (("gpt2", 8192), ("gpt4", 32_000))


def measure(quick: bool) -> list[Measurement]:
    """Megabytes of sample per second, comparing the two trainers on its beginning included."""
    return vocabulary_speed(installed_texts(8 if quick else 30))


def vocabulary_speed(texts: list[str]) -> list[Measurement]:
    """The same for these texts. Raises `RuntimeError` where the two learn different merges."""
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    found = []
    for pattern, vocabulary in SETTINGS:
        config = TokenizerParams(pattern=pattern, vocabulary=vocabulary)
        learnt = []
        with library_threads():
            train(texts[:1], config)  # compiles
            ours = seconds(lambda: learnt.append(train(texts, config)[0].to_str()))  # noqa: B023
            theirs = seconds(lambda: learnt.append(train_bpe_by_library(texts, config).to_str()))  # noqa: B023
        if learnt[0] != learnt[1]:
            raise RuntimeError(f"the vocabularies of {vocabulary} tokens with pattern {pattern} are not the same")
        name = f"vocabulary of {vocabulary:,} learnt from {megabytes:.0f} MB, pattern {pattern}"
        found.append(Measurement(name, "tokenizers' trainer", megabytes / ours, megabytes / theirs, "MB/s", 4.0))
    return found


if __name__ == "__main__":
    main(measure, __doc__ or "")
