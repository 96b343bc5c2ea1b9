"""Near and exact duplicates: MinHash signatures, LSH, who stays, and what is removed.

Start at `params.py`; the steps are `signatures.py` (per shard), `priority.py` and `clusters.py` (all sources at once),
and `unique.py` (per source).
"""
