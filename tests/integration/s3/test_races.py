"""Several processes on one table on a store that honors conditional puts, with clocks that disagree."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.exceptions import ClientError
from deltalake import DeltaTable

from integration.s3.racers import (
    race_to_commit,
    race_to_consume,
    race_to_create,
)
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import (
    assert_rows_are_what_positions_say,
    freeze_all,
    initialize_racer,
    rows_by_shard,
    shards,
)
from support.plain_derived import PlainDerived

if TYPE_CHECKING:
    from collections.abc import Iterator

RACERS = 4
ROUNDS = 10

OFFSETS = [0.0, 600.0, -600.0, 0.0]
"""By how many seconds the clock of each process is wrong."""


@pytest.fixture
def racers(lake: str) -> Iterator[ProcessPoolExecutor]:
    """Processes that race with each other in the bucket."""
    del lake  # they inherit its environment
    context = get_context("spawn")
    barrier = context.Barrier(RACERS)
    with ProcessPoolExecutor(RACERS, context, initializer=initialize_racer, initargs=(barrier,)) as pool:
        yield pool


def test_of_puts_at_the_same_time_the_store_accepts_one(lake: str) -> None:
    """Without this, no race on the store would show anything."""
    client, bucket = boto3.client("s3"), lake.removeprefix("s3://")

    def put(key: str, body: bytes) -> bytes | None:
        try:
            client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in {409, 412}:
                return None
            raise
        return body

    with ThreadPoolExecutor(8) as pool:
        for number in range(100):
            key = f"race-{number}"
            bodies = [b"%d" % racer for racer in range(8)]
            (winner,) = (body for body in pool.map(put, [key] * 8, bodies) if body is not None)
            assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == winner


@pytest.mark.thorough
def test_of_processes_on_one_shard_one_commits_each_round(lake: str, racers: ProcessPoolExecutor) -> None:
    table = PositionedTable(f"{lake}/raw")
    freeze_all(table, shards("a"))
    won = racers.map(race_to_commit, [table.uri] * RACERS, ["a"] * RACERS, OFFSETS, [ROUNDS] * RACERS)
    assert [sum(of_round) for of_round in zip(*won, strict=True)] == [1] * ROUNDS
    assert rows_by_shard(table) == {"a": list(range(1, 3 * ROUNDS + 1))}
    assert_rows_are_what_positions_say(table)


@pytest.mark.thorough
def test_processes_on_different_shards_all_commit_each_round(lake: str, racers: ProcessPoolExecutor) -> None:
    table, names = PositionedTable(f"{lake}/raw"), ["a", "b", "c", "d"]
    freeze_all(table, shards(*names))
    won = racers.map(race_to_commit, [table.uri] * RACERS, names, OFFSETS, [ROUNDS] * RACERS)
    assert [sum(of_round) for of_round in zip(*won, strict=True)] == [RACERS] * ROUNDS
    assert rows_by_shard(table) == {name: list(range(1, 3 * ROUNDS + 1)) for name in names}
    assert_rows_are_what_positions_say(table)


@pytest.mark.thorough
def test_one_of_the_processes_creates_the_table(lake: str, racers: ProcessPoolExecutor) -> None:
    uri = f"{lake}/raw"
    frozen = list(racers.map(race_to_create, [uri] * RACERS, OFFSETS))
    assert all(positions == frozen[0] for positions in frozen)
    operations = [entry["operation"] for entry in DeltaTable(uri).history()]
    assert sorted(operations) == ["CREATE TABLE", "WRITE"]


@pytest.mark.parametrize(
    "replacing", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["append", "upsert"]
)
def test_of_derivations_at_once_one_consumes_each_step(
    lake: str, racers: ProcessPoolExecutor, *, replacing: bool
) -> None:
    derived = PlainDerived(f"{lake}/derived", partitioned=False)
    won = racers.map(
        race_to_consume, [derived.table.uri] * RACERS, [replacing] * RACERS, OFFSETS, [ROUNDS] * RACERS
    )
    assert [sum(of_round) for of_round in zip(*won, strict=True)] == [1] * ROUNDS
    newest = derived.table.snapshot().newest
    assert newest is not None
    assert newest.cursor == Cursor(source="source", commit=ROUNDS)
    expected = [(0, ROUNDS, None)] if replacing else [(0, number + 1, None) for number in range(ROUNDS)]
    assert sorted(derived.rows.elements()) == expected
