# Everything a developer or a newcomer runs. `make run` is the way in; `make check` and `make test` are the gates.
SHELL := /bin/sh
.DEFAULT_GOAL := help

export FOREBAY_ENGINE_HOME ?= $(CURDIR)/.forebay/engines
export FOREBAY_MODELS_HOME ?= $(CURDIR)/.forebay/models

PY := .venv/bin/python
OUT := test-output
TABLE := $(OUT)/suites.txt
# Only ever raised.
COVERAGE_FLOOR ?= 88
PURE := profiles_app/specs/*,profiles_app/states.py,profiles_app/errors.py,profiles_app/reconciler/diff.py,gateway/proxy/*,monitoring/catalog.py,monitoring/quantiles.py,monitoring/rollups.py,monitoring/ledger.py,monitoring/charts.py
export COVERAGE_FILE := $(CURDIR)/test-output/.coverage
RUN ?=

.PHONY: help install run down check format test test-unit test-integration test-e2e test-engine test-browser engine clean

help:
	@echo "make run      install, start everything, print the address"
	@echo "make down     stop what make run started"
	@echo "make check    style, types, imports, migrations"
	@echo "make test     all tests; or test-unit, test-integration, test-e2e, test-engine, test-browser"
	@echo "make format   bring the sources into shape"
	@echo "make clean    remove environments and caches (the data in .forebay stays)"

install:
	@scripts/install.sh

run: install
	@exec .venv/bin/forebay up $(RUN)

down: install
	@.venv/bin/forebay down

check: install
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy .
	.venv/bin/lint-imports
	DJANGO_SETTINGS_MODULE=controlplane.settings.test $(PY) manage.py check --fail-level WARNING
	DJANGO_SETTINGS_MODULE=controlplane.settings.test $(PY) manage.py makemigrations --check --dry-run

format: install
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# The real engine and the demo weights, shared by `make run` and the tests.
engine: install
	@$(PY) -m controlplane.engine --engine-home "$(FOREBAY_ENGINE_HOME)" --models "$(FOREBAY_MODELS_HOME)"

$(OUT):
	@mkdir -p $@

test: install | $(OUT)
	@: > $(TABLE); failed=0; \
	for suite in test-unit test-integration test-e2e test-engine test-browser; do $(MAKE) --no-print-directory $$suite || failed=1; done; \
	echo; echo "suite                  result        time"; cat $(TABLE); exit $$failed

# The rules must be covered whole, by tests that need no database.
test-unit: install | $(OUT)
	@scripts/timed.sh unit $(TABLE) scripts/suite.sh tests/unit -- -q --cov --cov-report=
	@$(PY) -m coverage report --include='$(PURE)' --fail-under=100

test-integration: install | $(OUT)
	@scripts/timed.sh integration $(TABLE) scripts/suite.sh tests -- -q --ignore=tests/unit --ignore=tests/e2e \
	  --ignore=tests/engine --ignore=tests/browser --ignore=tests/soak --cov --cov-append --cov-report=
	@$(PY) -m coverage report --format=total --fail-under=$(COVERAGE_FLOOR)

test-e2e: install | $(OUT)
	@scripts/timed.sh e2e $(TABLE) scripts/suite.sh tests/e2e -- -q --timeout=300

test-engine: engine | $(OUT)
	@scripts/timed.sh engine $(TABLE) scripts/suite.sh tests/engine -- -q --timeout=900

test-browser: engine | $(OUT)
	@scripts/need-chromium.sh
	@scripts/timed.sh browser $(TABLE) scripts/suite.sh tests/browser -- -q --timeout=900

clean:
	rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis $(OUT) build *.egg-info
