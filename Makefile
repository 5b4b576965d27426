# Polyseme. `make` alone lists the targets.
PYTHON ?= python3
BIN := .venv/bin
export TOKENIZERS_PARALLELISM ?= true

.DEFAULT_GOAL := help
.PHONY: help demo test soak check bench screenshots clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/' | expand -t 20

demo: .venv/installed ## compare six families on the docstrings of this machine (about eight minutes on two cores)
	$(BIN)/polyseme compare --corpus docstrings --families onehot,svd,skipgram,elmo,bert,gpt2 --budget 20s --finetune-budget 20s --out runs/demo

test: .venv/developing ## run every test
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

soak: .venv/developing ## send thousands of hostile and hundreds of slow requests to a server (about three minutes)
	$(BIN)/python -m pytest -m soak tests/server

check: .venv/developing ## check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/developing ## benchmark against other tools on this machine
	$(BIN)/python benchmarks/pretraining.py
	$(BIN)/python benchmarks/tokenizing.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/embedding.py
	$(BIN)/python benchmarks/time_to_quality.py
	$(BIN)/python benchmarks/plateau.py
	$(BIN)/python benchmarks/word_vectors.py
	$(BIN)/python benchmarks/glove.py
	$(BIN)/python benchmarks/next_word.py
	$(BIN)/python benchmarks/minimal_pairs.py
	$(BIN)/python benchmarks/serving.py

screenshots: .venv/developing ## take screenshots of every view of the playground (about five minutes)
	$(BIN)/python tests/server/screenshots.py

clean: ## remove the virtual environment, demo runs and caches
	rm -rf .venv runs .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[serve,search]'
	touch $@

.venv/developing: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ .venv/installed
