"""Targets of the benchmarks that do not depend on the machine, because they are counts and sizes.

That of the requests to S3 is in tests/docs/test_request_counts.py, and that of competing runs in
tests/chaos/test_contention.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.sections import chain, compare, memory
from benchmarks.sections.scale import backlog, deployed_run, idle_shards
from benchmarks.servers.replay_streams import StreamSpec
from support.skipping import give_up

if TYPE_CHECKING:
    from benchmarks.harness.section import Target
    from benchmarks.servers.replay_client import ReplayServer


pytestmark = pytest.mark.thorough


def assert_met(target: Target) -> None:
    assert target.met, f"{target.goal.description}: {target.measured}"


def test_calls_of_a_run_over_idle_shards(server: ReplayServer) -> None:
    _, calls = idle_shards.targets(idle_shards.measure(server, rounds=1))
    assert_met(calls)


def test_commits_and_files_of_a_run_over_many_shards(server: ReplayServer) -> None:
    (run,) = backlog.measure(server, StreamSpec("many", shards=100, pages=1, page_records=10), rounds=1)
    assert (run.records, run.commits) == (1_000, 1)
    assert max(run.files.values()) <= backlog.MAX_FILES_PER_DATE


def test_runs_that_a_deployment_requests_without_new_records(server: ReplayServer) -> None:
    run = deployed_run.measure(server, StreamSpec("few", shards=8, pages=1, page_records=10))
    if run is None:
        give_up("PostgreSQL is not installed")
    assert run.idle_runs == 0


def test_positions_files_of_three_days() -> None:
    (target,) = chain.section(full=False).targets
    assert_met(target)


def test_peak_memory_of_a_task() -> None:
    # The largest records in all shards; and, in two, the largest aggregates, which take the most time.
    largest = [memory.CASES[0], replace(memory.CASES[-1], shards=2)]
    (target,) = memory.describe([memory.measure(largest)]).targets
    assert_met(target)


def test_differences_that_a_comparison_finds(server: ReplayServer) -> None:
    few = StreamSpec("few", shards=8, pages=2, page_records=100)
    assert_met(compare.target(compare.measure(server, few)))


def test_peak_memory_of_a_step_with_documents_of_10_mib() -> None:
    half = replace(memory.DOCUMENTS[0], count=32)  # which need more memory than those that do not compress
    (target,) = memory.describe_steps(memory.measure_steps([half])).targets
    assert_met(target)
