# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Hundreds of tests start the program: each start would translate its modules anew if Python were not to keep bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test coverage docs links clean

$(BIN)/python:
	@echo "Making an environment of its own in $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip

# A stamp per set of packages: reinstalled when pyproject.toml changes.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "Installing rarecell and the packages it needs; this takes up to a minute …"
	@$(BIN)/python -m pip install --editable '.[stats,excel,app]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "Installing rarecell and everything that its tests need; this takes a few minutes …"
	@$(BIN)/python -m pip install --editable '.[test]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run
	$(BIN)/rarecell demo --out demo --overwrite

# Tests need a Chromium, a Java for Spark, a PostgreSQL server, and R; they come from the system's packages when they can.
# Loops are compiled once, beside the check of types, and not by every worker of the tests for itself.
test: $(VENV)/.test
	@sh tests/system_packages.sh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/repo-review .
	$(BIN)/python -m rarecell.run.rehearsal & compiling=$$!; $(BIN)/mypy && wait $$compiling
	$(BIN)/python -m pytest -n 2

# Which lines no test runs. Printed, not gated; loops of numba count as run by the tests of their Python twins only.
coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

docs: $(VENV)/.test
	$(BIN)/python docs/take_pictures.py
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Follow the addresses outside, where there is a network.
links: $(VENV)/.test
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/links

clean:
	rm -rf $(VENV) demo docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
