# One command per verb, the same at home and in CI. Every target makes .venv itself when it is stale.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is installed: to run it; with reports; with Spark too; what unit tests need; and all that tests and checks need.
RUN := $(VENV)/.run
REPORT := $(VENV)/.report
ANALYTICS := $(VENV)/.analytics
DEV := $(VENV)/.dev
STAMP := $(VENV)/.up-to-date
SITE := $(VENV)/.site
# Rings of the processor, and rings that start processes and often wait: those share one Kafka. The tests of a file stay in
# one process, and so do the groups of tests/conftest.py: there is one Spark, and one cluster of three brokers. On two
# cores seven processes take less time than six or nine.
PARALLEL_RINGS := $(wildcard $(addprefix tests/,unit process contract security))
KAFKA_RINGS := $(wildcard $(addprefix tests/,integration system browser))
WORKERS ?= 3
KAFKA_WORKERS ?= 7
KUBE_WORKERS ?= 2

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help up dev dev-all demo demo-topology demo-console demo-census test test-cluster test-image test-observe nightly t coverage check \
  format docs man site bench bench-image chaos jars kube lock vendor wheel image image-spark release clean

##@ Use it
help: ## Show the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "%s%s\n", (n++ ? "\n" : ""), substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

UP ?=

up: $(RUN) ## Run everything on this machine: Kafka, worker, sample subscriber; Ctrl-C stops it
	@$(BIN)/penstock up $(UP)

demo: $(RUN) ## Send 1,000 events through it without a terminal; the last line is a JSON summary
	@$(BIN)/penstock demo

TRAFFIC_S ?= 60

demo-topology: $(REPORT) ## Create a topology with faults, send events for a minute (TRAFFIC_S=60), and report the faults
	@$(BIN)/python -m app.cli.demos.topology --seconds $(TRAFFIC_S)

demo-console: $(REPORT) ## Serve the console over a topology with faults and two minutes of traffic; says where to look
	@$(BIN)/python -m app.cli.demos.console

demo-census: $(ANALYTICS) ## Count census-like files through Kafka, Spark and a Faust table, with kills; the last line is JSON
	@$(BIN)/python -m examples.census demo

##@ Develop
dev: $(DEV) ## Install what unit tests need, in a minute or two; `make t` does it itself

dev-all: $(STAMP) ## Install Spark too, which other tests and checks need (470 MB more); these targets do it themselves

test: $(STAMP) ## Run all tests: unit, process, contract, security, integration, system, browser
	@# The archives take half a minute, once, which the first rings leave of the two cores. A ring that fails does not keep
	@# the others from running.
	@export HYPOTHESIS_PROFILE=ci; $(BIN)/python -m tests.support.java_classes & archives=$$!; \
	  $(BIN)/pytest -n $(WORKERS) --dist loadfile $(PARALLEL_RINGS); first=$$?; \
	  wait $$archives || { echo "the class archives cannot be made; the Kafka rings did not run" >&2; exit 1; }; \
	  $(BIN)/pytest -n $(KAFKA_WORKERS) --dist loadfile --no-loadscope-reorder $(KAFKA_RINGS); second=$$?; \
	  for ring in "$$first $(PARALLEL_RINGS)" "$$second $(KAFKA_RINGS)"; do \
	    case $$ring in "0 "*) echo "passed: $${ring#0 }";; *) echo "FAILED: $${ring#* }";; esac; done; \
	  [ $$first -eq 0 ] && [ $$second -eq 0 ]

test-cluster: kube ## Run the tests with a real Kubernetes API server, which is built first (needs Go)
	HYPOTHESIS_PROFILE=ci $(BIN)/pytest -n $(KUBE_WORKERS) --dist loadfile --no-loadscope-reorder tests/cluster

test-image: $(STAMP) ## Build the images from Debian packages and run them without rights (needs root, buildah, mmdebstrap, runc, umoci)
	$(BIN)/pytest -rP tests/image

test-observe: $(STAMP) ## Test alert rules and dashboards with a real Prometheus (needs Debian's package prometheus)
	$(BIN)/pytest tests/observe

nightly: $(STAMP) ## Run the async contract tests on asyncio's own event loop; `make test` runs them on uvloop
	HYPOTHESIS_PROFILE=ci $(BIN)/pytest -n $(WORKERS) -m asyncio --event-loop asyncio tests/contract

t: $(DEV) ## Run the unit tests: those that failed last time and those of what has changed first; stop at the first failure
	@! grep -qs '"tests/unit' .pytest_cache/v/cache/lastfailed || \
	  { $(BIN)/pytest -q -x --last-failed --last-failed-no-failures none tests/unit || [ $$? -eq 5 ]; }
	@changed=$$($(BIN)/python -m tests.support.changed); \
	  [ -z "$$changed" ] || $(BIN)/pytest -q -x $$changed
	@$(BIN)/pytest -q -x -n $(WORKERS) tests/unit

coverage: $(STAMP) ## Measure which branches the parallel rings run, and compare with the floor in pyproject.toml
	HYPOTHESIS_PROFILE=ci $(BIN)/pytest -q -n $(WORKERS) --dist loadfile --cov --cov-report=term:skip-covered $(PARALLEL_RINGS)

check: $(STAMP) ## Check format, lint, types, import rules, generated pages, CRDs and the subjects of commits
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m app.settings.reference --check
	$(BIN)/python -m app.operations.manifests --check
	$(BIN)/python -m app.cli.manual --check
	$(BIN)/python -m tests.support.commit_subjects

