# Everything works inside .venv, which `make install` makes. `make demo` needs the core alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
DATA ?= ../shared/data/dbdc3_ja.jsonl
DEMO := saiten-demo.db
BENCH ?= --json build/bench.json --plot build/bench.svg

# Images set it. Without bytecode each process of a test would compile all that it imports, and pytest every test module.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo run live test format lint types imports unit collect bench faults fuzz fit openapi pages docs constraints requirements clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Saiten needs Python 3.11 or newer; set PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml client/pyproject.toml constraints.txt
	@echo "Installing the core into $(VENV) (about 20 s) …"
	@$(PIP) install -e client -e . -c constraints.txt
	@touch $@

# The bertscore extra is large and has no build for every machine: without it everything else works, and says so. One call
# for all: each builds the project and resolves everything again. uv takes half of pip's time; where it gets at no packages,
# as it reads none of pip's settings but this, pip installs them.
EXTRAS := metrics,postgres,tracing,bench,dev
UV := UV_FIND_LINKS="$$PIP_FIND_LINKS" $(BIN)/uv --quiet pip install --python $(BIN)/python
$(VENV)/.all: $(VENV)/bin/python pyproject.toml client/pyproject.toml constraints.txt
	@echo "Installing Saiten with developer tools, PostgreSQL and BERTScore into $(VENV) (PyTorch is large) …"
	@{ $(PIP) install uv -c constraints.txt && $(UV) -e client -e '.[$(EXTRAS),bertscore,judge]' -c constraints.txt; } \
		|| $(PIP) install -e client -e '.[$(EXTRAS),bertscore,judge]' -c constraints.txt \
		|| { $(PIP) install -e client -e '.[$(EXTRAS)]' -c constraints.txt \
		&& echo "install: the bertscore extra does not install here; blended values stay null"; }
	@touch $(VENV)/.core $@

install: $(VENV)/.all  ## make .venv with all extras that work on this machine

demo: $(VENV)/.core  ## score the bundled dialogues and runs through a private service
	@$(BIN)/saiten demo

# Made once, by order alone: results that are added to it later are not lost to a newer .venv.
$(DEMO): | $(VENV)/.core
	@echo "Scoring the demo's runs into $@ (about 10 s) …"
	@$(BIN)/saiten demo --quiet --database $@

# Of another database, named in the environment, nothing is made: it is served as it is.
run: $(VENV)/.core $(if $(DATABASE_URL),,$(DEMO))  ## serve on http://127.0.0.1:8000, with the demo's runs in it
	@echo "To open in a browser: http://127.0.0.1:8000/"
	@echo "For other commands on this database: export DATABASE_URL=$${DATABASE_URL:-sqlite+aiosqlite:///$(DEMO)}"
	@DATABASE_URL="$${DATABASE_URL:-sqlite+aiosqlite:///$(DEMO)}" $(BIN)/saiten serve

live: install  ## hold conversations with a bot, and watch them being sampled and judged: examples/live
	@$(BIN)/python examples/live/run.py $(LIVE)

test: install lint types imports unit  ## format, lint, types, import contracts and tests

format: install  ## put all code into form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python scripts/check_words.py
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows examples/ci/github-actions.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions examples/ci/action/action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.gitlab-ci examples/ci/gitlab-ci.yml
	$(BIN)/hadolint Dockerfile

types: install
	$(BIN)/mypy

imports: install
	$(BIN)/lint-imports

# Each process imports and collects everything and forks from one of its own, which is some 15 s of CPU; but the tests of
# faults wait for five sixths of their time: so two more than a small machine has cores, and no more.
unit: install
	$(BIN)/pytest -n 4 --dist worksteal

# Compiles all that the tests import. On a fresh checkout each process of `unit` would do that, at 15 s of CPU each.
collect: install
	@$(BIN)/pytest --collect-only --quiet >/dev/null

bench: install  ## measure speeds beside peers and limits; BENCH="peers --quick" for some, see python -m benchmarks --help
	@mkdir -p build
	$(BIN)/python -m benchmarks $(BENCH)

faults: install  ## run the fault table at full size, some 25 minutes
	$(BIN)/python -m benchmarks.faults

fuzz: install  ## hostile input at full size, some 20 minutes: Schemathesis, and atheris where it installs
	@$(PIP) install -e client -e '.[fuzz]' -c constraints.txt
	$(BIN)/python -m tests.fuzz

fit: install  ## fit the lexical judge's weights again
	$(BIN)/python -m benchmarks.fit_lexical $(DATA)

# Downloads the tools from npm, so it is not part of `make test`.
openapi: install  ## lint the OpenAPI document and generate TypeScript from it; needs Node.js
	@mkdir -p build/openapi
	$(BIN)/python -m benchmarks.openapi > build/openapi/openapi.json
	@echo 'extends: ["spectral:oas"]' > build/openapi/spectral.yaml
	cd build/openapi && npx --yes @redocly/cli@2 lint openapi.json --extends recommended
	cd build/openapi && npx --yes @stoplight/spectral-cli@6 lint -F warn -r spectral.yaml openapi.json
	cd build/openapi && npx --yes openapi-typescript@7 openapi.json -o schema.ts
	cd build/openapi && npx --yes -p typescript@5 -p @hey-api/openapi-ts@0.95 openapi-ts -i openapi.json -o client

pages: install  ## write again what is generated: the client's answers, the rubric schema, docs/settings.md, docs/cost.md in three languages, the demo's ratings
	$(BIN)/python -m benchmarks.answers
	$(BIN)/python -m benchmarks.rubric_schema
	$(BIN)/python -m benchmarks.settings_page
	$(BIN)/python -m benchmarks.cost_page
	$(BIN)/python -m benchmarks.demo_ratings

docs: install  ## build the site of docs/ into build/site, in three languages; a broken link is an error
	@$(PIP) install -e client -e '.[docs]' -c constraints.txt
	$(BIN)/python scripts/build_docs.py

constraints: install  ## pin what is installed now
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt

PIN = $(BIN)/uv pip compile - -q -c constraints.txt --generate-hashes --universal --python-version 3.11 --no-header --no-annotate \
	--no-emit-package saiten --no-emit-package saiten-server
NO_TORCH = printf "torch ; sys_platform == 'never'\n"

requirements: install  ## pin with hashes what the image installs, in the versions of constraints.txt
	@$(PIP) install uv -c constraints.txt
	printf './client[formats]\n.[postgres,tracing]\n' | $(PIN) -o requirements/image.txt
	printf './client[formats]\n.[postgres,tracing,offline]\n' | $(PIN) -o requirements/image-offline.txt
	@mkdir -p build && $(NO_TORCH) > build/no-torch.txt
	printf './client[formats]\n.[postgres,tracing,bertscore]\n' | $(PIN) --override build/no-torch.txt -o requirements/image-bertscore.txt
	printf 'hatchling\n' | $(PIN) -o requirements/build.txt

clean:  ## remove .venv, the benchmarks' environments and caches
	rm -rf $(VENV) .venv-peers .mypy_cache .ruff_cache .pytest_cache .hypothesis
