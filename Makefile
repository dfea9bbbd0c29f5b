# One working copy, one virtual environment. `make` alone lists what there is.
.DEFAULT_GOAL := help
.PHONY: help setup prepared demo quick test test-all pythons lint types fmt chaos bench clean

BIN := .venv/bin
ROUNDS ?= 50
WORKERS ?= auto
NAME ?= append

# Bash has a variable SECONDS of its own; only one that was given to make counts.
DEMO_SECONDS := $(if $(filter command environment,$(origin SECONDS)),--seconds $(SECONDS))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready ## install everything into .venv (the other targets do it when needed)
	@:

.venv/.ready: requirements.lock pyproject.toml scripts/setup.sh
	@scripts/setup.sh

# Most of a test with a Spark of its own is Spark's start.
prepared: setup
	@$(BIN)/anabranch prepare >/dev/null || true

demo: setup ## watch a simulated network; SECONDS=20 ends by itself
	@$(BIN)/anabranch demo $(DEMO_SECONDS)

# A third of the time of tests without Spark is fsync: where there is room in memory, they write there.
ROOM := $(shell df --output=avail -BG /dev/shm 2>/dev/null | awk 'NR == 2 && int($$1) >= 8 { print "TMPDIR=/dev/shm" }')
# Java that is to live for seconds is not worth its better compiler, nor collectors with threads of their own.
JAVA := SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# One process runs all tests that share a Spark session, the others meanwhile the rest.
PYTEST := $(ROOM) $(JAVA) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations=20

quick: setup ## run the tests that need no Spark and are over soon
	@ANABRANCH_TESTS=quick $(PYTEST) -q -m "not spark and not chaos and not slow" $(ARGS)

test: prepared ## run the tests, of the long tails a part; ARGS="-k log" runs some
	@$(PYTEST) $(ARGS)

test-all: prepared ## run every case of every test, with fresh seeds
	@ANABRANCH_TESTS=all $(PYTEST) $(ARGS)

pythons: ## run the quick tests with each other version of Python that is here
	@scripts/other_pythons.sh

lint: setup ## check style, format and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: setup ## check types, strictly
	@$(BIN)/mypy

fmt: setup ## format, and fix what can be fixed
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	@$(BIN)/ruff format .

chaos: setup ## kill the whole system, its archives, hosts, JVM and planners at random moments, and damage files; ROUNDS=50
	@$(BIN)/python -m tests.chaos --rounds $(ROUNDS)

bench: setup ## run one benchmark; NAME=append, ARGS=--quick
	@$(BIN)/python -m benchmarks $(NAME) $(ARGS)

clean: ## remove .venv and everything that was generated
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
