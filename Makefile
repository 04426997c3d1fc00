# Two commands are enough: `make demo` and `make test`. Each sets up what it needs in .venv.

PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& { echo $$python; break; }; done)
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo dev test wheel canary soak faults bench lint types check clean

demo: $(READY)
	@$(BIN)/kinesis-assets demo

dev: $(READY)
	@$(BIN)/kinesis-assets dev

# Two files at a time: much of it waits for other processes.
test: $(READY)
	@$(BIN)/pytest -n 2 --dist loadfile --ignore tests/packaging

# Builds the wheel, installs it into an empty environment, and uses it there; about two minutes.
wheel: $(READY)
	@$(BIN)/pytest tests/packaging

# The tests around private names of boto3, botocore, urllib3 and Dagster, on their newest releases. Only warns.
canary: $(READY)
	@.ci/canary

MINUTES ?= 30

# Everything at once, killed again and again, for so many minutes.
soak: $(READY)
	@$(BIN)/python tests/soak --minutes $(MINUTES)

# The crash matrix with 200 kills at random steps; about ten minutes.
faults: $(READY)
	@FAULTS=long $(BIN)/pytest tests/faults

# Measures what it costs beside others; ten minutes, alone on the machine. Writes benchmarks/REPORT.md and its
# charts. `make bench FULL=1` takes forty: it reads more, more often, and measures besides what no target hangs on,
# as how cost grows, the start of Spark and the size of files.
bench: $(READY)
	@$(BIN)/python -m benchmarks

lint: $(READY)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(READY)
	@$(BIN)/mypy

# The definitions and their YAML load as Dagster would load them.
check: $(READY)
	@VIRTUAL_ENV=$(abspath .venv) $(BIN)/dg check yaml
	@VIRTUAL_ENV=$(abspath .venv) $(BIN)/dg check defs

clean:
	rm -rf .venv .local

$(READY): pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11, 3.12 or 3.13 is needed, and none is on the PATH"; exit 1; fi
	@echo "Setting up .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
