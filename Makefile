# Needs only Python 3.11+ and make: Node and Java come as Python wheels.
# `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
BIN := .venv/bin
# One more than the two cores: end-to-end tests wait as much as they work.
WORKERS ?= 3
# A worker ends with a test that hangs; a second one of them ends the run.
PARALLEL = -n $(WORKERS) --dist loadfile --max-worker-restart 1
# Some images set it. Without bytecode each test worker rewrites all asserts, and each job compiles.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Runs again when the requirements change. An interrupted set-up leaves no stamp and is repeated.
# `-W ignore`: Debian's pip warns of how it installs PySpark, which later ones do in another way.
.venv/.set-up: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; name it: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "this Python cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv"; \
	  exit 1; }
	@echo "setting up .venv (once; about 2.2 GB with Spark and a JVM)"
	@echo "pip says nothing while it unpacks what it has downloaded: a minute or two"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -W ignore -m pip install --disable-pip-version-check --no-input \
	  --require-hashes -r requirements.lock
	@echo "installing longhaul, from this folder"
	@$(BIN)/python -m pip install --disable-pip-version-check --no-input --quiet --no-deps \
	  --editable .
	@echo "making the AOT cache of Spark's JVM (once; a minute and a half of one core)"
	@$(BIN)/python -P -m longhaul.runner.spark.aot_training || echo "jobs start more slowly without it"
	@touch $@

.venv/.set-up-dev: .venv/.set-up requirements-dev.lock
	@$(BIN)/python -m pip install --disable-pip-version-check --no-input --require-hashes \
	  -r requirements-dev.lock
	@touch $@

.PHONY: setup
setup: .venv/.set-up-dev ## Make .venv with everything that development needs

.PHONY: hooks
hooks: .venv/.set-up-dev ## Check style and types before each commit, with a hook of git
	@git config core.hooksPath .githooks

.PHONY: install
install: .venv/.set-up ## Make .venv with the command `longhaul`, for projects beside this checkout

.PHONY: demo
demo: .venv/.set-up ## Run a year of real flights on this machine, with two crashes and checks
	@$(BIN)/longhaul demo

.PHONY: up
up: .venv/.set-up ## Run the embedded AWS in the foreground, with the stack deployed
	@$(BIN)/longhaul up

.PHONY: synth
synth: .venv/.set-up ## Write the CloudFormation template to cdk.out/
	@$(BIN)/longhaul synth

# More arguments for the CDK CLI, such as -c 'longhaul={"stages": …}' or --profile.
CDK_ARGS ?=

.PHONY: bootstrap
bootstrap: .venv/.set-up ## Prepare an account and region for deployments, once
	@$(BIN)/longhaul bootstrap $(CDK_ARGS)

DOCKERFILE := longhaul/runner/Dockerfile

# The digest is that of the list of images, for all architectures, as the registry has it.
.PHONY: pin-base
pin-base: ## Ask the registry for the digest of the image's base, and write it down
	@image=$$(sed -n 's/^ARG PYTHON_IMAGE=\([^@]*\).*/\1/p' $(DOCKERFILE)); \
	  digest=$$($${CDK_DOCKER:-docker} buildx imagetools inspect "$$image" \
	    --format '{{.Manifest.Digest}}') || exit; \
	  echo "$$digest" | grep -Eqx 'sha256:[0-9a-f]{64}' || { \
	    echo "the registry's answer for $$image is no digest: $$digest"; exit 1; }; \
	  sed "s|^ARG PYTHON_IMAGE=.*|ARG PYTHON_IMAGE=$$image@$$digest|" $(DOCKERFILE) \
	    > $(DOCKERFILE).new && mv $(DOCKERFILE).new $(DOCKERFILE) && \
	  echo "written to $(DOCKERFILE): $$image@$$digest"

LOCKED := functions/requirements longhaul/runner/requirements longhaul/runner/build-requirements
# Of the machines that deploy and develop, whatever they are.
MACHINES := requirements requirements-dev docs/requirements

# For both architectures, with the Python and the glibc of Lambda's runtime. What is locked already
# stays where no pin moves it. PySpark is published as a source archive alone.
.PHONY: lock
lock: .venv/.set-up-dev ## Write the hashes of all that is installed anywhere, after a new pin
	@for name in $(LOCKED); do \
	  for machine in aarch64 x86_64; do \
	    env -u VIRTUAL_ENV $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate \
	      --only-binary :all: --no-binary pyspark --python-platform $$machine-manylinux_2_34 \
	      --python-version 3.13 --no-python-downloads $$name.txt --output-file $$name.lock || exit; \
	  done; \
	done
	@for name in $(MACHINES); do \
	  env -u VIRTUAL_ENV $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate \
	    --universal --python-version 3.11 --no-python-downloads \
	    $$name.txt --output-file $$name.lock || exit; \
	done
	@for name in $(LOCKED) $(MACHINES); do \
	  { echo "# Written by \`make lock\` from $${name##*/}.txt. Change that file, and run it again."; \
	    cat $$name.lock; } > $$name.new && mv $$name.new $$name.lock || exit; \
	done

.PHONY: deploy
deploy: .venv/.set-up ## Deploy with the Node of .venv; needs AWS credentials and Docker
	@$(BIN)/longhaul deploy $(CDK_ARGS)

