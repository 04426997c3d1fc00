"""A run that is launched over a paused stream fails in Dagster with the reason, and changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kinesis_assets.table.run_files.pause import pause, resume
from support.dagster_runs import execute, failure_message, rows_in_table
from support.mentions import assert_mentions
from support.stream_names import raw_key

pytestmark = pytest.mark.usefixtures("spark")

A = "shardId-000000000000"


def test_the_failure_of_a_run_that_is_launched_names_the_reason_and_nothing_changes(
    project, instance, source
):
    source.create(1)
    source.put(A, 2)
    execute(project, instance, A)
    source.put(A, 3)
    with project.open_stream() as opened:
        uri = opened.table.uri
        pause(opened.table, reason="schema change", by="ann", at=datetime(2026, 1, 31, 12, tzinfo=UTC))
    before = sorted(Path(uri).rglob("*"))

    result = execute(project, instance, A)

    assert not result.success
    assert_mentions(failure_message(instance, result), "ann", "2026-01-31T12:00:00Z", "schema change")
    assert sorted(Path(uri).rglob("*")) == before
    with project.open_stream() as opened:
        resume(opened.table)
    assert execute(project, instance, A).success
    assert len(rows_in_table(project)) == 5
    assert instance.get_materialized_partitions(raw_key(project.stream)) == {A}
