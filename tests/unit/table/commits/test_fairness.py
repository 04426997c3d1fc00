"""Runs that commit to different shards of a table at once, in virtual time."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace

import pytest

from kinesis_assets.errors import CommitOvertaken
from kinesis_assets.table.commits.commit_loop import commit_until_known
from kinesis_assets.table.policy import TablePolicy
from support.virtual_time import SharedTime

RUNS = 10
COMMITS = 1000


def commits_of_each(request_seconds: float) -> Counter[int]:
    """Return how often each of ten runs commits, if all of them commit again and again.

    To write its data file, to read the table and to commit takes a run some requests each. A commit fails if
    another one succeeded since the table was read.
    """
    clock = SharedTime()
    table = SimpleNamespace(uri="table", policy=TablePolicy(), clock=clock)
    made: Counter[int] = Counter()

    def step(*, may_commit: bool) -> bool:
        assert may_commit
        clock.sleep(request_seconds)
        read = made.total()
        clock.sleep(2 * request_seconds)
        if made.total() != read:
            raise CommitOvertaken(table.uri, "another commit was first")
        return True

    def commit_again_and_again(run: int) -> None:
        while made.total() < COMMITS:
            clock.sleep(2 * request_seconds)
            commit_until_known(table, step)
            made[run] += 1

    clock.run(*(lambda run=run: commit_again_and_again(run) for run in range(RUNS)))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("request_seconds", [0.02, 0.1])
def test_each_of_ten_runs_makes_at_least_half_of_its_share_of_the_commits(request_seconds):
    random.seed(1)  # the waits are random
    made = commits_of_each(request_seconds)
    assert made.total() >= COMMITS
    assert min(made[run] for run in range(RUNS)) >= COMMITS / RUNS / 2, made
