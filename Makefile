# make demo and make test do all the set-up themselves.
PYTHON ?= python3
BIN := .venv/bin

VERSION ?= 4.1

.PHONY: setup demo test test-long test-spark test-services bench docs lint lock clean
.DEFAULT_GOAL := help

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/ready  ## Python environment and Java

.venv/ready: requirements.lock pyproject.toml
	@tools/setup.sh "$(PYTHON)"
	@touch $@

demo: setup  ## flights joined with the weather, then intrusion detection, on local Spark
	@$(BIN)/thalweg demo

test: setup  ## lint, types and the test suite
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 15

test-long: setup  ## the tests that take minutes: faults, soaks, many random cases
	$(BIN)/python -m pytest -m long

test-spark: setup  ## the Spark tests with another Spark: make test-spark VERSION=4.1
	$(BIN)/python tools/spark_versions.py $(VERSION)

test-services: setup  ## against a real Kafka, Delta, Iceberg and PostgreSQL; fetches jars with Maven
	$(BIN)/python tools/services.py

bench: setup  ## benchmarks against other engines; results in benchmarks/*/results.md
	$(BIN)/python -m benchmarks.filters
	$(BIN)/python -m benchmarks.joins
	$(BIN)/python -m benchmarks.index
	$(BIN)/python -m benchmarks.classes
	$(BIN)/python -m benchmarks.shares
	$(BIN)/python -m benchmarks.spark_joins
	$(BIN)/python -m benchmarks.relations
	$(BIN)/python -m benchmarks.tpch

docs: setup  ## the documentation as a site, in out/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lock: .venv/ready  ## newest versions within pyproject's ranges
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --no-header --no-emit-index-url -U -o requirements.lock

clean:  ## remove the environment and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis out spark-warehouse
