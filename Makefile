# One working copy, one virtual environment. `make` alone lists what there is.
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types fmt chaos bench clean

BIN := .venv/bin
ROUNDS ?= 50
NAME ?= append

# Bash has a variable SECONDS of its own; only one that was given to make counts.
DEMO_SECONDS := $(if $(filter command environment,$(origin SECONDS)),--seconds $(SECONDS))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready ## install everything into .venv (the other targets do it when needed)
	@:

.venv/.ready: requirements.lock pyproject.toml scripts/setup.sh
	@scripts/setup.sh

demo: setup ## watch a simulated network; SECONDS=20 ends by itself
	@$(BIN)/anabranch demo $(DEMO_SECONDS)

test: setup ## run all tests; ARGS="-k log" runs some
	@$(BIN)/python -m pytest $(ARGS)

lint: setup ## check style, format and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: setup ## check types, strictly
	@$(BIN)/mypy

fmt: setup ## format, and fix what can be fixed
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	@$(BIN)/ruff format .

chaos: setup ## kill the whole system, its archives, its JVM and its planners at random moments, and damage files; ROUNDS=50
	@$(BIN)/python -m tests.chaos --rounds $(ROUNDS)

bench: setup ## run one benchmark; NAME=append, ARGS=--quick
	@$(BIN)/python -m benchmarks $(NAME) $(ARGS)

clean: ## remove .venv and everything that was generated
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
