"""What several stages read text with: folding for comparison, words, shingles and their hashes, compiled.

Nothing here knows about datasets, stages or parameters; see `pipelines/dedup/` for the first user.
"""
