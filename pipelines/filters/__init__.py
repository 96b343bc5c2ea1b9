"""Scores of documents (toxicity, perplexity) and the rules that turn scores into decisions."""
