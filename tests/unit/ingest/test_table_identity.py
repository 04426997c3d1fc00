"""A table that belongs to another stream, or lacks the rows of its positions, is refused before reading."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import msgspec
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.errors import PositionsMissing, TableOfAnotherStream, TableRewritten
from kinesis_assets.ingest.plan import OnRecreated, current_shards
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.replay.plan import ReplayWindow
from kinesis_assets.operations.replay.run import replay
from kinesis_assets.operations.replay.task import fill_group
from kinesis_assets.table.commits.commit import freeze
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.snapshot import TableSnapshot


@pytest.fixture
def other_arn(bench):
    """Create the stream and a table of a stream of the same name in another account. Return that ARN."""
    bench.create()
    bench.put(1)
    listing = bench.client.listing()
    identity = listing.summary.identity
    other = msgspec.structs.replace(identity, arn=identity.arn.replace("000000000000", "111111111111"))
    listing = replace(listing, summary=replace(listing.summary, identity=other))
    beginning = Position.parse("TRIM_HORIZON")
    freeze(bench.table, listing, {shard.shard_id: beginning for shard in listing.shards})
    return other.arn


def assert_refused(bench, other, act) -> None:
    before, called = bench.version, bench.client.describe().identity.arn
    with pytest.raises(TableOfAnotherStream) as caught:
        act()
    assert other in str(caught.value)
    assert called in str(caught.value)
    assert bench.version == before


@pytest.mark.parametrize("on_recreated", get_args(OnRecreated))
def test_a_run_for_a_stream_of_another_account_is_refused(bench, other_arn, on_recreated, faults):
    assert_refused(bench, other_arn, lambda: bench.plan(on_recreated=on_recreated))
    assert faults.count("GetRecords") == 0
    assert bench.items == []


def test_a_sensor_for_a_stream_of_another_account_is_refused(bench, other_arn):
    assert_refused(bench, other_arn, lambda: current_shards(bench.client.listing(), bench.table))


def test_a_replay_for_a_stream_of_another_account_is_refused(bench, other_arn):
    def read_again():
        replay(fill_group, bench.client, bench.table, ReplayWindow.of("TRIM_HORIZON"))

    assert_refused(bench, other_arn, read_again)


def test_a_table_of_an_older_version_records_its_owner_in_the_next_run(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.table.create_if_missing()
    # An older version did not record an owner.
    with monkeypatch.context() as older:
        older.setattr(TableSnapshot, "owner", "")
        older.setattr(TableSnapshot, "owners", frozenset())
        bench.run()
    bench.put(2)
    assert OWNER not in DeltaTable(bench.table.uri).metadata().configuration
    bench.run()
    assert bench.items == [1, 2]
    owner = DeltaTable(bench.table.uri).metadata().configuration[OWNER]
    assert owner == bench.client.describe().identity.arn


def test_a_copy_of_the_rows_is_refused_before_anything_is_read(bench, faults):
    bench.create()
    bench.put(1)
    bench.run()
    uri = f"{bench.table.uri}-copy"
    write_deltalake(uri, DeltaTable(bench.table.uri).to_pyarrow_table(), partition_by=["arrival_date"])
    bench.table = PositionedTable(uri)
    faults.clear()
    with pytest.raises(PositionsMissing):
        bench.plan()
    assert faults.count("GetRecords") == 0
    assert bench.version == 0


def test_a_restored_table_is_refused_before_anything_is_read(bench, faults):
    bench.create()
    bench.put(1)
    bench.run()
    before = bench.version
    bench.put(2)
    bench.run()
    DeltaTable(bench.table.uri).restore(before)
    bench.put(3)
    restored, calls = bench.version, faults.count("GetRecords")
    with pytest.raises(TableRewritten, match=f"version {restored} .RESTORE, "):
        bench.plan()
    assert faults.count("GetRecords") == calls
    assert (bench.version, bench.items) == (restored, [1])


def test_a_run_commits_nothing_if_the_table_is_restored_while_it_reads(bench):
    bench.create()
    bench.put(1)
    bench.run()
    before = bench.version
    bench.put(2)
    bench.run()
    bench.put(3)
    plan = bench.plan()
    DeltaTable(bench.table.uri).restore(before)
    with pytest.raises(TableRewritten):
        bench.execute(plan)
    assert bench.items == [1]
