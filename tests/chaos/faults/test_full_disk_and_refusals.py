"""The disk is full or refuses while a run writes: it fails or goes on, and the next one mends all.

An error of a chosen number is raised where the package calls the outside (a stand-in: the disk itself has
room); that a file must not grow is the kernel's own refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.faults.site.fault_points import Fault

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
def test_disk_full_while_landing_commits_nothing(bench: FaultBench, point: str) -> None:
    bench.create(2)
    bench.put_many(60)
    failed = bench.meet(Fault("", point, action="ENOSPC"))
    assert failed.code == 1
    assert "No space left on device" in failed.err
    assert bench.stored == []
    bench.assert_next_run_mends_all()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("point", WHILE_COMMITTING)
def test_one_refusal_while_committing_is_tried_again(bench: FaultBench, point: str, moment: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    nth = 2 if point == "open table" else 1  # the plan's own look is not tried again
    told = bench.meet(Fault("", point, moment, nth, "EIO")).told
    assert sum(fact["rows"] for fact in told["shards"].values()) == 60
    bench.assert_exactly_once()
    bench.assert_next_run_mends_all()


@pytest.mark.parametrize("point", ["open positions file", "commit request"])
def test_a_commit_that_never_finds_room_fails_and_says_that_nothing_is_lost(
    bench: FaultBench, point: str
) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    failed = bench.meet(Fault("", point, action="ENOSPC", always=True))
    assert failed.code == 1
    assert "CommitFailed" in failed.err
    assert "no data is lost; run again" in failed.err
    assert bench.stored == []
    bench.assert_next_run_mends_all()


@pytest.mark.parametrize("action", ["EACCES", "EROFS"])
@pytest.mark.parametrize("point", ["open positions file", "commit request"])
def test_a_commit_that_may_not_write_fails_after_two_tries(
    bench: FaultBench, point: str, action: str
) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    failed = bench.meet(Fault("", point, action=action, always=True))
    assert failed.code == 1
    assert failed.err.startswith("TableNotWritable")
    assert [passed for _, *passed in failed.fault.passed].count(["before", point]) == 2
    assert bench.stored == []
    bench.assert_next_run_mends_all()


@pytest.mark.parametrize("point", ["open positions file", "commit request"])
def test_one_refused_permission_is_tried_again(bench: FaultBench, point: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    told = bench.meet(Fault("", point, action="EACCES")).told
    assert sum(fact["rows"] for fact in told["shards"].values()) == 60
    bench.assert_exactly_once()


@pytest.mark.parametrize("action", ["EIO", "EACCES"])
def test_a_commit_whose_answers_are_all_lost_is_seen_as_landed(bench: FaultBench, action: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(60)
    told = bench.meet(Fault("", "commit request", "after", action=action, always=True)).told
    assert {fact["state"] for fact in told["shards"].values()} == {"committed"}
    bench.assert_exactly_once()


def test_a_data_file_that_the_system_lets_grow_no_further_commits_nothing(bench: FaultBench) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(2_000)
    failed = bench.begin(Fault(""), file_bytes=16 << 10).wait()
    assert failed.code == 1
    assert "File too large" in failed.err
    assert bench.stored == []
    bench.assert_next_run_mends_all()
