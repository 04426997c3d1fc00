"""Targets of the benchmarks that do not depend on the machine, because they are counts and sizes.

That of the requests to S3 is in tests/docs/test_request_counts.py, and that of competing runs in
tests/chaos/test_contention.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.sections import chain, memory
from benchmarks.sections.scale import idle_shards
from benchmarks.servers.replay_client import replay_server

if TYPE_CHECKING:
    from benchmarks.harness.section import Target


def assert_met(target: Target) -> None:
    assert target.met, f"{target.goal.description}: {target.measured}"


def test_calls_of_a_run_over_idle_shards() -> None:
    with replay_server() as server:
        _, calls = idle_shards.targets(idle_shards.measure(server, rounds=1))
    assert_met(calls)


def test_positions_files_of_three_days() -> None:
    (target,) = chain.section(full=False).targets
    assert_met(target)


def test_peak_memory_of_a_task() -> None:
    largest = [memory.CASES[0], memory.CASES[-1]]  # the largest records, and the largest aggregates
    (target,) = memory.describe([memory.measure(largest)]).targets
    assert_met(target)
