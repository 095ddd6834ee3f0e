# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements.lock

# Tests start hundreds of processes: without bytecode each of them would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test tests test-all check format docs bench bench-peers check-triton clean

help:
	@echo "make demo      install what is needed, train, evaluate, replay, show tables, the worst day, a curve, tomorrow"
	@echo "make test      install what tests need, run every check and test"
	@echo "make test-all  the full counts as well; writes docs/results/"
	@echo "make check     formatting, lint, types, layers, file lengths, generated docs"
	@echo "make bench     the benchmarks, each beside its peer"
	@echo "make bench-peers  the virtual environments .venv-peers and .venv-sbx with the benchmarks' peers"
	@echo "make check-triton  the GPU kernels without a GPU: compiled, and run by an interpreter"
	@echo "make docs      write the generated pages anew"
	@echo "make install   the virtual environment .venv with everything, from requirements.lock"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The demo needs the core alone; tests need every extra.
$(VENV)/.core: pyproject.toml requirements.lock | $(VENV)/bin/python
	PIP_CONSTRAINT=$(CURDIR)/requirements.lock $(PIP) --editable .
	touch $@

$(VENV)/.everything: pyproject.toml requirements.lock | $(VENV)/bin/python
	PIP_CONSTRAINT=$(CURDIR)/requirements.lock $(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.core

install: $(VENV)/.everything

demo: $(VENV)/.core
	$(BIN)/python -m alphaswarm_rl.cli.demo

check: $(VENV)/.everything
	$(BIN)/ruff format --check src tests benchmarks scripts
	$(BIN)/ruff check src tests benchmarks scripts
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_lengths.py
	$(BIN)/python scripts/measure_source.py --check
	$(BIN)/python scripts/entry_points.py --check
	$(BIN)/python scripts/make_docs.py --check

format: $(VENV)/.everything
	$(BIN)/ruff format src tests benchmarks scripts
	$(BIN)/ruff check --fix src tests benchmarks scripts

docs: $(VENV)/.everything
	$(BIN)/python scripts/make_docs.py

# Both at once, and three workers: on two cores one of them mostly waits for a server, a disk or a process.
test: $(VENV)/.everything
	$(MAKE) --no-print-directory --jobs=2 check tests

tests: $(VENV)/.everything
	$(BIN)/pytest -m "not slow" --numprocesses 3 --dist worksteal

test-all: test
	$(BIN)/python scripts/full_counts.py

bench: $(VENV)/.everything
	$(BIN)/python benchmarks/runtime_overhead.py
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/book_kernels.py
	$(BIN)/python benchmarks/anytrading.py
	$(BIN)/python benchmarks/env_throughput.py
	$(BIN)/python benchmarks/lake.py
	$(BIN)/python benchmarks/recording.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/telemetry.py
	$(BIN)/python benchmarks/native_ppo.py
	$(BIN)/python benchmarks/brake.py
	$(BIN)/python benchmarks/data_check.py
	$(BIN)/python benchmarks/overfitting.py
	$(BIN)/python benchmarks/decide.py
	$(BIN)/python benchmarks/backtest.py
	$(BIN)/python benchmarks/pipeline.py

# The peers' needs contradict each other, so only torch brings its own; everything else is listed.
PEERS := .venv-peers
PEERS_PIP := $(PEERS)/bin/pip install --quiet --disable-pip-version-check

$(PEERS)/.everything: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS_PIP) --constraint $< torch
	$(PEERS_PIP) --no-deps --requirement $<
	touch $@

# JAX has needs of its own.
SBX := .venv-sbx

$(SBX)/.everything: benchmarks/sbx.txt
	$(PYTHON) -m venv $(SBX)
	$(SBX)/bin/pip install --quiet --disable-pip-version-check --constraint $< torch
	$(SBX)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	touch $@

bench-peers: $(PEERS)/.everything $(SBX)/.everything

# Triton's interpreter needs an older NumPy than the lock has.
TRITON := .venv-triton

$(TRITON)/.everything:
	$(PYTHON) -m venv $(TRITON)
	$(TRITON)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 triton==3.6.0 numpy==2.2.6 gymnasium==1.2.2 pydantic PyYAML
	touch $@

check-triton: $(TRITON)/.everything
	$(TRITON)/bin/python scripts/check_triton.py --compile
	$(TRITON)/bin/python -W ignore scripts/check_triton.py

clean:
	rm -rf $(VENV) .alphaswarm build dist
