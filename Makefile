# Two commands matter: `make demo` and `make test`. Each sets up all it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint unit test-matrix bench bench-setup bench-short chaos dashboard-picture fuzz simulate clean

demo: $(VENV)/.installed
	$(BIN)/tenure demo

test:
	$(MAKE) --output-sync=target -j2 lint unit
	$(BIN)/python -m pytest -n 3 --ignore=tests/unit

lint: $(VENV)/.tested
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/bandit -q -c pyproject.toml -r src

unit: $(VENV)/.tested
	$(BIN)/python -m pytest tests/unit -n 1 --cov --cov-config=tests/unit/coverage.ini

test-matrix: $(VENV)/.tested
	$(BIN)/python tests/postgres/matrix.py

bench: $(VENV)/.benched
	$(BIN)/python bench/sqlite.py
	$(BIN)/python bench/postgres.py
	$(BIN)/python bench/compare.py

# Under ten minutes once the peers are installed, which the first run does, or `make bench-setup`.
bench-short: $(VENV)/.benched
	$(BIN)/python bench/compare.py --short

bench-setup: $(VENV)/.benched
	$(BIN)/python bench/systems.py

simulate: $(VENV)/.tested
	$(BIN)/python tests/simulation/simulate.py $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) $(if $(SEED),--seed $(SEED))

fuzz: $(VENV)/.tested
	TENURE_FUZZ_EXAMPLES=3000 TENURE_MACHINE_RUNS=200 $(BIN)/python -m pytest tests/fuzz tests/conformance/test_machine.py tests/s3/test_machines.py tests/sharded/test_model.py -n 2 --timeout=3600

chaos: $(VENV)/.tested
	$(BIN)/python tests/chaos/chaos.py --seconds 45 --tasks 6000 --workers 4 --write docs/chaos.md

dashboard-picture: $(VENV)/.tested
	$(BIN)/python bench/dashboard.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.tested: $(VENV)/.tools $(VENV)/.servers
	touch $@

$(VENV)/.tools: $(VENV)/.installed requirements-test.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r requirements-test.txt
	touch $@

$(VENV)/.servers: $(BIN)/python tests/debian.py
	$(BIN)/python tests/debian.py
	npm install --silent --no-save --prefix $(VENV)/npm @dynoxide/linux-x64@1.2.1
	touch $@

$(VENV)/.benched: $(VENV)/.installed bench/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r bench/requirements.txt
	npm install --silent --no-save --prefix $(VENV)/npm @dynoxide/linux-x64@1.2.1
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
