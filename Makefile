# The same commands for people and for CI. `make setup` is part of each of them and is done once.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: run setup check test bench clean

run: setup            ## the whole workflow on the digits data, under two minutes
	$(BIN)/tenfold demo

setup: $(READY)       ## make .venv with tenfold, every framework and the tools

# torch comes first and alone: what depends on it would otherwise ask for another build of it.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tenfold needs Python 3.11 or newer; say PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

check: setup          ## lint, types, and imports that go one way
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src
	$(BIN)/lint-imports

# Compiled first: the tests start thousands of interpreters, and none would keep what it compiles where that is forbidden.
test: setup           ## everything, in three sessions side by side: much of it waits for processes to start and to end
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile

bench: setup          ## every benchmark, on an otherwise idle machine
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	$(BIN)/python benchmarks/all.py

clean:
	rm -rf .venv dist build runs .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
