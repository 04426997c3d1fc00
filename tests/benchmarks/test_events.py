"""Dagster's events are all there, wherever they are kept and however they are stored."""

from __future__ import annotations

import os

import pytest

from benchmarks.sections import events
from benchmarks.sections.events import BATCHES, SIZE, measure


def test_without_postgresql_only_sqlite_is_measured_and_the_environment_stays(monkeypatch):
    def missing():
        raise FileNotFoundError

    monkeypatch.setattr(events, "postgresql", missing)
    monkeypatch.setenv(SIZE, "7")
    runs = measure(5, rounds=1)
    assert runs.keys() == {("SQLite", size) for size in BATCHES}
    assert os.environ[SIZE] == "7"


def test_postgresql_stores_a_runs_events_in_fewer_transactions_where_a_batch_is_allowed():
    try:
        with events.postgresql() as (url, pid):
            assert url.startswith("postgresql://dagster:")
            os.kill(pid, 0)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    (alone,), (batched,) = (
        usages for (name, _), usages in measure(40, rounds=1).items() if name == "PostgreSQL"
    )
    assert batched.cpu < alone.cpu
