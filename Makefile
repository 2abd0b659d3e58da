# Commands for simulator stacks. On hardware, use `eval "$$(make env)"` and the pulumi CLI (README).
STACK ?= lab
IN := engine/run $(STACK)
PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup env doctor up preview drift validate ports history report recover destroy down test-unit test test-all test-whole test-kills check bench docs dist recording clean

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/; s/[$$][$$]/$$/' | column -t -s "$$(printf '\t')"

setup:  ## Installs Python packages, the Pulumi engine, plugins, pinned upstream manifests, and simulator programs
	@engine/steps $(SETUP)

env:  ## Prints the environment for the plain pulumi CLI: eval "$$(make env)"
	@engine/env --stack $(STACK)

doctor:  ## Says what you must install before `make up`, and lists where each part comes from
	@engine/doctor --stack $(STACK)

# The commands below act on labs of kind virtual only, never on real machines: the guard names the command to use on
# hardware. It and the steps after it run in one process, in the order in which a target lists them. Before anything is
# built, ALONE makes sure that no other lab uses the simulator, and IMAGE reports what only this machine's owner can
# install. MADE ends the command for a stack without resources, which needs no simulator; `make preview` leaves such a
# stack. ENTER sets the stack's environment for the steps after it.
ON_HARDWARE = pulumi up --stack $(STACK)
GUARD = engine/steps stacks.virtual $(STACK) "$(ON_HARDWARE)"
ALONE = -- engine.one_lab $(STACK)
IMAGE = -- engine.nodes_image
SETUP = -- engine.install --stack $(STACK) -- components.cli.app store
MADE = -- engine.made $(STACK)
ENTER = -- engine.environment --enter --stack $(STACK)
START = $(ENTER) -- simulator.cli up --stack $(STACK)
RECOVER = -- engine.recover $(STACK)
SELECT = -- pulumi stack select --create $(STACK)

# The verdict's table ends a run; the stack's outputs above it would be the same in 60 lines (`pulumi stack output`).
UP = echo "pulumi up --stack $(STACK)"; begun=$$(date -u +%FT%TZ); \
  $(IN) pulumi up --yes --skip-preview --suppress-outputs --stack $(STACK)
VERDICT = status=$$?; mkdir -p .sim/report; $(IN) rocelab report --stack $(STACK) --html .sim/report/$(STACK).html \
  --after-up $$status $$begun; exit $$status

# --refresh: a node that was killed or reset comes back as its clean snapshot, and the state does not show that
up:  ## Starts the simulator, runs pulumi up, and reports the verdict
	@$(GUARD) $(ALONE) $(IMAGE) $(SETUP) $(START) $(RECOVER) $(SELECT)
	@$(UP) --refresh; $(VERDICT)

preview: ON_HARDWARE = pulumi preview --diff --stack $(STACK)
preview:  ## Shows what `make up` would change
	@$(GUARD) $(ALONE) $(IMAGE) $(SETUP) $(START) $(SELECT)
	@$(IN) pulumi preview --diff --stack $(STACK)

drift: ON_HARDWARE = pulumi preview --refresh --diff --stack $(STACK)
drift:  ## Shows where hosts and cluster differ from the stack
	@$(GUARD) $(IMAGE) $(SETUP) $(MADE) $(START)
	@$(IN) pulumi preview --refresh --diff --stack $(STACK)

RUNS = $(IN) sim status --stack $(STACK) > /dev/null || \
  { echo "the simulator, or a part of it, does not run: make up STACK=$(STACK) starts it and configures the hosts" >&2; exit 1; }

# Does not start the simulator: restarted hosts come back as clean snapshots and would be measured unconfigured.
validate: MEASURE = $(if $(REBASELINE),rebaseline,again)
validate: ON_HARDWARE = ROCELAB_VALIDATE=$(MEASURE) pulumi up --stack $(STACK)
validate:  ## Measures again, even if nothing changed (REBASELINE=1 discards earlier baselines)
	@$(GUARD) $(SETUP) $(MADE)
	@$(RUNS)
	@export ROCELAB_VALIDATE=$(MEASURE); $(UP); $(VERDICT)

