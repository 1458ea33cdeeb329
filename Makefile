# The interpreter that makes the environment: `make PYTHON=/path/to/python` chooses another.
PYTHON ?= $(or $(shell for each in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$each && break; \
	done), python3)

VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.installed-demo
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench
DOCS := $(VENV)/.installed-docs
PARALLEL := PYTEST_XDIST_AUTO_NUM_WORKERS=$$(( 5 * $$(nproc) / 2 ))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help demo demo-big docs test nightly check lint types quick bench pictures servers mysqlclient clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO) ## Run the demonstration
	@$(BIN)/stanchion demo

demo-big: $(DEV) servers ## Take a year of flights, 30 times, through three stations on Spark (10 M rows)
	@PYTHONPATH=examples $(BIN)/python -m benchmarks.year --keep build/year $(if $(TIMES),--times $(TIMES))

# No verdict depends on how fast the machine is.
test nightly quick: export STANCHION_CALL_SECONDS ?= 60

# Tests and their servers write much, and a disk makes them wait: their files are kept in memory where there is room.
ROOM := $(shell test -w /dev/shm && test $$(df --output=avail -k /dev/shm | tail -1) -gt 6291456 && \
	awk '/^MemAvailable/ { exit $$2 < 10485760 }' /proc/meminfo && echo yes)
ifeq ($(ROOM),yes)
test nightly quick: export TMPDIR ?= /dev/shm
endif

# In a fresh clone one process writes the compiled modules; else each of those that run tests would compile them all.
COMPILED := test -d tests/__pycache__ || $(BIN)/pytest -q --collect-only -m 'not nightly' >/dev/null || true

test: $(DEV) servers mysqlclient ## Run the tests, also those that kill workers and servers
	@$(COMPILED)
	@$(PARALLEL) $(BIN)/pytest -q -n auto --dist loadfile -m 'not nightly'

nightly: $(DEV) servers mysqlclient ## Run what takes longer: more deaths, all variants of the servers, other Pythons, the mutants
	@$(PARALLEL) $(BIN)/pytest -q -n auto --dist loadfile -m nightly
	@$(PARALLEL) $(BIN)/python -m tests.pythons
	@$(BIN)/python -m tests.mutants

check: lint types quick ## Lint, check types and run the quick tests; WING=web: the tests of a wing

lint: $(DEV) ## Check style, format and the direction of imports
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/lint-imports --no-logo >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

types: $(DEV) ## Check types
	@$(BIN)/mypy --no-error-summary

ifdef WING
quick: $(DEV) servers
	@paths=$$($(BIN)/python -m tests.wings $(WING)) && \
		$(PARALLEL) $(BIN)/pytest -q -n auto --dist loadfile -m 'not nightly' $$paths
else
quick: $(DEV)
	@$(COMPILED)
	@$(PARALLEL) $(BIN)/pytest -q -n auto --dist worksteal -m 'not slow and not nightly'
endif

bench: $(BENCH) servers ## Measure throughput and latency, beside other queues
	@$(BIN)/python -m benchmarks.run

docs: $(DOCS) ## Build the site of the documentation into build/site
	@$(BIN)/python -m docs.site.build

pictures: $(DEV) servers ## Take the pictures of the pages, as references for `make nightly`
	@$(BIN)/python -m tests.web.pictures --keep

clean: ## Remove the environment, caches and builds
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src conformance examples tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

servers:
	@tests/servers/install.sh

# The package is built with the client library of MariaDB, which comes with the servers.
mysqlclient: $(DEV) servers
	@$(BIN)/python -c 'import MySQLdb' 2>/dev/null || $(BIN)/pip install --quiet --group mysqlclient || \
		echo "mysqlclient can't be built, so its tests are skipped: it needs a compiler and libmariadb-dev" >&2

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed: install it, or name it with make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@$(BIN)/pip install --quiet --upgrade 'pip>=25.1'

$(DEMO): pyproject.toml | $(BIN)/python
	@echo "installing what the demonstration needs; PySpark is large, so that takes minutes"
	@$(BIN)/pip install --quiet --editable '.[demo]'
	@touch $@

$(DEV): pyproject.toml conformance/pyproject.toml | $(BIN)/python
	@echo "installing what the tests need"
	@$(BIN)/pip install --quiet --editable . --editable conformance --group dev
	@touch $@ $(DEMO) $(DOCS)

$(DOCS): pyproject.toml | $(BIN)/python
	@echo "installing what the documentation needs"
	@$(BIN)/pip install --quiet --editable '.[web,metrics,grpc]' --group docs
	@touch $@

$(BENCH): pyproject.toml | $(DEV)
	@echo "installing what the benchmarks need"
	@$(BIN)/pip install --quiet --group bench
	@touch $@
