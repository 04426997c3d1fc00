"""What is read of a stream for a comparison, and when the read fails because it is not all of the range."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.errors import DataLost, InvalidInput, ReadFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.operations.compare.stream_range import Window, plan_range, read_shards
from kinesis_assets.testing import UserRecord, aggregate
from support.shard_ids import A, B, C, D, E
from support.timing import READING

NAMES = ["sub_sequence_number", "data"]
MIDDLE = 1 << 127


class Bench:
    def __init__(self, clocked, stream):
        self.kinesis, self.clock, self.stream = clocked.kinesis, clocked.clock, stream
        self.client = StreamClient(stream, replace(clocked.settings, timing=READING))

    def put(self, *items, key=0):
        """Put numbers into a shard, and return their sequence numbers. A second passes."""
        puts = [
            self.kinesis.put_record(
                StreamName=self.stream, Data=b"%d" % item, PartitionKey="k", ExplicitHashKey=str(key)
            )
            for item in items
        ]
        self.later(seconds=1)
        return [put["SequenceNumber"] for put in puts]

    def later(self, **time):
        self.clock.seconds += timedelta(**time).total_seconds()

    @property
    def now(self):
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def plan(self, start="TRIM_HORIZON", end=None, margin=None, **options):
        return plan_range(self.client, Window.of(start, end, self.now), margin, **options)

    def read(self, planned):
        """Return the numbers in the range, and those that are read besides. Time passes before."""
        self.later(seconds=10)
        inside, besides = [], []
        for batch in read_shards(self.client, planned.shards, NAMES):
            assert batch.schema.names == [*NAMES, "__inside"]
            for row in batch.to_pylist():
                (inside if row["__inside"] else besides).append(int(row["data"]))
        return sorted(inside), sorted(besides)


@pytest.fixture
def bench(clocked, stream):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=2)
    return Bench(clocked, stream)


def test_a_range_ends_now_and_starts_with_the_oldest_records(bench):
    bench.put(1, 2)
    bench.put(3, key=MIDDLE)
    planned = bench.plan()
    bench.put(4)
    assert bench.read(planned) == ([1, 2, 3], [])


def test_user_records_of_an_aggregate_are_records(bench):
    data = aggregate([UserRecord("k", b"1", "0"), UserRecord("k", b"2", "0")])
    bench.kinesis.put_record(StreamName=bench.stream, Data=data, PartitionKey="k")
    bench.later(seconds=1)
    assert bench.read(bench.plan()) == ([1, 2], [])


@pytest.mark.parametrize("margin", [None, timedelta(hours=1)])
def test_a_record_in_which_the_range_starts_or_ends_is_read_as_a_whole(bench, margin):
    bench.put(0)
    data = aggregate([UserRecord("k", b"%d" % item, "0") for item in (1, 2, 3, 4, 5)])
    put = bench.kinesis.put_record(StreamName=bench.stream, Data=data, PartitionKey="k", ExplicitHashKey="0")
    bench.later(seconds=1)
    after = f"AFTER_SEQUENCE_NUMBER:{put['SequenceNumber']}"
    second, fourth = (json.dumps({A: f"{after}:{sub}", "default": "TRIM_HORIZON"}) for sub in (1, 3))
    assert bench.read(bench.plan(second, margin=margin)) == ([3, 4, 5], [1, 2])
    assert bench.read(bench.plan(end=fourth, margin=margin)) == ([0, 1, 2, 3, 4], [5])
    assert bench.read(bench.plan(second, fourth, margin)) == ([3, 4], [1, 2, 5])
    planned = bench.plan(second, fourth)
    assert (str(planned.start[A]), str(planned.end[A])) == (f"{after}:1", f"{after}:3")


def test_records_at_the_start_are_inside_and_records_at_the_end_are_not(bench):
    bench.put(1)
    start = bench.now
    bench.put(2)
    end = bench.now
    bench.put(3)
    assert bench.read(bench.plan(start.isoformat(), end.isoformat())) == ([2], [])


def test_records_within_the_margin_are_read_besides(bench):
    bench.put(0)
    bench.later(seconds=59)
    bench.put(1)
    start = bench.now
    bench.put(2)
    end = bench.now
    bench.put(3)
    bench.later(seconds=59)
    bench.put(4)
    planned = bench.plan(start.isoformat(), end.isoformat(), timedelta(seconds=30))
    assert bench.read(planned) == ([2], [1, 3])
    planned = bench.plan(start.isoformat(), end.isoformat(), timedelta(seconds=30), latest=True)
    assert bench.read(planned) == ([2], [1, 3, 4])


def test_an_end_can_be_the_position_of_another_consumer(bench):
    numbers = bench.put(1, 2, 3)
    bench.put(4, key=MIDDLE)
    end = json.dumps({A: f"AFTER_SEQUENCE_NUMBER:{numbers[1]}", B: "TRIM_HORIZON"})
    assert bench.read(bench.plan(end=end)) == ([1, 2], [])
    assert bench.read(bench.plan(end=end, margin=timedelta(hours=1))) == ([1, 2], [3, 4])


@pytest.mark.parametrize("default", [{}, {"default": "TRIM_HORIZON"}], ids=["no default", "a default"])
def test_ancestors_of_a_shard_that_the_end_names_are_in_the_range_to_their_end(bench, default):
    bench.put(1)
    bench.kinesis.split_shard(StreamName=bench.stream, ShardToSplit=A, NewStartingHashKey=str(MIDDLE // 2))
    bench.put(2)
    bench.kinesis.merge_shards(StreamName=bench.stream, ShardToMerge=C, AdjacentShardToMerge=D)
    bench.put(3)
    (last,) = bench.put(4, key=MIDDLE)
    bench.put(5, key=MIDDLE)
    ends = {E: "TRIM_HORIZON", B: f"AFTER_SEQUENCE_NUMBER:{last}"} | default
    assert bench.read(bench.plan(end=json.dumps(ends))) == ([1, 2, 4], [])


def test_an_end_of_each_other_shard_must_be_given(bench):
    (number,) = bench.put(1)
    bench.kinesis.split_shard(StreamName=bench.stream, ShardToSplit=B, NewStartingHashKey=str(MIDDLE + 9))
    ends = {A: f"AFTER_SEQUENCE_NUMBER:{number}"}
    with pytest.raises(InvalidInput, match=f"^--to: .* no end of {B}, {C}, {D}: .* 'default'"):
        bench.plan(end=json.dumps(ends))
    assert bench.read(bench.plan(end=json.dumps(ends | {"default": "LATEST"}))) == ([1], [])


def test_no_record_before_a_start_that_is_a_position_is_read(bench):
    _, second, _ = bench.put(1, 2, 3)
    start = json.dumps({A: f"AFTER_SEQUENCE_NUMBER:{second}"})
    assert bench.read(bench.plan(start, margin=timedelta(hours=1))) == ([3], [])


def test_a_shard_that_the_start_says_was_read_is_not_read(bench):
    bench.put(1)
    bench.kinesis.split_shard(StreamName=bench.stream, ShardToSplit=A, NewStartingHashKey=str(MIDDLE // 2))
    bench.put(2)
    assert bench.read(bench.plan(json.dumps({A: "SHARD_END"}))) == ([2], [])
    assert bench.read(bench.plan()) == ([1, 2], [])


@pytest.mark.parametrize("margin", [None, timedelta(hours=1)])
def test_an_end_that_the_stream_has_not_reached_fails_the_read(bench, faults, margin):
    _, number = bench.put(1, 2)

    def lose(_, response):
        kept = [record for record in response.members["Records"] if record["SequenceNumber"] != number]
        return response.but(Records=kept)

    faults.answer("GetRecords", lose, shard_id=A)
    ends = {A: f"AFTER_SEQUENCE_NUMBER:{number}", B: "TRIM_HORIZON"}
    planned = bench.plan(end=json.dumps(ends), margin=margin)
    with pytest.raises(ReadFailed, match="has no record there"):
        bench.read(planned)


def test_records_that_expire_before_they_are_read_fail_the_read(bench):
    start = bench.now
    bench.put(1)
    planned = bench.plan(start.isoformat())
    bench.later(hours=25)
    with pytest.raises(DataLost, match="records of the range have expired"):
        bench.read(planned)


def test_a_start_whose_record_has_expired_fails_the_read(bench):
    first, second = bench.put(1, 2)
    bench.later(hours=23)
    bench.put(3)
    starts = [f"AFTER_SEQUENCE_NUMBER:{number}" for number in (first, second)]
    assert bench.read(bench.plan(json.dumps({A: starts[0]}))) == ([2, 3], [])
    bench.later(hours=2)
    with pytest.raises(DataLost, match=A):
        bench.read(bench.plan(json.dumps({A: starts[0]})))


def test_a_start_before_the_oldest_records_is_refused(bench):
    old = bench.now - timedelta(days=3)
    assert bench.read(bench.plan(old.isoformat())) == ([], [])  # the stream did not exist
    bench.later(hours=30)
    with pytest.raises(InvalidInput, match="the stream keeps 24 h"):
        bench.plan(old.isoformat())


def test_a_tip_that_is_reported_too_early_fails_the_read(bench, faults):
    (number,) = bench.put(1)
    planned = bench.plan()
    hidden = iter([True])

    def hide(_, response):
        return response.but(Records=[], MillisBehindLatest=0) if next(hidden, False) else None

    faults.answer("GetRecords", hide, shard_id=A)
    with pytest.raises(ReadFailed, match=f"the tip before record {number}"):
        bench.read(planned)


def test_a_shard_that_cannot_be_read_fails_the_read(bench, faults):
    bench.put(1)
    planned = bench.plan()
    faults.fail(status=400, code="AccessDeniedException", shard_id=B)
    with pytest.raises(ReadFailed, match=B):
        bench.read(planned)


@pytest.mark.parametrize(
    ("start", "end", "error"),
    [
        ("2026-01-31T12:00:00", None, "needs a UTC offset"),
        ("yesterday", None, "invalid position 'yesterday'"),
        ("2999-01-01T00:00:00Z", None, "^--from: .* not in the past"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z", "use a later end"),
        ("TRIM_HORIZON", "2999-01-01T00:00:00Z", "^--to: .* not in the past"),
        ("TRIM_HORIZON", "9999-12-31T23:59:59-05:00", "9999-12-31T23:59:59-05:00: is .* after the year 9999"),
        ("0001-01-01T00:00:00+05:00", None, "is before the year 1"),
        ("0001-01-01T00:00:00Z", None, "^--from: .*0001-01-01"),
        ("AT_SEQUENCE_NUMBER:49", None, "applies to 2"),
        ('{"shardId-9": "LATEST"}', None, "does not list"),
    ],
)
@pytest.mark.parametrize("margin", [None, timedelta(hours=1)])
def test_an_invalid_window_is_refused(bench, start, end, error, margin):
    with pytest.raises(InvalidInput, match=error):
        bench.plan(start, end, margin)
