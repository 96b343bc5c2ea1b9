# The only commands to remember. Everything works in .venv; `make demo` and `make test` make it.

PYTHON ?= python3
PORT ?= 3000
BIN := .venv/bin
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test test-slow ui lint bench clean

demo: .venv/demo  ## run the main job on real input and show what it cost
	@$(BIN)/corpusmill run --profile config/demo.yaml

test: .venv/dev  ## the tests
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

test-slow: .venv/dev  ## the tests that kill processes for minutes, or need a server
	@$(BIN)/python -m pytest -m slow --numprocesses 2 --dist loadfile --durations=20

ui: .venv/demo  ## open Dagster on the same instance as the demo
	@$(PYTHON) deploy/check_machine.py --port $(PORT)
	@$(BIN)/python -m jobs.ui --port $(PORT)

lint: .venv/dev  ## style, types, floors
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: .venv/dev  ## every benchmark, briefly
	@for name in dedup cleaning scoring neural toxicity tokens token_samples token_vocabulary metering; do $(BIN)/python -m benchmarks.$$name --quick || exit 1; done

clean:  ## forget everything that was made and installed
	rm -rf var .venv

.venv/demo: pyproject.toml
	@$(PYTHON) deploy/check_machine.py --install
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install -qq --disable-pip-version-check --editable ".[train]"
	@touch $@

.venv/dev: .venv/demo
	@$(BIN)/pip install -qq --disable-pip-version-check --editable ".[train,spark,postgres,dev,toxicity,onnx,unigram]"
	@$(BIN)/pip install -qq --disable-pip-version-check --editable ".[kenlm]" || echo "kenlm cannot be built here (it needs g++): its tests are skipped, and make bench ends at scoring"
	@touch $@
