"""The sensor adds the events that runs could not report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from kinesis_assets.dagster import dagster_internals
from kinesis_assets.dagster.events import missing_events
from kinesis_assets.dagster.sensor import sensor
from kinesis_assets.errors import TableUnreachable
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.amendments import FORMAT, Amendment
from kinesis_assets.table.positions.commit_link import CommitLink
from support.daemon import FIRST, LAST, PARTITION, Daemon, Status
from support.shard_ids import A, B
from support.stream_names import raw_key

if TYPE_CHECKING:
    from kinesis_assets.table.positions.positions import StreamPositions

pytestmark = pytest.mark.slow


def fill(daemon: Daemon) -> Amendment:
    """Commit an amendment as a replay does."""
    positions = daemon.positions
    amendment = Amendment(
        format=FORMAT,
        commit_id=new_id(),
        previous=None,
        batch_id=new_id(),
        at=positions.identity.created,
        filled={A: positions.added[A]},
    )
    opened = daemon.opened
    opened.table.snapshot().commit([], identity=positions.identity, amendment=amendment)
    return amendment


def test_the_commit_of_a_run_that_died_before_its_event_is_reported_once(source, daemon):
    source.create(2)
    numbers = source.put(A, 3)
    daemon.tick()
    run = daemon.run({FIRST: A, LAST: B})
    result = daemon.commit([A, B], run.run_id)
    daemon.end(run, Status.FAILURE)

    daemon.tick()
    daemon.tick()

    outcome = result.outcomes[A]
    assert daemon.materializations() == [
        {
            "stream": source.name,
            "shard": A,
            "state": "committed",
            "from": "TRIM_HORIZON",
            "through": f"AFTER_SEQUENCE_NUMBER:{numbers[-1]}",
            "rows": 3,
            "bytes": 15,
            "first_sequence_number": numbers[0],
            "last_sequence_number": numbers[-1],
            "checksum": str(outcome.stats.checksum),
            "batch_id": str(result.batch_id),
        }
    ]
    assert daemon.instance.get_materialized_partitions(raw_key(source.name)) == {A}


@pytest.mark.parametrize("by", ["11111111-2222-3333-4444-555555555555", None], ids=["unknown", "unnamed"])
def test_a_commit_of_an_unknown_run_is_reported(source, daemon, by):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], by)
    daemon.tick()
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]


def test_commits_of_an_active_run_are_reported_after_its_end(source, daemon):
    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.tick()
    run = daemon.run({PARTITION: A})
    daemon.commit([A], run.run_id)
    daemon.commit([B], None)

    daemon.tick()
    assert [facts["shard"] for facts in daemon.materializations()] == [B]

    daemon.end(run, Status.CANCELED)
    daemon.tick()
    daemon.tick()
    assert [facts["shard"] for facts in daemon.materializations()] == [A, B]


def test_commits_that_a_run_has_reported_are_not_reported_again(source, daemon):
    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.tick()
    run = daemon.run({FIRST: A, LAST: B})
    result = daemon.commit([A, B], run.run_id)
    batch = {"batch_id": str(result.batch_id)}
    daemon.report_event(run, dg.AssetMaterialization(raw_key(source.name), partition=A, metadata=batch))
    # The shard failed after it had committed rows, and must be shown as failed.
    daemon.report_event(run, dg.AssetObservation(raw_key(source.name), partition=B, metadata=batch))
    daemon.end(run, Status.FAILURE)
    daemon.tick()
    assert [facts for facts in daemon.materializations() if "rows" in facts] == []


def test_of_a_run_that_died_while_it_reported_only_the_missing_shards_are_reported(source, daemon):
    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.tick()
    run = daemon.run({FIRST: A, LAST: B})
    result = daemon.commit([A, B], run.run_id)
    batch = {"batch_id": str(result.batch_id)}
    daemon.report_event(run, dg.AssetMaterialization(raw_key(source.name), partition=A, metadata=batch))
    daemon.end(run, Status.FAILURE)
    daemon.tick()
    assert [facts["shard"] for facts in daemon.materializations() if "rows" in facts] == [B]


def test_the_events_of_much_earlier_commits_of_the_run_are_not_read(source, daemon, monkeypatch):
    source.create(1)
    source.put(A, 3)
    daemon.tick()
    run = daemon.run({PARTITION: A})
    hour = new_id() // int(time.time()) * 3600  # ids begin with the time
    for _ in range(3):
        batch = {"batch_id": str(new_id() - hour)}
        daemon.report_event(run, dg.AssetMaterialization(raw_key(source.name), partition=A, metadata=batch))
    result = daemon.commit([A], run.run_id)
    daemon.end(run, Status.FAILURE)
    read, events_of = [], missing_events.events_of

    def noted(*arguments, **options):
        for event in events_of(*arguments, **options):
            read.append(event)
            yield event

    monkeypatch.setattr(missing_events, "events_of", noted)
    daemon.tick()
    assert daemon.materializations()[0]["batch_id"] == str(result.batch_id)
    assert len(read) == 1


def test_a_fresh_cursor_adds_nothing_that_was_added_before(source, daemon):
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    daemon.tick()
    daemon.cursor = None
    daemon.tick()
    assert len(daemon.materializations()) == 1


def test_a_tick_that_is_killed_before_its_cursor_is_kept_adds_no_event_twice(source, daemon, monkeypatch):
    def die(*_):
        raise SystemExit

    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.tick()
    daemon.commit([A, B], None)
    fill(daemon)
    with monkeypatch.context() as patch:
        patch.setattr(sensor, "run_requests", die)
        with pytest.raises(SystemExit):
            daemon.tick()
    assert [facts["shard"] for facts in daemon.materializations()] == [A, B, A]
    daemon.tick()
    assert [facts["shard"] for facts in daemon.materializations()] == [A, B, A]


def test_a_tick_that_is_killed_between_two_batches_of_events_adds_no_event_twice(source, daemon, monkeypatch):
    stores = []

    def die_after_the_first(batch):
        if stores:
            raise SystemExit
        stores.append(batch)
        store(batch)

    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.tick()
    daemon.commit([A, B], None)
    storage = daemon.instance.event_log_storage
    store = storage.store_event_batch
    with monkeypatch.context() as patch:
        patch.setattr(dagster_internals, "EVENTS_OF_A_BATCH", 1)
        patch.setattr(storage, "store_event_batch", die_after_the_first)
        with pytest.raises(SystemExit):
            daemon.tick()
    assert [facts["shard"] for facts in daemon.materializations()] == [A]
    daemon.tick()
    assert sorted(facts["shard"] for facts in daemon.materializations()) == [A, B]


def test_the_latest_event_is_that_of_the_stream_after_events_were_added(source, daemon):
    source.create(2)
    source.put(A, 3)
    source.put(B, 4)
    daemon.commit([A, B], None)
    daemon.tick()
    (record,) = daemon.instance.fetch_materializations(raw_key(source.name), limit=1).records
    facts = {name: value.value for name, value in record.asset_materialization.metadata.items()}
    assert record.partition_key is None
    assert (facts["open shards"], facts["shards behind"], facts["dagster/row_count"]) == (2, 0, 7)


def test_rows_that_a_replay_added_are_reported(source, daemon):
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    positions = daemon.positions
    amendment = fill(daemon)
    daemon.tick()
    daemon.tick()
    assert [(facts["batch_id"], facts["state"]) for facts in daemon.materializations()] == [
        (str(amendment.batch_id), "filled"),
        (str(positions.batch_id), "committed"),
    ]


def test_a_tick_without_a_new_commit_reads_no_positions_file(source, daemon, monkeypatch):
    source.create(1)
    source.put(A, 3)
    daemon.commit([A], None)
    daemon.tick()

    def read(link):
        raise AssertionError(link)

    monkeypatch.setattr(CommitLink, "of_positions", read)
    daemon.tick()


def test_an_unreadable_amendment_stops_neither_runs_nor_the_events_of_commits(source, daemon, caplog):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], None)
    amendment = fill(daemon)
    opened = daemon.opened
    path = Path(opened.table.uri, "_kinesis", "past", f"{amendment.commit_id}.json")
    content = path.read_bytes()
    path.write_text("{")
    source.put(A, 1)

    assert daemon.requested_ranges() == [(A,)]

    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(result.batch_id)]
    assert f"{amendment.commit_id}.json" in caplog.text
    path.write_bytes(content)
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [
        str(amendment.batch_id),
        str(result.batch_id),
    ]


def test_an_unreadable_commit_stops_no_run_and_is_reported_later(source, daemon, monkeypatch):
    source.create(1)
    source.put(A, 3)
    result = daemon.commit([A], None)
    amendment = fill(daemon)
    source.put(A, 1)

    def refuse(positions: StreamPositions) -> CommitLink:
        raise TableUnreachable("table", f"{positions.commit_id} cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(CommitLink, "of_positions", refuse)
        assert daemon.requested_ranges() == [(A,)]
    assert [facts["batch_id"] for facts in daemon.materializations()] == [str(amendment.batch_id)]
    daemon.tick()
    assert [facts["batch_id"] for facts in daemon.materializations()] == [
        str(result.batch_id),
        str(amendment.batch_id),
    ]
