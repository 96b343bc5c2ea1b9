"""Training: pretraining of a small Llama in a process of its own. `stage.py` is where the assets enter."""
