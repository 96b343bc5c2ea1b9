"""How it is done: the stages, their storage and their cost. Nothing here imports Dagster."""
