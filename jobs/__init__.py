"""What Dagster runs: definitions, jobs and the `corpusmill` command."""
