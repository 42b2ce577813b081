# Everything starts from a checkout with Python 3.11 or newer and Node 20 or newer; `make help` lists the goals.
# A first run installs into .venv; later runs notice what changed.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
# The last file that `npm run build` writes.
FRONT_END := widgets/lab/labextension/install.json
FRONT_END_SOURCES := $(shell find widgets/src widgets/scripts widgets/lab/src widgets/lab/schema widgets/lab/container.ts -type f ! -name "protocol.gen.ts") widgets/package.json widgets/package-lock.json
# The example page of the AI SDK: what it is made of, and what it is built into.
EXAMPLE := examples/ai-sdk
EXAMPLE_MODULES := $(EXAMPLE)/node_modules/.package-lock.json
EXAMPLE_PAGE := $(EXAMPLE)/dist/index.html
EXAMPLE_SOURCES := $(wildcard $(EXAMPLE)/src/*) $(EXAMPLE)/index.html $(EXAMPLE)/vite.config.ts $(EXAMPLE)/tsconfig.json
LAB_TYPES := widgets/lab/node_modules/.package-lock.json
# A test that fails is run once more, alone; what passes then is listed in FLAKY. What is after `--` is for the first run only.
PYTEST := $(BIN)/python -m tests.second_try
FLAKY := test-results/flaky.txt
LIST_FLAKY = if [ -s $(FLAKY) ]; then echo '== flaky (failed, then passed alone):'; cat $(FLAKY); fi
# Kernels and servers have cached byte code, as a user's have, also where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=
# For tests that mostly wait for kernels, servers and browsers: a process for each core, which takes whole files.
WORKERS ?= 2
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile
# Not in one process with the other tests: their browser keeps an event loop of its own.
WITH_BROWSERS := tests/e2e tests/environments
# Of `make soak`: runs with processes that are killed at random moments.
SOAK_ROUNDS ?= 300

.PHONY: help
help: ## List the goals
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: demo
demo: .venv/demo.stamp ## Open JupyterLab on the demo notebook (DEMO_ARGS=--no-browser where there is no screen)
	$(BIN)/agent-kernel demo $(DEMO_ARGS)

.PHONY: example
example: .venv/demo.stamp $(EXAMPLE_MODULES) ## A chat page, built with the AI SDK, on a notebook with the demo's data (EXAMPLE_ARGS=--help)
	$(BIN)/python $(EXAMPLE)/start.py $(EXAMPLE_ARGS)

.PHONY: test
test: ## Lint, types, front end, Python with real kernels and servers, notebooks, JupyterLab
	@rm -f $(FLAKY)
	@$(MAKE) --no-print-directory lint unit-front unit notebooks e2e
	@$(LIST_FLAKY)

.PHONY: lint
lint: .venv/test.stamp $(LAB_TYPES) $(EXAMPLE_MODULES) ## Lint, formatting, types (Python and TypeScript)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cd widgets && PYTHON="$(CURDIR)/$(BIN)/python" npm run --silent types && npm run --silent check && npm run --silent check:lab && npm run --silent format:check
	cd $(EXAMPLE) && npm run --silent check

.PHONY: format
format: .venv/test.stamp ## Format, and fix what can be fixed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	cd widgets && npm run --silent format

.PHONY: unit
unit: .venv/test.stamp ## Python tests with real kernels and servers, without a browser
	$(PYTEST) -q -- $(SIDE_BY_SIDE) tests --ignore=tests/e2e --ignore=tests/wheel

.PHONY: unit-front
unit-front: .venv/test.stamp ## The front end's tests
	cd widgets && npm test --silent

.PHONY: notebooks
notebooks: .venv/test.stamp ## The demo notebooks as regression tests
	$(PYTEST) -q --nbval --nbval-current-env -- -n $(WORKERS) notebooks

.PHONY: e2e
e2e: .venv/test.stamp .venv/browser.stamp $(EXAMPLE_PAGE) ## What a user sees, in a real JupyterLab
	$(PYTEST) -q -- $(SIDE_BY_SIDE) tests/e2e

.PHONY: docs
docs: .venv/docs.stamp ## The documents as a site, in build/site; a link that leads nowhere is an error
	rm -rf build/docs && mkdir -p build/docs
	git ls-files -z -- '*.md' docs/images examples notebooks ':!examples/ai-sdk/index.html' | xargs -0 tar -cf - | tar -xf - -C build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: soak
soak: .venv/test.stamp .venv/browser.stamp .venv/fuse.stamp ## What takes long: other environments, benchmarks, processes killed at random, load (SOAK_ROUNDS=20)
	@rm -f $(FLAKY)
	for folder in $(WITH_BROWSERS); do $(PYTEST) -q -m soak -- $(SIDE_BY_SIDE) $$folder || exit 1; done
	$(PYTEST) -q -m soak -- $(SIDE_BY_SIDE) tests $(WITH_BROWSERS:%=--ignore=%) --ignore=tests/wheel
	$(BIN)/python -m tests.faults --rounds $(SOAK_ROUNDS)
	$(BIN)/python -m tests.load
	@$(LIST_FLAKY)
	@echo '== soak: other environments of Jupyter, the benchmarks at their smallest, long fault tests, $(SOAK_ROUNDS) fault rounds and the load, all well'

.PHONY: bench
bench: .venv/test.stamp .venv/browser.stamp ## Measure against the performance goals (BENCH_ARGS="--only tokens,steps --rounds 3" for a part, BENCH_ARGS=--help for all)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

.PHONY: clean
clean: ## Remove what was installed and built
	rm -rf .venv widgets/node_modules widgets/agent_kernel_widgets/static widgets/lab/node_modules widgets/lab/labextension dist build test-results .agent-kernel $(EXAMPLE)/node_modules $(EXAMPLE)/dist $(EXAMPLE)/.agent-kernel

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

$(FRONT_END): $(FRONT_END_SOURCES)
	@command -v npm >/dev/null || { echo 'npm is missing: install Node 20 or newer' >&2; exit 1; }
	cd widgets && npm install --no-audit --no-fund && npm run build

$(LAB_TYPES): widgets/lab/package.json widgets/lab/package-lock.json
	cd widgets/lab && npm ci --ignore-scripts --no-audit --no-fund

$(EXAMPLE_MODULES): $(EXAMPLE)/package.json $(EXAMPLE)/package-lock.json
	cd $(EXAMPLE) && npm ci --no-audit --no-fund --loglevel=error
	touch $@

$(EXAMPLE_PAGE): $(EXAMPLE_MODULES) $(EXAMPLE_SOURCES)
	cd $(EXAMPLE) && npm run --silent build -- --logLevel=warn

# An editable install copies the JupyterLab extension to .venv/share/jupyter/labextensions, so it follows each build.
.venv/demo.stamp: pyproject.toml $(FRONT_END) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[demo]'
	touch $@

.venv/test.stamp: pyproject.toml $(FRONT_END) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[demo,test,dev]'
	touch $@ .venv/demo.stamp

.venv/docs.stamp: pyproject.toml $(FRONT_END) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

.venv/browser.stamp: .venv/test.stamp tests/e2e/browser.py tests/packages.py
	$(BIN)/python -m tests.e2e.browser
	touch $@

.venv/fuse.stamp: .venv/test.stamp tests/fuse.py tests/packages.py
	$(BIN)/python -m tests.fuse
	touch $@
