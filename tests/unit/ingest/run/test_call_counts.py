"""What a run asks for and makes, as counts that no machine changes. Each guards against its growth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from kinesis_assets.table.table import PositionedTable
from kinesis_assets.testing import LocalKinesis
from support.fixtures.stream import boto3_of, settings_of

OF_A_RUN = {"DescribeStreamSummary": 2, "ListShards": 1}


def calls(bench, faults):
    """How many calls a run makes, by operation."""
    shard_ids = bench.shard_ids
    faults.clear()
    bench.run(shard_ids)
    operations = [call.operation for call in faults.calls]
    return {operation: operations.count(operation) for operation in operations}


def put(bench, records, data):
    """Put so many records into every shard."""
    for shard_id in bench.shard_ids:
        bench.put(*[data] * records, shard_id=shard_id)


@pytest.mark.parametrize("shards", [4, 32])
def test_an_idle_shard_costs_two_calls(bench, faults, shards):
    bench.create(shards)
    bench.run()  # freezes the stream's start
    assert calls(bench, faults) == OF_A_RUN | {"GetShardIterator": shards, "GetRecords": shards}


def test_a_run_that_finds_nothing_commits_nothing(bench):
    bench.create(2)
    bench.run()
    version = bench.version
    bench.run()
    assert bench.version == version


def test_a_backlog_costs_a_call_for_each_page(bench, faults):
    bench.create(1)
    put(bench, 25_000, b"data")
    made = calls(bench, faults)
    assert (made["GetRecords"], made["GetShardIterator"]) == (3, 1)


@pytest.mark.parametrize("shards", [4, 32])
def test_one_task_makes_one_file_and_a_run_one_commit(bench, shards):
    bench.create(shards)
    bench.run()
    version = bench.version
    put(bench, 10, b"data")
    bench.run()
    assert bench.version == version + 1
    assert len(DeltaTable(bench.table.uri).file_uris()) == 1


def test_a_run_opens_the_table_twice(bench, monkeypatch):
    bench.create(2)
    bench.run()
    put(bench, 10, b"data")
    opened = []
    look = PositionedTable.snapshot

    def snapshot(table):
        opened.append(table)
        return look(table)

    monkeypatch.setattr(PositionedTable, "snapshot", snapshot)
    bench.run()
    assert len(opened) == 2  # for its plan, and for its commit


def test_a_byte_that_lands_costs_less_than_two_on_the_wire(bench):
    answered = []

    def counting(app):
        async def counted(scope, receive, send):
            async def count(message):
                answered.append(len(message.get("body", b"")))
                await send(message)

            await app(scope, receive, count)

        return counted

    with LocalKinesis(wrap=counting) as local:
        bench = replace(bench, kinesis=boto3_of(local), settings=settings_of(local))
        bench.create(1)
        put(bench, 5_000, bytes(1_000))
        shard_ids = bench.shard_ids
        answered.clear()
        result = bench.run(shard_ids)
    landed = sum(outcome.stats.bytes for outcome in result.outcomes.values())
    assert landed == 5_000_000
    assert sum(answered) / landed < 1.55  # base64 alone takes 1.33