.PHONY: destroy
destroy: .venv/.set-up ## Take a drained stack down; table and bucket stay
	@$(BIN)/longhaul destroy $(CDK_ARGS)

.PHONY: lint
lint: .venv/.set-up-dev ## Check style and types, with ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

.PHONY: format
format: .venv/.set-up-dev ## Format the code and fix what ruff can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Contract tests and rules of AWS run on the strict fakes here, and on moto too in `make test`.
# These tests wait for nothing, so a worker more than the two cores would only import once more.
.PHONY: check
check: lint ## The loop of a change: style, types, and the quick tests
	@$(BIN)/python -m pytest -n 2 --dist loadfile -q -m "not slow" -k "not moto" \
	  tests/unit tests/handlers tests/contract tests/fidelity

.PHONY: test
test: .venv/.set-up-dev ## All checks, and all tests but the slow ones
	@# Dozens of tests start a JVM. Its AOT cache, made once while the checks run, halves their time.
	@$(BIN)/python -m longhaul.runner.spark.aot_training & \
	  $(MAKE) --no-print-directory lint; checked=$$?; wait; exit $$checked
	@$(BIN)/pytest $(PARALLEL) -m "not slow" -o faulthandler_timeout=400

.PHONY: test-slow
test-slow: .venv/.set-up-dev ## The tests that need minutes or a container
	@# Without it each `longhaul up` of a test begins to make it, and is ended before it is done.
	@$(BIN)/python -m longhaul.runner.spark.aot_training
	@$(BIN)/pytest $(PARALLEL) -m slow --durations 30

N ?= 20000

.PHONY: fuzz
fuzz: .venv/.set-up-dev ## Send messages that anybody might write to the dispatcher (N=20000)
	@FUZZ_EXAMPLES=$(N) $(BIN)/pytest -q tests/handlers/test_any_message.py tests/handlers/test_secrets.py
.PHONY: oracles
oracles: .venv/.set-up-dev ## Compare the fakes with DynamoDB Local
	@$(BIN)/pytest $(PARALLEL) -m slow -q -rs tests/oracles tests/contract tests/fidelity

# Of its own, so that tests need none of it.
.cache/docs/.set-up: docs/requirements.lock
	@$(PYTHON) -m venv .cache/docs
	@.cache/docs/bin/pip install --disable-pip-version-check --no-input --quiet --require-hashes \
	  -r docs/requirements.lock
	@touch $@

.PHONY: docs
docs: .cache/docs/.set-up ## Build the site of docs/ into build/site; a dead link ends it
	@NO_MKDOCS_2_WARNING=1 .cache/docs/bin/mkdocs build --strict --quiet
	@echo "written: build/site/index.html"

.PHONY: wheel
wheel: ## Build the wheel, which works without this checkout; needs no set-up
	@# Setuptools packs whatever an earlier build left there.
	@rm -rf build && $(PYTHON) -m venv build/venv
	@build/venv/bin/pip wheel --disable-pip-version-check --no-input --quiet --no-deps \
	  --wheel-dir dist .
	@rm -rf build && ls dist/*.whl

.PHONY: release
release: .venv/.set-up ## Build the wheel of the version in pyproject.toml, and tag the commit
	@version=$$($(BIN)/python -c 'from longhaul.config.sources import version; print(version())'); \
	  test -z "$$(git status --porcelain)" || { \
	    echo "commit first: the tag would name other files than the wheel has"; exit 1; }; \
	  grep -Eq "^## $$version \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$$" CHANGELOG.md || { \
	    echo "CHANGELOG.md has no heading '## $$version (YYYY-MM-DD)': write it, and commit"; exit 1; }; \
	  ! git rev-parse -q --verify "refs/tags/v$$version" >/dev/null || { \
	    echo "v$$version is released: raise the version in pyproject.toml"; exit 1; }; \
	  $(MAKE) --no-print-directory wheel && \
	  git tag -a "v$$version" -m "Longhaul $$version" && \
	  echo "tagged: v$$version; publish it with git push origin v$$version"

WORLDS ?= 10000

.PHONY: soak
soak: .venv/.set-up-dev ## Simulate many worlds on all cores (WORLDS=10000); continues after an interrupt
	@$(BIN)/python -m simulation.tools.soak --worlds $(WORLDS)

.PHONY: mutants
mutants: .venv/.set-up-dev ## Put seeded bugs into the code; the simulation must find each
	@$(BIN)/python -m simulation.tools.mutants

.PHONY: walks
walks: .venv/.set-up-dev ## Follow one message through the files of the code, over the fakes
	@$(BIN)/python -m simulation.tools.walks

.PHONY: size
size: .venv/.set-up-dev ## Say how large each room is, in statements, beside its ceiling
	@$(BIN)/python -m tests.size

.PHONY: bench
bench: .venv/.set-up ## Compare with plain Spark; needs a quiet machine and half an hour
	@$(BIN)/python -m longhaul.runner.spark.aot_training
	@$(BIN)/python -m benchmarks.spark_start
	@$(BIN)/python -m benchmarks.spark_throughput

.PHONY: clean
clean: ## Remove what was built; downloads in .cache/ stay
	@rm -rf .venv .longhaul cdk.out build dist *.egg-info
