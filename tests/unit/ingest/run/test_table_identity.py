"""A table belongs to one stream and has the rows that its positions have passed: else nothing is read."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import msgspec
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.errors import PositionsMissing, TableOfAnotherStream, TableRewritten
from kinesis_assets.ingest.plan import OnRecreated, current_shards
from kinesis_assets.kinesis.position import Position
from kinesis_assets.replay.run import replay
from kinesis_assets.replay.task import fill_group
from kinesis_assets.replay.window import ReplayWindow
from kinesis_assets.table.commit import freeze
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.table import PositionedTable


@pytest.fixture
def of_another_account(bench):
    """The stream, and a table of the stream of that name in another account: its ARN."""
    bench.create()
    bench.put(1)
    listing = bench.client.listing()
    identity = listing.summary.identity
    other = msgspec.structs.replace(identity, arn=identity.arn.replace("000000000000", "111111111111"))
    listing = replace(listing, summary=replace(listing.summary, identity=other))
    beginning = Position.parse("TRIM_HORIZON")
    freeze(bench.table, listing, {shard.shard_id: beginning for shard in listing.shards})
    return other.arn


def refused(bench, other, act) -> None:
    before, called = bench.version, bench.client.describe().identity.arn
    with pytest.raises(TableOfAnotherStream) as caught:
        act()
    assert other in str(caught.value)
    assert called in str(caught.value)
    assert bench.version == before


@pytest.mark.parametrize("on_recreated", get_args(OnRecreated))
def test_a_run_for_the_stream_of_another_account_is_refused(bench, of_another_account, on_recreated, faults):
    refused(bench, of_another_account, lambda: bench.plan(on_recreated=on_recreated))
    assert faults.count("GetRecords") == 0
    assert bench.items == []


def test_a_sensor_for_the_stream_of_another_account_is_refused(bench, of_another_account):
    refused(bench, of_another_account, lambda: current_shards(bench.client.listing(), bench.table))


def test_a_replay_for_the_stream_of_another_account_is_refused(bench, of_another_account):
    def read_again():
        replay(fill_group, bench.client, bench.table, ReplayWindow.of("TRIM_HORIZON"))

    refused(bench, of_another_account, read_again)


def test_a_table_of_an_older_version_goes_on_and_names_its_stream_from_its_next_run_on(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.table.create_if_missing()
    # An older version made no claim.
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


def test_a_table_that_is_restored_while_a_run_reads_takes_none_of_its_rows(bench):
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
