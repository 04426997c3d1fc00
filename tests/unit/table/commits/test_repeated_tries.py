"""How often the step of a commit is repeated, after which waits, and with which error that ends."""

from __future__ import annotations

import errno

import pytest

from kinesis_assets.errors import (
    CommitFailed,
    CommitOvertaken,
    CommitUnknown,
    TableNotWritable,
    TableUnreachable,
    TableUnsuitable,
)
from kinesis_assets.retry import Backoff
from kinesis_assets.table.commits.commit_loop import commit_until_known
from kinesis_assets.table.policy import CommitRetries, TablePolicy
from kinesis_assets.table.raw_table import PositionedTable
from support.virtual_time import VirtualTime

RETRIES = CommitRetries(
    tries=3, refusals=2, seconds=60.0, backoff=Backoff(1.0, 10.0), overtaken=Backoff(5, 5)
)
REFUSED = PermissionError(errno.EACCES, "Permission denied")
FAILED = OSError("connection reset")
OVERTAKEN = CommitOvertaken("/lake", "another commit was first")


@pytest.fixture
def clock():
    return VirtualTime()


@pytest.fixture
def execute(tmp_path, clock):
    """Execute a step: each of the results is raised if it is an error, or else returned."""
    table = PositionedTable(str(tmp_path), TablePolicy(commits=RETRIES, clock=clock))

    def execute(*results):
        left, may_commit = list(results), []

        def step(**asked):
            may_commit.append(asked["may_commit"])
            result = left.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        try:
            return commit_until_known(table, step), may_commit
        finally:
            assert not left

    return execute


def test_failed_tries_are_repeated_after_growing_waits_and_the_last_step_only_reads(execute, clock):
    assert execute(FAILED, FAILED, FAILED, "found") == ("found", [True, True, True, False])
    assert clock.waits == [1.0, 2.0, 4.0]


def test_tries_that_others_overtake_do_not_count_and_wait_equally_long(execute, clock):
    results = [OVERTAKEN, FAILED, OVERTAKEN, OVERTAKEN, None, "done"]
    assert execute(*results) == ("done", [True] * 6)
    assert clock.waits == [5, 1.0, 5, 5]


def test_the_error_says_how_often_the_commit_failed(execute):
    with pytest.raises(CommitFailed, match=r"failed 5 times, the last time with: connection reset\. Nothing"):
        execute(OVERTAKEN, FAILED, OVERTAKEN, FAILED, FAILED, None)


def test_no_try_is_made_after_the_time_is_over(execute, clock):
    with pytest.raises(CommitFailed, match="failed 13 times"):
        execute(*[OVERTAKEN] * 13, None)
    assert clock.now == 1065


def test_refusals_in_a_row_are_the_error(execute):
    with pytest.raises(TableNotWritable, match=r"Nothing was committed\. Allow this process"):
        execute(REFUSED, REFUSED, None)


@pytest.mark.parametrize("between", [OVERTAKEN, FAILED])
def test_refusals_apart_from_each_other_are_repeated(execute, between):
    assert execute(REFUSED, between, REFUSED, "done")[0] == "done"


def test_after_refusals_a_commit_of_an_earlier_try_is_found(execute):
    assert execute(REFUSED, REFUSED, "found") == ("found", [True, True, False])


def test_a_last_step_that_cannot_read_the_table_leaves_it_unknown(execute):
    unreachable = TableUnreachable("/lake", "its log cannot be read")
    with pytest.raises(CommitUnknown, match=r"whether the commit succeeded.*its log cannot be read"):
        execute(FAILED, unreachable, FAILED, unreachable)


def test_an_error_that_no_step_can_resolve_is_raised_at_once(execute, clock):
    with pytest.raises(TableUnsuitable):
        execute(TableUnsuitable("/lake", "is a file"))
    assert clock.waits == []
