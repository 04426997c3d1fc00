"""Several processes on one table or on one stream."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import cycle
from multiprocessing import get_context

import pytest
from deltalake import DeltaTable

from kinesis_assets.emulator import LocalKinesis
from support.attempts import (
    assert_rows_are_what_positions_say,
    current_positions,
    initialize_racer,
    race_to_commit,
    race_to_freeze,
    rows_by_shard,
)
from support.fixtures.stream import boto3_of
from support.null_keys import make_old
from support.producers import put_from_another_process

RACERS = 4


@pytest.fixture(scope="module")
def racers():
    """Processes that race with each other."""
    context = get_context("spawn")
    barrier = context.Barrier(RACERS)
    with ProcessPoolExecutor(RACERS, context, initializer=initialize_racer, initargs=(barrier,)) as pool:
        yield pool


@pytest.mark.any_format
def test_one_of_the_racing_freezes_holds_for_all(table, racers):
    starts = [f"AT_TIMESTAMP:2026-01-31T12:00:{second:02}Z" for second in range(RACERS)]
    results = list(racers.map(race_to_freeze, [table.uri] * RACERS, starts))
    assert all(result == results[0] for result in results)
    assert results[0] == current_positions(table)
    assert sum(bool(entry.transactions) for entry in table.snapshot().entries()) == 1


def test_concurrent_runs_that_change_an_old_table_all_commit(table, monkeypatch, racers):
    make_old(table, monkeypatch)
    names = ["a", "b", "c", "c"]
    results = list(racers.map(race_to_commit, [table.uri] * RACERS, names, [1] * RACERS))
    assert sum(won for won, _ in results) == 3
    operations = [entry["operation"] for entry in DeltaTable(table.uri).history()]
    assert operations.count("CHANGE COLUMN") == 1
    assert rows_by_shard(table) == {"a": [1, 2, 3, 4, 5, 6], "b": [1, 2, 3], "c": [1, 2, 3]}
    assert_rows_are_what_positions_say(table)


def list_all(client):
    page = client.list_shards(StreamName="stream")
    yield from (shard["ShardId"] for shard in page["Shards"])
    while "NextToken" in page:
        page = client.list_shards(NextToken=page["NextToken"])
        yield from (shard["ShardId"] for shard in page["Shards"])


def read_all(client, shard_id):
    iterator = client.get_shard_iterator(
        StreamName="stream", ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    while iterator:
        page = client.get_records(ShardIterator=iterator)
        yield from ((shard_id, record["SequenceNumber"], record["Data"]) for record in page["Records"])
        iterator = page.get("NextShardIterator") if page["MillisBehindLatest"] else None


def test_no_record_of_concurrent_producers_is_lost_or_duplicated(environment):
    del environment
    with LocalKinesis() as local, get_context("spawn").Pool(3) as pool:
        client = boto3_of(local)
        client.create_stream(StreamName="stream", ShardCount=2)
        putters = [
            pool.apply_async(put_from_another_process, (local.endpoint_url, local.region)) for _ in range(3)
        ]
        targets = cycle((3, 2, 4, 3, 2))
        while not all(putter.ready() for putter in putters):
            client.update_shard_count(
                StreamName="stream", TargetShardCount=next(targets), ScalingType="UNIFORM_SCALING"
            )
            putters[0].wait(0.02)
        acknowledged = [entry for putter in putters for entry in putter.get()]
        read = [entry for shard_id in list_all(client) for entry in read_all(client, shard_id)]
    assert len(acknowledged) >= 3 * 20 * 100
    assert len({sequence_number for _, sequence_number, _ in read}) == len(read)
    assert sorted(read) == sorted(acknowledged)
