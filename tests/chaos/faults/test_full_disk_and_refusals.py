"""The disk is full or refuses a call while a run writes, and the next run leaves each record exactly once.

A simulated error with a chosen number is raised where the package calls the outside. The kernel enforces the
limit of a file's size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.faults.site.fault_points import Fault
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from chaos.faults.bench import FaultBench

WHILE_LANDING = ["open data file", "write data file", "close data file"]
WHILE_COMMITTING = [
    "open table",
    "verify data file",
    "open positions file",
    "write positions",
    "commit request",
]


@pytest.mark.parametrize("point", WHILE_LANDING)
def test_a_full_disk_during_the_reads_commits_nothing(bench: FaultBench, point: str) -> None:
    bench.create(2)
    bench.put_many(60)
    failed = bench.run_with_fault(Fault("", point, action="ENOSPC"))
    assert failed.code == 1
    assert "No space left on device" in failed.err
    assert bench.stored == []
    bench.assert_next_run_recovers()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("point", WHILE_COMMITTING)
def test_one_refused_call_of_a_commit_is_retried(bench: FaultBench, point: str, moment: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    nth = 2 if point == "open table" else 1  # the read by the plan is not retried
    report = bench.run_with_fault(Fault("", point, moment, nth, "EIO")).report
    assert sum(fact["rows"] for fact in report["shards"].values()) == 60
    bench.assert_exactly_once()
    bench.assert_next_run_recovers()


@pytest.mark.parametrize("point", ["open positions file", "commit request"])
def test_a_commit_on_a_full_disk_fails_and_reports_that_nothing_is_lost(
    bench: FaultBench, point: str
) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    failed = bench.run_with_fault(Fault("", point, action="ENOSPC", always=True))
    assert failed.code == 1
    assert_mentions(failed.err, "CommitFailed", "run again")
    assert bench.stored == []
    bench.assert_next_run_recovers()


@pytest.mark.parametrize("action", ["EACCES", "EROFS"])
@pytest.mark.parametrize("point", ["open positions file", "commit request"])
def test_a_commit_without_permission_fails_after_two_attempts(
    bench: FaultBench, point: str, action: str
) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    failed = bench.run_with_fault(Fault("", point, action=action, always=True))
    assert failed.code == 1
    assert failed.err.startswith("TableNotWritable")
    assert [passed for _, *passed in failed.fault.passed].count(["before", point]) == 2
    assert bench.stored == []
    bench.assert_next_run_recovers()


@pytest.mark.parametrize("point", ["open positions file", "commit request"])
def test_one_denied_call_is_retried(bench: FaultBench, point: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    report = bench.run_with_fault(Fault("", point, action="EACCES")).report
    assert sum(fact["rows"] for fact in report["shards"].values()) == 60
    bench.assert_exactly_once()


@pytest.mark.parametrize("action", ["EIO", "EACCES"])
def test_a_commit_whose_responses_are_all_lost_is_recognized(bench: FaultBench, action: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    report = bench.run_with_fault(Fault("", "commit request", "after", action=action, always=True)).report
    assert {fact["state"] for fact in report["shards"].values()} == {"committed"}
    bench.assert_exactly_once()


def test_a_data_file_that_exceeds_the_size_limit_commits_nothing(bench: FaultBench) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(2_000)
    failed = bench.start(Fault(""), file_bytes=16 << 10).wait()
    assert failed.code == 1
    assert "File too large" in failed.err
    assert bench.stored == []
    bench.assert_next_run_recovers()
