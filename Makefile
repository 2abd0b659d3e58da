# Convenience for simulator stacks; whoever has hardware uses `eval "$$(make env)"` and the pulumi CLI (README).
STACK ?= lab
IN := engine/run $(STACK)
PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup env doctor up preview drift validate ports history report recover destroy down test-unit test test-all test-whole check bench clean virtual made

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | column -t -s "$$(printf '\t')"

setup:  ## Python packages, the Pulumi engine, its plugins, pinned upstream manifests, and the simulator's programs
	@engine/setup --stack $(STACK)
	@$(PYTHON) -m components.cli store

env:  ## Prints the environment for the plain pulumi CLI: eval "$$(make env)"
	@engine/env --stack $(STACK)

doctor:  ## What is installed, where it comes from, and what is missing for which command
	@engine/doctor --stack $(STACK)

# The commands below act on labs of kind virtual only: never on machines that somebody needs. The guard says what does
# the same there; the checks, where nodes are started, what only this machine's owner can add, and where a lab is brought
# up, that no other one has the simulator; all before anything is built.
ON_HARDWARE = pulumi up --stack $(STACK)
CHECK =
ALONE =
up preview drift destroy: CHECK = $(PYTHON) -m engine.nodes_image
up preview: ALONE = $(PYTHON) -m engine.one_lab $(STACK)
virtual:
	@engine/setup --python-only
	@$(PYTHON) -m stacks.virtual $(STACK) "$(ON_HARDWARE)"
	@$(ALONE)
	@$(CHECK)
	@engine/setup --stack $(STACK)
	@$(PYTHON) -m components.cli store

# for a stack that nobody has made, no simulator need start; a preview leaves a state without resources
made: virtual
	@grep -qs '"urn"' .sim/state/.pulumi/stacks/rocelab/$(STACK).json || \
	  { echo "stack $(STACK) has not been made yet: make up STACK=$(STACK) makes it" >&2; exit 1; }

# refresh: a node that was killed or reset comes back as its clean snapshot, which the state cannot know
up: virtual  ## Everything: simulator, pulumi up, verdict
	@$(IN) sim up --stack $(STACK)
	@$(IN) python -m engine.recover $(STACK)
	@$(IN) pulumi stack select --create $(STACK)
	begun=$$(date -u +%FT%TZ); $(IN) pulumi up --yes --skip-preview --refresh --run-program --stack $(STACK); status=$$?; \
	  mkdir -p .sim/report; $(IN) rocelab report --stack $(STACK) --html .sim/report/$(STACK).html \
	    --after-up $$status $$begun; exit $$status

preview: ON_HARDWARE = pulumi preview --diff --stack $(STACK)
preview: virtual  ## What an up would change
	@$(IN) sim up --stack $(STACK)
	@$(IN) pulumi stack select --create $(STACK)
	$(IN) pulumi preview --diff --stack $(STACK)

drift: ON_HARDWARE = pulumi preview --refresh --run-program --diff --stack $(STACK)
drift: made  ## What differs on the hosts and in the cluster from what the stack says
	@$(IN) sim up --stack $(STACK)
	$(IN) pulumi preview --refresh --run-program --diff --stack $(STACK)

RUNS = $(IN) sim status --stack $(STACK) > /dev/null || \
  { echo "the simulator does not run: make up STACK=$(STACK) starts it and puts the hosts back" >&2; exit 1; }

# not started here: hosts that come back as their clean snapshots would be measured as they are
validate: MEASURE = $(if $(REBASELINE),rebaseline,again)
validate: ON_HARDWARE = ROCELAB_VALIDATE=$(MEASURE) pulumi up --stack $(STACK)
validate: made  ## Measures again, whatever has been measured (REBASELINE=1: earlier runs are no measure any more)
	@$(RUNS)
	ROCELAB_VALIDATE=$(MEASURE) $(IN) pulumi up --yes --skip-preview --stack $(STACK)

ports: ON_HARDWARE = rocelab ports --check --stack $(STACK)
ports: made  ## Tries each way of the lab's port matrix, from where it has to be open
	@$(RUNS)
	@$(IN) rocelab ports --check --stack $(STACK)

history: setup  ## The last runs of a lab: verdicts, values, and what they are compared with
	@$(IN) rocelab history --stack $(STACK)

report: ON_HARDWARE = rocelab report --folder report --stack $(STACK)
report: made  ## The last run as HTML, Markdown, JSON, CTRF and JUnit in .sim/report
	@$(IN) rocelab report --stack $(STACK) --folder .sim/report

recover: ON_HARDWARE = pulumi cancel --stack $(STACK) && \
  pulumi refresh --run-program --clear-pending-creates --stack $(STACK)
recover: virtual  ## Clears what a killed run left
	@$(IN) python -m engine.recover $(STACK)

destroy: ON_HARDWARE = pulumi destroy --run-program --stack $(STACK)
destroy: made  ## Undoes everything on the hosts and in the cluster
	@$(IN) sim up --stack $(STACK)
	@$(IN) python -m engine.recover $(STACK)
	$(IN) pulumi destroy --yes --run-program --skip-preview --stack $(STACK)

down:  ## Stops the simulator; its state stays
	@if [ -x .engine/bin/sim ]; then $(IN) sim down; fi

check:  ## Format, lint, types
	@engine/setup --dev --python-only
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

# Each lane ends with a list of what it leaves out. Unit tests share nothing, so every core takes some.
PYTEST := .venv/bin/pytest
UNIT := $(PYTEST) --quiet --numprocesses auto --dist worksteal

test-unit:  ## Fast tests, a minute: no engine, no simulator
	@engine/setup --dev --python-only
	$(UNIT) -m "not sim and not whole"

# Tests of one file, and all that use the one simulator, stay in their order; vCenters and others run beside them.
SIM := $(PYTEST) --quiet --numprocesses 2 --dist loadscope --no-loadscope-reorder --durations=15
SIM_SETUP = engine/setup --dev --stack $(STACK) && $(PYTHON) -m components.cli store --operators

test: test-unit  ## The fast tests, then every capability once on the real engine and the simulator
	@$(SIM_SETUP)
	$(SIM) -m "sim and not whole"

test-all: test test-whole  ## All tests: also the variants by fault, kill, adoption and size

test-whole:  ## What test-all runs beyond test
	@$(SIM_SETUP)
	@engine/setup --dev --stack lab-pods
	$(UNIT) -m "whole and not sim"
	$(SIM) -m "whole and sim"

bench:  ## Times of the stages, as docs/benchmarks.md has them
	@engine/setup --dev --stack $(STACK)
	@$(IN) python -m simulator.bench

clean: down  ## Removes the simulator's state, the engine's links and the Python environment; the cache stays
	rm -rf .sim .engine .venv .mypy_cache .pytest_cache .ruff_cache
