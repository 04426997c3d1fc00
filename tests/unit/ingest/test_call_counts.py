"""The numbers of calls, files, commits and bytes of a run, which are the same on every machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from docs.scale_table import values
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.testing import LocalKinesis
from support.continuous import RunHarness
from support.fixtures.stream import boto3_of, settings_of

pytestmark = pytest.mark.slow

OF_ITERATIONS = {"DescribeStreamSummary", "GetShardIterator", "GetRecords"}
"""The operations of an iteration; shards are listed every 10 seconds instead."""

CALLS_PER_RUN = {"DescribeStreamSummary": 2, "ListShards": 1}


def calls(bench, faults):
    """Run once, and return the number of calls by operation."""
    shard_ids = bench.shard_ids
    faults.clear()
    bench.run(shard_ids)
    operations = [call.operation for call in faults.calls]
    return {operation: operations.count(operation) for operation in operations}


def put(bench, records, data):
    """Put a number of records into every shard."""
    for shard_id in bench.shard_ids:
        bench.put(*[data] * records, shard_id=shard_id)


@pytest.mark.parametrize("shards", [4, 32])
def test_an_idle_shard_takes_two_calls(bench, faults, shards):
    bench.create(shards)
    bench.run()  # stores the start positions
    assert calls(bench, faults) == CALLS_PER_RUN | {"GetShardIterator": shards, "GetRecords": shards}


def test_a_run_without_new_records_commits_nothing(bench):
    bench.create(2)
    bench.run()
    version = bench.version
    bench.run()
    assert bench.version == version


@pytest.mark.slow
@pytest.mark.parametrize("shards", [2, 12])
def test_a_commit_of_a_continuous_run_makes_the_calls_that_the_page_about_scale_names(bench, faults, shards):
    bench.create(shards)

    def calls_of(iterations):
        faults.clear()
        puts = {number: lambda: put(bench, 1, b"data") for number in range(1, iterations + 1)}
        harness = RunHarness(bench, before=puts, last_iteration=iterations).run(*bench.shard_ids)
        assert len(harness.results) == iterations
        return sum(call.operation in OF_ITERATIONS for call in faults.calls)

    calls_of(1)  # stores the start positions
    few, many = calls_of(2), calls_of(5)
    assert many - few == (5 - 2) * values(shards)["commit_calls"]


@pytest.mark.slow
def test_a_backlog_takes_one_call_per_page(bench, faults):
    bench.create(1)
    put(bench, 25_000, b"data")
    made = calls(bench, faults)
    assert (made["GetRecords"], made["GetShardIterator"]) == (3, 1)


@pytest.mark.parametrize("shards", [4, 32])
def test_a_run_with_one_task_writes_one_file_in_one_commit(bench, shards):
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
    real = PositionedTable.snapshot

    def snapshot(table):
        opened.append(table)
        return real(table)

    monkeypatch.setattr(PositionedTable, "snapshot", snapshot)
    bench.run()
    assert len(opened) == 2  # for the plan and for the commit


@pytest.mark.slow
def test_the_response_bytes_are_less_than_twice_the_landed_bytes(bench):
    response_sizes = []

    def counting_app(app):
        async def counted(scope, receive, send):
            async def count(message):
                response_sizes.append(len(message.get("body", b"")))
                await send(message)

            await app(scope, receive, count)

        return counted

    with LocalKinesis(wrap=counting_app) as local:
        bench = replace(bench, kinesis=boto3_of(local), settings=settings_of(local))
        bench.create(1)
        put(bench, 5_000, bytes(1_000))
        shard_ids = bench.shard_ids
        response_sizes.clear()
        result = bench.run(shard_ids)
    landed = sum(outcome.stats.bytes for outcome in result.outcomes.values())
    assert landed == 5_000_000
    assert sum(response_sizes) / landed < 1.55  # Base64 alone accounts for 1.33
