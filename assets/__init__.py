"""What exists: one module per group of stages; each asset a few lines that call a stage."""
