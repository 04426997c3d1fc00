"""The part of the suite that measures a long log: what it has aged, what it takes out, and where it is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from benchmarks.data import long_log
from benchmarks.sections import commits

FEW, MANY = 8, 40


@pytest.fixture
def logs(monkeypatch, tmp_path):
    """Of commits that are made 4 a day, with maintenance after each day."""
    monkeypatch.setattr(commits, "A_DAY", 4)
    monkeypatch.setattr(long_log, "PACE", timedelta(hours=6))
    commits.measure((FEW, MANY), rounds=1, copies=tmp_path)
    return commits.compare(tmp_path, FEW, MANY, rounds=1)


def test_what_is_in_the_log_is_dated_so_that_the_logs_retention_takes_what_is_old(logs):
    few, many, *_ = logs
    assert 4 <= many.entries <= few.entries + 4
    assert 4 <= many.tombstones <= few.tombstones + 4


def test_each_log_lacks_what_it_says_and_nothing_else(logs):
    _, everything, _, _, no_entries, no_tombstones, neither = logs
    assert everything.entries == no_tombstones.entries > no_entries.entries == neither.entries
    assert (
        everything.tombstones == no_entries.tombstones > no_tombstones.tombstones == neither.tombstones == 0
    )


def test_the_same_logs_are_measured_in_a_bucket(logs):
    few, many, few_far, many_far, *_ = logs
    for here, there in ((few, few_far), (many, many_far)):
        assert (here.entries, here.tombstones) == (there.entries, there.tombstones)
        assert there.where == "a bucket"
        assert there.row.cpu > 0
