"""Findings about Dagster's events, and the events that the doctor adds."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets.dagster.event_audit import EventAudit
from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.events.missing_events import materializations_since
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.operations.doctor.row_scan import Scan
from kinesis_assets.table.commit_ids import new_id
from support.mentions import assert_mentions
from support.stream_names import raw_key

pytestmark = pytest.mark.slow

A, B = (f"shardId-{number:012d}" for number in range(2))


def materialized(bench, instance):
    """Return the batch and shard of each materialization."""
    events = materializations_since(instance, raw_key(bench.stream), 0.0)
    return sorted((exact_values(event)["batch_id"], str(event.partition)) for event in events)


def report(bench, instance, batch_id, rows):
    """Add an event about rows of the first shard."""
    metadata = {"batch_id": str(batch_id), "rows": rows}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(raw_key(bench.stream), partition=A, metadata=metadata)
    )


def test_without_an_instance_events_are_not_checked(ingested):
    assert ingested.levels()["events"] == {"info"}


def test_missing_events_are_added_once(bench, instance):
    bench.create(2)
    bench.put(1)
    bench.put(2, part=0.5)
    batch = str(bench.run(by="no such run").batch_id)
    assert bench.problems(instance=instance, add_events=True) == []
    bench.findings(instance=instance, add_events=True)
    assert materialized(bench, instance) == [(batch, A), (batch, B)]
    assert bench.levels(instance=instance)["events"] == {"ok"}


def test_missing_events_of_many_commits_are_stored_at_once(bench, instance, monkeypatch):
    store, batches = instance.event_log_storage.store_event_batch, []

    def count(entries):
        batches.append(sorted(entry.dagster_event.partition for entry in entries))
        store(entries)

    bench.create(2)
    for _ in range(3):
        bench.put(1)
        bench.put(2, part=0.5)
        bench.run(by="no such run")
    monkeypatch.setattr(instance.event_log_storage, "store_event_batch", count)
    assert bench.problems(instance=instance, add_events=True) == []
    assert batches == [[A] * 3 + [B] * 3]


def test_missing_events_are_a_problem_and_are_not_added_by_default(bench, instance):
    bench.create()
    bench.put(1, 2, 3)
    bench.run()
    ((check, shard, sentence),) = bench.problems(instance=instance)
    assert (check, shard) == ("events", A)
    assert "3 rows" in sentence
    assert materialized(bench, instance) == []


def test_missing_events_of_an_unfinished_run_are_not_added(bench, instance):
    @dg.job
    def job() -> None: ...

    bench.create()
    bench.put(1)
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    bench.run(by=run.run_id)
    assert bench.levels(instance=instance, add_events=True)["events"] == {"info"}
    assert materialized(bench, instance) == []


def test_an_event_without_a_commit_is_a_problem(ingested, instance):
    ingested.findings(instance=instance, add_events=True)
    batch_id = new_id()
    for rows in (7, 0):  # an event without rows does not refer to a commit
        report(ingested, instance, batch_id, rows)
    ((check, shard, sentence),) = ingested.problems(instance=instance)
    assert (check, shard) == ("events", A)
    assert sentence.startswith(f"batch {batch_id}: ")
    assert "7 rows" in sentence


def test_an_event_with_another_number_of_rows_than_its_commit_is_a_problem(ingested, instance):
    ingested.findings(instance=instance, add_events=True)
    report(ingested, instance, ingested.positions.batch_id, 99)
    ((check, shard, sentence),) = ingested.problems(instance=instance)
    assert (check, shard) == ("events", A)
    assert_mentions(sentence, "99 rows", "added 3")


def test_events_of_commits_beyond_the_limit_are_not_added(ingested, instance):
    snapshot = ingested.table.snapshot()
    older = snapshot.table.chain.positions_at(
        snapshot.table.chain.positions_at(ingested.positions.previous).previous
    )
    ingested.amend(filled={A: ingested.positions.added[A]})
    audit = EventAudit(instance, StreamNames(ingested.stream), ingested.table, add_events=True, max_commits=2)
    for _ in range(2):
        assert ingested.levels(audit_events=audit)["events"] == {"info"}
    (sentence,) = ingested.sentences("events", audit_events=audit)
    assert_mentions(sentence, "1 commits", f"batch {older.batch_id}")
    assert len(materialized(ingested, instance)) == 5
    assert ingested.problems(audit_events=audit) == []


def test_a_replay_during_the_examination_is_not_a_problem(ingested, instance):
    ingested.findings(instance=instance, add_events=True)

    def replay_meanwhile(_):
        for _ in range(2):
            batch_id = new_id()
            ingested.amend(batch_id=batch_id, filled={A: ingested.positions.added[A]})
            report(ingested, instance, batch_id, 3)
        return Scan({}, {})

    assert ingested.levels(instance=instance, read_rows=replay_meanwhile)["events"] == {"ok"}
