"""How surprising documents are to a language model: n-gram models of our own, KenLM's files, causal models."""
