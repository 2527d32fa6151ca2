# blklab: every target prepares what it needs (.venv, requirements, compiled modules), so any may be the first.
# PYTHON is the Python to make .venv with, 3.11 or newer.

PYTHON ?= python3
PY = .venv/bin/python
PYTEST = $(PY) -m pytest
WORKERS ?= auto
# What the block layer stands on and what stands on it directly: tested in both forms.
BOTH_FORMS = tests/core tests/metrics tests/block tests/device tests/elevator
CODE = src tools tests benchmarks examples

.PHONY: help demo build dev test test-compiled test-uncompiled check lint instructions bench conformance lock clean

help:
	@sed -n 's/^## //p' Makefile

## make demo         sets everything up, runs a job of examples/ and says what it shows
demo: build
	@$(PY) tools/demo.py examples/quick.fio

## make test         the whole suite compiled, then the block layer's tests uncompiled
test: test-compiled test-uncompiled

## make check        lint, types, layers, the suite compiled, instruction counts
check: lint test-compiled instructions

## make bench        speed: JSON on standard output (benchmarks/README.md)
bench: dev
	@$(PY) benchmarks/throughput.py

## make conformance  the model beside the captures of a real kernel, case by case
conformance: dev
	@$(PY) -m blklab.lab.conform $(CASES)

## make build        .venv and the compiled development build (only what changed; M=block/tags: only that)
build:
	@$(PYTHON) tools/prepare.py build
	@$(PY) tools/build.py $(M)

## make dev          the same, with the tools for tests and checks
dev:
	@$(PYTHON) tools/prepare.py dev
	@$(PY) tools/build.py $(M)

## make lint         ruff, mypy, cython-lint, import-linter
lint: dev
	.venv/bin/ruff check $(CODE)
	.venv/bin/ruff format --check $(CODE)
	.venv/bin/mypy
	PATH=.venv/bin:$$PATH cython-lint $$(find src -name '*.pxd')
	.venv/bin/lint-imports --no-logo

test-compiled: dev
	$(PYTEST) -n $(WORKERS)

test-uncompiled: dev
	PYTHONPATH=src $(PYTEST) -n $(WORKERS) -m "not compiled_only" $(wildcard $(BOTH_FORMS))

instructions: dev
	$(PY) benchmarks/instructions.py

## make lock         writes requirements/*.txt anew from pyproject.toml
lock:
	@$(PYTHON) tools/lock.py

## make clean        removes everything that was made, .venv too
clean:
	rm -rf .venv .prepare.lock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