ports: ON_HARDWARE = rocelab ports --check --stack $(STACK)
ports:  ## Tests each connection of the lab's port matrix from its source
	@$(GUARD) $(SETUP) $(MADE)
	@$(RUNS)
	@$(IN) rocelab ports --check --stack $(STACK)

history: setup  ## Lists a lab's last runs: verdicts, values and baselines
	@$(IN) rocelab history --stack $(STACK)

report: ON_HARDWARE = rocelab report --folder report --stack $(STACK)
report:  ## Writes the last run as HTML, Markdown, JSON, CTRF and JUnit to .sim/report
	@$(GUARD) $(SETUP) $(MADE)
	@$(IN) rocelab report --stack $(STACK) --folder .sim/report

recover: ON_HARDWARE = pulumi cancel --stack $(STACK) && \
  pulumi refresh --clear-pending-creates --stack $(STACK)
recover:  ## Cleans up after an interrupted run
	@$(GUARD) $(SETUP) $(ENTER) $(RECOVER)

destroy: ON_HARDWARE = pulumi destroy --stack $(STACK)
destroy:  ## Undoes all changes on the hosts and in the cluster
	@$(GUARD) $(IMAGE) $(SETUP) $(MADE) $(START) $(RECOVER)
	@$(IN) pulumi destroy --yes --skip-preview --suppress-outputs --stack $(STACK)

down:  ## Stops the simulator and keeps its state
	@if [ -x .engine/bin/sim ]; then $(IN) sim down; fi

check:  ## Checks format, lint, house style and types
	@engine/setup --dev --python-only
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	$(PYTEST) --quiet tests/test_style.py
	.venv/bin/mypy

# Each lane ends with a list of what it leaves out. Unit tests share nothing, so they run on all cores.
PYTEST := .venv/bin/pytest
UNIT := $(PYTEST) --quiet --numprocesses auto --dist worksteal

test-unit:  ## Fast tests, a minute: no engine, no simulator
	@engine/setup --dev --python-only
	$(UNIT) -m "not sim and not whole"

# The tests of one file run in order, and so do all tests that use the one simulator. Other files run in parallel.
SIM := $(PYTEST) --quiet --numprocesses 2 --dist loadscope --no-loadscope-reorder --durations=15
SIM_SETUP = engine/setup --dev --stack $(STACK) && $(PYTHON) -m components.cli store --operators

test: test-unit  ## The fast tests, then the real engine on the simulator; docs/seed-rows.md says what only test-all proves
	@$(SIM_SETUP)
	$(SIM) -m "sim and not whole and not kills"

# In one run, `test` and `test-whole` share the labs that a file makes.
test-all: test-unit  ## All tests but the kills: also pods that run, packages, and the variants by fault, adoption and size
	@$(SIM_SETUP)
	$(UNIT) -m "whole and not sim"
	$(SIM) -m "sim and not kills"

test-whole:  ## What test-all runs beyond test
	@$(SIM_SETUP)
	$(UNIT) -m "whole and not sim"
	$(SIM) -m "whole and sim and not kills"

test-kills:  ## Parts killed and suspended at work, and the real timeouts that follow
	@$(SIM_SETUP)
	$(SIM) -m kills

bench:  ## Measures the times listed in docs/benchmarks.md
	@engine/setup --dev --stack $(STACK)
	@$(IN) python -m simulator.bench

# What only a release needs has an environment of its own, so setup stays light.
RELEASE = .engine/release/bin/python
$(RELEASE): requirements-release.txt
	python3 -m venv .engine/release
	$@ -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.txt
	@touch $@

docs: $(RELEASE)  ## Builds the documentation site in site/, and fails at a link that leads nowhere
	@$(RELEASE) release/site.py

dist: $(RELEASE)  ## Makes the source archive, its bill of materials (CycloneDX) and their SHA-256 in dist/
	@$(RELEASE) release/dist.py

recording: $(RELEASE)  ## Records a make up as docs/images/make-up.svg
	@$(RELEASE) release/record.py docs/images/make-up.svg make up

clean: down  ## Removes the simulator's state, the engine's links and the Python environment; the cache stays
	rm -rf .sim .engine .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache
