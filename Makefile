# Each target first sets up .venv, if necessary.

PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& { echo $$python; break; }; done)
BIN := .venv/bin
READY := .venv/ready
ARCHIVE := .venv/spark-archive

# Tests are compiled once, even where Python writes no bytecode by default: it takes longer than to run many of them.
unexport PYTHONDONTWRITEBYTECODE

# Tests write thousands of small tables, and some execute programs: in memory, if /dev/shm has 4 GB and allows it.
MEMORY := $(shell grep -qs ' /dev/shm .*noexec' /proc/mounts || df -Pk /dev/shm 2>/dev/null \
	| awk 'NR == 2 && $$4 > 4e6 { print "PYTEST_DEBUG_TEMPROOT=/dev/shm TMPDIR=/dev/shm" }')

.PHONY: demo dev check unit slow test test-all thorough everything contract integration deployments chaos wheel canary standalone connect bucket iceberg spark spark35 pictures docs soak faults histories kcl mutations shards bench lint types check-defs clean

demo: $(READY)
	@$(BIN)/kinesis-assets demo

dev: $(READY)
	@$(BIN)/kinesis-assets dev

# The inner loop: needs no Java. Leaves out slow unit tests, and tests properties with fewer examples than `make test`.
# Without its cache, mypy takes half as long as the tests, and uses one core: they run beside it.
check: lint
	@$(MAKE) --no-print-directory -j 2 types unit EXAMPLES=--hypothesis-profile=quick

unit: $(READY)
	@echo "Unit tests"
	@$(MEMORY) $(BIN)/pytest -q -n 2 --dist worksteal $(EXAMPLES) -m "not slow" tests/unit

# Every promise of the README once, on real HTTP, Spark, Delta Lake and Dagster; about ten minutes.
test: unit
	@$(MAKE) --no-print-directory -j 2 slow contract

# The unit tests that `make check` leaves out. They run beside others, whose progress they would garble: only failures
# are printed.
slow: $(READY)
	@mkdir -p .local
	@$(MEMORY) $(BIN)/pytest -q -n 2 -m "slow and not thorough" tests/unit \
		>.local/slow.log 2>&1 || { cat .local/slow.log; exit 1; }
	@echo "Slow unit tests: $$(tail -1 .local/slow.log)"

# In the order of the files: the one with the most tests is not the longest.
PROCESSES = $(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder
MOST_TESTS := -m "not thorough"
CONTRACT := tests/contract
INTEGRATION := tests/integration
DEPLOYMENTS := tests/deployments tests/docs
CHAOS := tests/chaos tests/benchmarks

contract: $(ARCHIVE)
	@echo "Contract tests: the promises of the README, on real HTTP, Spark, Delta Lake and Dagster"
	@$(MEMORY) $(PROCESSES) $(MOST_TESTS) $(CONTRACT)

integration: $(ARCHIVE)
	@echo "Integration tests: they start Spark, Dagster, S3 servers and other processes"
	@$(MEMORY) $(PROCESSES) $(MOST_TESTS) $(INTEGRATION)

# Also integration tests, the documentation, deployments, clusters, a bucket, the wheel in an empty environment, Spark 3.5, and
# what happens when processes are killed and responses are lost. The tests of four targets are run by the same three
# processes: nothing waits for the last test of each, and Spark is started less often.
# The archive is created first, beside the unit tests: otherwise the longest target would start last.
test-all: $(READY)
	@$(MAKE) --no-print-directory -j 2 unit $(ARCHIVE)
	@$(MAKE) --no-print-directory -j 3 everything slow wheel spark35 bucket iceberg connect standalone

everything: $(ARCHIVE)
	@echo "Chaos, deployment, documentation, contract and integration tests"
	@$(MEMORY) $(PROCESSES) $(MOST_TESTS) $(CHAOS) $(DEPLOYMENTS) $(CONTRACT) $(INTEGRATION)

# What `make test-all` leaves out because of the time that it takes, see CONTRIBUTING.md.
thorough: $(ARCHIVE)
	@echo "Thorough tests: more points at which processes are killed, other consumers, more of Iceberg, all benchmarks with little data"
	@$(MEMORY) $(PROCESSES) -m thorough $(CHAOS) $(DEPLOYMENTS) $(CONTRACT) $(INTEGRATION) tests/unit
	@$(MEMORY) FORMAT=iceberg $(PROCESSES) -m thorough tests/chaos tests/integration
	@$(MEMORY) FORMAT=iceberg $(PROCESSES) $(MOST_TESTS) $(COMPUTED)
	@$(MEMORY) FORMAT=s3tables $(PROCESSES) tests/chaos/faults/test_crash_matrix.py
	@$(MEMORY) SPARK=standalone $(ON_CLUSTERS) -k '$(OF_ANY_MASTER)'
	@$(MEMORY) SPARK=connect $(ON_CLUSTERS) -k '$(OF_ANY_MASTER)'
	@$(MAKE) --no-print-directory soak canary

deployments: $(ARCHIVE)
	@echo "Tests of deployments, clusters and the documentation"
	@$(MEMORY) $(PROCESSES) $(DEPLOYMENTS)

chaos: $(ARCHIVE)
	@echo "Chaos tests: processes are killed, disks are full, responses are lost; and the benchmarks with little data"
	@$(MEMORY) $(PROCESSES) $(CHAOS)

# Builds the wheel, installs it into an empty environment, and follows the tutorial there; about five minutes.
wheel: $(READY)
	@$(BIN)/pytest tests/packaging

# Writes the generated parts of docs/, and builds the documentation site in .local/site.
docs: $(READY)
	@$(BIN)/python docs/cli_reference.py docs/cli.md
	@$(BIN)/python docs/settings_table.py docs/reading.md
	@$(BIN)/python docs/settings_table.py docs/catalog.md
	@$(BIN)/python docs/settings_table.py docs/decoders.md
	@$(BIN)/python docs/settings_table.py docs/derived.md
	@$(BIN)/python docs/settings_table.py docs/spark.md
	@$(BIN)/python docs/settings_table.py docs/routes.md
	@$(BIN)/python docs/metrics_table.py docs/metrics.md
	@$(BIN)/python docs/scale_table.py docs/scale.md
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Takes the pictures in docs/ again, with the tests that use the Dagster UI in a browser. Look at each before you commit it.
pictures: $(READY)
	@PICTURES=1 $(BIN)/pytest -q tests/deployments/browser

# The tests around names of boto3, botocore, urllib3, Dagster, PySpark and pyiceberg, on their newest releases. Only warns.
canary: $(READY)
	@.ci/canary

# Tests of the contract, of derived tables and of decoders on another release of Spark: `make spark RELEASE=4.0`.
spark: $(READY)
	@.ci/spark $(RELEASE)

spark35: RELEASE := 3.5
spark35: spark

ON_CLUSTERS = $(BIN)/pytest -q --ignore tests/contract/test_trouble_is_shown.py tests/contract

# Where tasks are executed decides little about these: `make thorough` runs them.
OF_ANY_MASTER := two_runs or two_replays or stopped_run_leaves or failed_run or failing_shard or drops_what or equal_rows

# The lines of the contract that depend on Spark, on a standalone cluster or on a Spark Connect server.
standalone connect: $(READY)
	@echo "Contract tests with Spark: $@"
	@$(MEMORY) SPARK=$@ $(ON_CLUSTERS) -k 'not ($(OF_ANY_MASTER))'

# To start Spark in a process that is killed takes longer than most tests. The crash matrix kills others at each point.
ONE_KILL := (not after_a_killed_run or appended-before)

IN_BUCKET := $(ONE_KILL) and not each_row and not table_on_s3 and not rolled-up and not time_zone and not equal_rows \
	and not failed_run and not repeated_run and not two_runs and not region

# The lines of the contract that depend on the store, in a bucket on an S3 server that honors conditional puts, with clocks
# ten minutes apart. A test that has a bucket of its own anyway runs with the others, and what Spark computes does not
# depend on the store. A run is killed once: where, does not either.
bucket: $(READY)
	@echo "Contract tests on an S3 server"
	@$(MEMORY) STORE=bucket $(BIN)/pytest -q \
		-k '$(IN_BUCKET)' \
		$(patsubst %,tests/contract/test_%.py,atomic exactly_once exactly_once_downstream \
		exactly_once_in_continuous_runs graceful_stop identity one_winner replay) \
		tests/contract/test_no_silent_loss.py::test_a_restored_table_fails_the_run_until_it_is_replayed_and_adopted

# Of the kills of derivations and of the histories of derived tables, a part: all of them with `make faults FORMAT=iceberg` and
# `make histories FORMAT=iceberg`.
OF_DERIVED := test_killed_operations.py \
	test_crash_matrix.py::test_a_killed_upsert_is_repeated_exactly_once \
	test_crash_matrix.py::test_a_commit_whose_response_is_lost_is_made_once \
	test_histories.py::test_each_row_is_consumed_exactly_once_in_any_history[1]

# The tests of derived tables that depend on their format. Histories are of sources that lost rows or have them again.
STORED := $(patsubst %,tests/integration/derive/test_%.py,append upsert)

# What is computed before it is stored, and more of such sources: `make thorough` runs these over Iceberg tables.
COMPUTED := $(patsubst %,tests/integration/derive/test_%.py,redrive rollup routes rows_added_again separate_errors typed_tables) \
	$(patsubst %,tests/integration/dagster/test_%.py,derived_checks derived_tables typed_tables)

OVER_ICEBERG := ($(ONE_KILL) or crash_matrix) and not two_processes and not time_zone and not repeated_run \
	and not failed_run and not two_runs and not one_of_eight

# What all formats of tables have in common, on raw and derived Iceberg tables: lines of the contract, runs and operations that
# are killed at any point, races, and a few random histories. Over the stub of Amazon S3 Tables, a run is killed around the
# requests to the service: other points do not depend on it. Processes race in test_fencing.py.
iceberg: $(READY)
	@echo "Contract and chaos tests on Iceberg tables"
	@$(MEMORY) FORMAT=iceberg $(BIN)/pytest -q -n 2 --dist loadfile $(MOST_TESTS) \
		-k '$(OVER_ICEBERG)' \
		$(patsubst %,tests/contract/test_%.py,atomic exactly_once_downstream exactly_once_in_continuous_runs \
		graceful_stop isolation_of_failures one_winner replay) \
		$(patsubst %,tests/chaos/faults/test_%.py,crash_matrix crash_matrix_of_continuous_runs fencing \
		killed_operations paused_runs) tests/chaos/property/test_histories.py tests/chaos/test_races.py \
		$(addprefix tests/chaos/derived/,$(OF_DERIVED)) $(STORED) tests/unit/derive
	@$(MEMORY) FORMAT=s3tables $(BIN)/pytest -q -k 'create or request or passes' tests/chaos/faults/test_crash_matrix.py

MINUTES ?= 1

# Everything at once, killed again and again: `make soak MINUTES=30`.
soak: $(ARCHIVE)
	@$(BIN)/python tests/chaos/soak --minutes $(MINUTES)

# The crash matrix with 200 kills at random steps, and all kills of derivations; about fifteen minutes. FORMAT=iceberg runs
# them over Iceberg tables.
faults: $(ARCHIVE)
	@FAULTS=long $(BIN)/pytest tests/chaos/faults \
		$(patsubst %,tests/chaos/derived/test_%.py,crash_matrix killed_operations killed_redrives)

DERIVED_HISTORIES ?= 100

# The property of tests/chaos/property for 10,000 random histories, and those of derived tables for 100; hours.
# `make histories FORMAT=iceberg DERIVED_HISTORIES=20` runs them over Iceberg tables, and fewer of the latter.
histories: $(READY)
	@$(BIN)/pytest --hypothesis-profile=long tests/chaos/property/test_histories.py
	@DERIVED_HISTORIES=$(DERIVED_HISTORIES) $(BIN)/pytest $(patsubst %,tests/chaos/derived/test_%.py,histories divisions)

HANDOVERS ?= 10

# A stream changes hands between the Kinesis Client Library and tables, and back: `make kcl HANDOVERS=30`. Needs Maven and
# a JDK; about a minute for each handover.
kcl: $(READY)
	@HANDOVERS=$(HANDOVERS) $(BIN)/pytest -q -rP tests/chaos/kcl

MOST ?= 40

# Small mistakes in the modules that hold exactly once, and which of them no unit test notices: at most 40 a module. All
# of them with `make mutations MOST=1000`.
mutations: $(READY)
	@$(MEMORY) MOST=$(MOST) $(BIN)/python tests/mutations $(MODULES)

# The sensor, the daemon and its runs over 1,000 shards; about three minutes.
shards: $(ARCHIVE)
	@SHARDS=1000 $(BIN)/pytest -q tests/deployments/test_many_shards.py

# Run the benchmarks, alone on the machine. `make bench` takes about half an hour, measures the sections that
# have targets, and writes .local/bench/REPORT.md. `make bench FULL=1` takes an hour and a half, measures everything, and writes
# benchmarks/REPORT.md and its charts.
bench: $(READY)
	@$(BIN)/python -m benchmarks

lint: $(READY)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(READY)
	@$(BIN)/mypy

# The definitions and their YAML load as Dagster would load them.
check-defs: $(READY)
	@VIRTUAL_ENV=$(abspath .venv) $(BIN)/dg check yaml
	@VIRTUAL_ENV=$(abspath .venv) $(BIN)/dg check defs

clean:
	@[ ! -f $(ARCHIVE) ] || rm -f "$$(cat $(ARCHIVE))"
	rm -rf .venv .local

$(READY): pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11, 3.12 or 3.13 is needed, and none is on the PATH"; exit 1; fi
	@echo "Setting up .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv
	@.ci/install .venv -c constraints.txt -e '.[dev]'
	@touch $@

# Tests start Spark hundreds of times, which is faster with an archive of its classes.
$(ARCHIVE): $(READY)
	@echo "Creating an archive of Spark's classes"
	@$(BIN)/kinesis-assets spark --archive > $@.path
	@mv $@.path $@
