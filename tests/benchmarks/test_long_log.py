"""The part of the suite that measures a long log: what it has aged, and what it takes out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from benchmarks import commits


@pytest.fixture
def parts(monkeypatch):
    """Of 40 commits, 4 a day, with maintenance after each day."""
    monkeypatch.setattr(commits, "A_DAY", 4)
    monkeypatch.setattr(commits, "PACE", timedelta(hours=6))
    found = []
    commits.measure((40,), rounds=1, parts=found)
    return found


def test_entries_are_dated_so_that_the_logs_retention_takes_the_old_ones(parts):
    assert parts[0].entries < 20


def test_each_part_lacks_what_it_says_and_nothing_else(parts):
    everything, no_entries, no_tombstones, neither = parts
    assert everything.entries == no_tombstones.entries > no_entries.entries == neither.entries
    assert (
        everything.tombstones == no_entries.tombstones > no_tombstones.tombstones == neither.tombstones == 0
    )
