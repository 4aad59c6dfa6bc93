# Everything a person does with the checkout. `make` alone lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that is new enough; `make PYTHON=python3.13 run` chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-input
PYTEST := $(BIN)/pytest -p tests.support.no_skips --no-header
SCRIPTS := .ci/run

.PHONY: help run test test-remote lint format system-packages clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/installed ## Install on the first run, then start the server; options in ARGS="--port 9000"
	@exec $(BIN)/kvasir serve $(ARGS)

# What measures runs first and alone; the rest in three processes, because much of it waits. The order is tests/conftest.py's.
test: $(VENV)/installed-dev node_modules/installed system-packages ## Install what tests need, then run every test
	@$(BIN)/kvasir model pull --data .cache
	@$(if $(ARGS),,$(PYTEST) --quiet tests/bench)
	@$(PYTEST) --numprocesses 3 --dist loadfile --no-loadscope-reorder --ignore tests/bench $(ARGS)

test-remote: $(VENV)/installed-dev ## Test remote engines against a real vLLM; one of its own, or REMOTE_ENGINE_URL=http://…/v1
	@$(BIN)/python -m tests.support.real_vllm $(ARGS)

pictures: $(VENV)/installed-dev node_modules/installed system-packages ## Renew the pictures of docs/ with what the browser tests see
	@$(PYTEST) --quiet tests/e2e/browser -k "markdown_is_drawn or the_map_tells or handed_to_an_agent or both_documents"
	@$(BIN)/python -m tests.e2e.browser.document_pictures

lint: $(VENV)/installed-dev node_modules/installed system-packages ## Check format, style, types and shell scripts
	@$(BIN)/ruff format --check --quiet || { echo "make format would change the files above"; exit 1; }
	@$(BIN)/ruff check --quiet
	@$(BIN)/mypy --no-error-summary
	@npm --silent run check
	@shellcheck $(SCRIPTS)
	@echo "lint: all clean"

format: $(VENV)/installed-dev ## Format the Python code and fix what can be fixed
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format --quiet

clean: ## Remove what was installed and built; your data stays
	@rm -rf $(VENV) .venv-vllm node_modules .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	@[ -n "$(PYTHON)" ] || { echo "Kvasir needs Python 3.11 or newer, and none was found on the PATH."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }

# Editable, so that a changed source file needs no new installation; only a changed pyproject.toml does.
$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV); the first time this takes some minutes."
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing with what tests need into $(VENV)."
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/installed

node_modules/installed: package-lock.json | system-packages
	@npm ci --silent --no-audit --no-fund
	@touch $@

# Programs that tests and linters start. Installed by themselves where that is possible, named where it is not.
system-packages:
	@missing=""; \
	for need in chromium:chromium shellcheck:shellcheck npm:npm git:git curl:curl c++:g++ redis-server:redis-server; do \
		command -v "$${need%%:*}" >/dev/null || missing="$$missing $${need##*:}"; \
	done; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing="$$missing postgresql"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "Tests and linters need$$missing; install them (on Debian: sudo apt-get install$$missing)."; exit 1; \
	fi; \
	echo "Installing$$missing."; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null