format: $(DEV) ## Format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

##@ Document
docs: $(STAMP) man ## Generate the pages and the CRDs that come from the code
	$(BIN)/python -m app.settings.reference
	$(BIN)/python -m app.operations.manifests

man: $(STAMP) ## Generate the manual pages of the commands into man/man1
	$(BIN)/python -m app.cli.manual

site: $(SITE) ## Build the documentation as a site into build/site, and check its links
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

##@ Measure and break
bench: $(STAMP) ## Measure everything in under ten minutes: CPU, rates, memory, delays, losses
	@$(BIN)/python -m benchmarks --beside benchmarks/implementations/bare

bench-image: $(STAMP) ## Measure the image of workers and a worker in a container of it (needs what test-image needs)
	@$(BIN)/python -m benchmarks.image

chaos: $(STAMP) ## Break Kafka, the network and workers under load, for up to 40 minutes; the last line is JSON
	@$(BIN)/python -m tests.chaos.triggers
	@$(BIN)/python -m tests.chaos

##@ Prepare and pin
jars: $(STAMP) ## Download the jars of the embedded Kafka and of Spark now (otherwise when they are first needed)
	@$(BIN)/python -c "from pathlib import Path; from app.local.kafka.jars import ensure_jars; \
	  print(ensure_jars(Path('.penstock/kafka')))"
	@$(BIN)/python -c "from app.local.kafka.jar_sets import SPARK; from app.local.kafka.jars import ensure_jars; \
	  from app.operations.spark_jars import JARS_ROOT; print(ensure_jars(JARS_ROOT, jars=SPARK))"

kube: $(STAMP) ## Build what test-cluster needs now (API server, Knative's core, kustomize): 15 minutes, once for each version
	@$(BIN)/python -m tests.support.kube.build

COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet

# The first one decides the versions; the next four take theirs from it.
lock: ## Pin the dependencies again, with hashes (needs uv), after a change of pyproject.toml
	$(COMPILE) pyproject.toml --all-extras -o requirements-all.lock
	$(COMPILE) pyproject.toml --extra report --extra otel --group dev --constraints requirements-all.lock -o requirements-dev.lock
	$(COMPILE) pyproject.toml --extra report --constraints requirements-all.lock -o requirements-report.lock
	$(COMPILE) pyproject.toml --extra otel --constraints requirements-all.lock -o requirements-otel.lock
	$(COMPILE) pyproject.toml --constraints requirements-all.lock -o requirements.lock
	$(COMPILE) --group pyproject.toml:image -o requirements-image.lock
	$(COMPILE) --group pyproject.toml:site --constraints requirements-dev.lock -o requirements-site.lock

vendor: $(STAMP) ## Take scripts of others from npm, as the files vendor/lock.json of web/console and tests/browser say (needs npm)
	@$(BIN)/python -m tests.support.vendor

##@ Build and release
# A build folder of an earlier run would put files into the wheel that the sources no longer have.
wheel: $(DEV) ## Build the wheel into dist
	@rm -rf build dist
	@$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .
	@rm -rf build
	@ls dist/*.whl

image: $(STAMP) ## Build the image of workers and the controller with buildah, podman or docker (BASE=, IMAGE=)
	@images/build worker

image-spark: $(STAMP) ## Build the image of the jobs on Spark, likewise; JARS= is a folder of more jars, as those of GraphFrames
	@images/build spark

IMAGE_KAFKA ?=

release: $(STAMP) ## Write one YAML file for each overlay into dist (IMAGE=NAME@sha256:..., IMAGE_KAFKA=NAME@sha256:...)
	@$(BIN)/python -m app.operations.release --image '$(IMAGE)' --kafka-image '$(IMAGE_KAFKA)'

LOCKS = $(wildcard .penstock/lock .penstock/*/*lock)

clean: ## Remove everything that make created: environment, caches, the embedded Kafka and its data
	@for lock in $(LOCKS); do flock -n $$lock true || \
	  { echo "Another command uses $${lock%/*}: it has locked $$lock. Stop it (Ctrl-C in its terminal)." >&2; exit 1; }; done
	rm -rf $(VENV) .penstock build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

INSTALL = $(PYTHON) -E -s -m app.local.install $(VENV)

$(RUN): requirements.lock pyproject.toml setup.py
	@$(INSTALL) $< $(if $(PENSTOCK_KAFKA)$(filter --kafka --kafka=%,$(UP)),,--java) $(if $(UP),,$(if $(filter up,$(MAKECMDGOALS)),--ports))
	@touch $@

$(REPORT): requirements-report.lock pyproject.toml setup.py
	@$(INSTALL) $< --java
	@touch $(RUN) $@

$(ANALYTICS): requirements-all.lock pyproject.toml setup.py
	@$(INSTALL) $< --java --ask "Spark, GraphFrames and the libraries of reports: about 560 MB"
	@touch $(RUN) $(REPORT) $@

$(DEV): requirements-dev.lock pyproject.toml setup.py
	@$(INSTALL) $<
	@touch $(RUN) $(REPORT) $@

$(STAMP): requirements-all.lock $(DEV)
	@$(INSTALL) $<
	@touch $(RUN) $(REPORT) $(ANALYTICS) $@

$(SITE): requirements-site.lock $(STAMP)
	@$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes -r $<
	@touch $@
