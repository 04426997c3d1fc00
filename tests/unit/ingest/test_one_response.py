"""One incorrect response: a run never stores a permanent decision that depends on a single response."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from kinesis_assets.errors import CallFailed, DataLost, ServiceTimeUncertain, StreamRecreated, TableMissing
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds

YEARS = 10 * 365 * 86_400
PAST_AND_FUTURE = pytest.mark.parametrize("seconds", [-YEARS, YEARS], ids=["past", "future"])
CALLS = pytest.mark.parametrize(
    "operation", ["DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"]
)
CONTINUE = {"on_data_loss": "continue"}


def summary(faults, *, times=None, after=0, **members):
    """Change members of the stream summary."""
    which = {} if times is None else {"times": times}
    faults.answer(
        "DescribeStreamSummary",
        lambda _, response: response.but(
            StreamDescriptionSummary=response.members["StreamDescriptionSummary"] | members
        ),
        after=after,
        **which,
    )


def times_of(positions):
    """Return every stored time of the shards and of the list."""
    times = [positions.listed_at]
    for shard in positions.shards.values():
        times += [shard.tip_time, shard.last_arrival, shard.wanted_from, shard.listed_open]
        times.append(shard.position.timestamp)
        times += [gap.until for gap in shard.gaps]
    return [time for time in times if time is not None]


# The clock


@CALLS
@PAST_AND_FUTURE
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("start", ["TRIM_HORIZON", "LATEST"])
def test_one_incorrect_date_in_the_first_run_is_not_stored(bench, faults, operation, seconds, after, start):
    bench.create(2)
    started = bench.now
    bench.later(seconds=10)
    faults.skew_date(seconds, operation, after=after, times=1)
    bench.put(1)
    bench.run(start=start)
    assert all(started <= time <= bench.now for time in times_of(bench.positions))


@CALLS
@pytest.mark.parametrize("after", [0, 1, 2])
def test_one_date_in_the_year_9999_fails_at_most_one_run(bench, faults, operation, after):
    bench.create(2)
    bench.put(1)
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    faults.skew_date((end - bench.now).total_seconds(), operation, after=after, times=1)
    with suppress(CallFailed):
        bench.run()
    bench.run()
    assert bench.items == [1]


@pytest.mark.slow
@CALLS
@PAST_AND_FUTURE
@pytest.mark.parametrize("after", [0, 1])
def test_one_incorrect_date_does_not_disable_loss_detection(bench, faults, operation, seconds, after):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=1)
    faults.skew_date(seconds, operation, after=after, times=1)
    bench.run()
    faults.clear()
    bench.put(2)
    bench.later(hours=30)
    bench.put(3)
    assert isinstance(bench.run().errors[shard], DataLost)


@pytest.mark.slow
@CALLS
@PAST_AND_FUTURE
@pytest.mark.parametrize("after", [0, 1])
def test_one_incorrect_date_neither_hides_nor_invents_a_loss(bench, faults, operation, seconds, after):
    lossy, idle = bench.create(2)
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=15)
    bench.run([idle])
    bench.later(hours=15)
    bench.put(3)
    faults.skew_date(seconds, operation, after=after, times=1)
    assert set(bench.run().errors) == {lossy}
    faults.clear()
    faults.skew_date(seconds, operation, after=after, times=1)
    bench.run(**CONTINUE)
    assert [len(bench.at(shard).gaps) for shard in (lossy, idle)] == [1, 0]
    assert bench.items == [1, 3]


def test_two_incorrect_dates_that_agree_change_nothing(bench, faults):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    before = (bench.positions, bench.version)
    for operation in ("DescribeStreamSummary", "ListShards"):
        faults.skew_date(YEARS, operation, times=1)
    with pytest.raises(ServiceTimeUncertain):
        bench.run([shard])
    assert (bench.positions, bench.version) == before
    assert bench.run().errors == {}
    assert bench.items == [1, 2]


def test_dates_that_keep_disagreeing_fail_the_plan_and_change_nothing(bench, faults):
    bench.create()
    faults.skew_date(YEARS, "DescribeStreamSummary")
    with pytest.raises(ServiceTimeUncertain, match=bench.stream):
        bench.plan()
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_times_of_a_task_are_capped_at_the_time_of_the_next_response(bench):
    (shard,) = bench.create()
    bench.put(1)
    plan = bench.plan()

    def land_with_future_times(*landing):
        landed = land_group(*landing)
        late = bench.now + timedelta(days=3650)
        late_shards = [
            replace(each, tip_time=late, facts=replace(each.facts, last_arrival=late))
            for each in landed.shards
        ]
        return replace(landed, shards=tuple(late_shards))

    execute_run(land_with_future_times, bench.client, bench.table, plan)
    assert bench.at(shard).tip_time == bench.now
    assert bench.at(shard).last_arrival == bench.now + timedelta(seconds=1)


def test_an_arrival_time_far_in_the_future_does_not_disable_loss_detection(bench, faults):
    (shard,) = bench.create()
    bench.put(1)

    def later(_, response):
        records = response.members["Records"]
        for record in records:
            record["ApproximateArrivalTimestamp"] += YEARS
        return response.but(Records=records)

    faults.answer("GetRecords", later, times=1)
    plan = bench.plan()
    ranges = {
        shard: msgspec.structs.replace(range_, bounds=Bounds()) for shard, range_ in plan.ranges.items()
    }
    bench.execute(dataclasses.replace(plan, ranges=ranges))
    assert bench.items == [1]
    bench.put(2)
    bench.later(hours=30)
    bench.put(3)
    assert isinstance(bench.run().errors[shard], DataLost)


# The retention


@pytest.mark.parametrize("hours", [24, 168])
@pytest.mark.parametrize("wrong", [1, 8760])
@pytest.mark.parametrize("after", [0, 1])
def test_one_incorrect_retention_does_not_affect_later_loss_detection(bench, faults, hours, wrong, after):
    (shard,) = bench.create()
    bench.set_retention(hours)
    bench.run()
    bench.put(1)
    summary(faults, RetentionPeriodHours=wrong, after=after, times=1)
    bench.run()
    faults.clear()
    bench.later(hours=hours, minutes=-1)
    assert bench.run().errors == {}
    bench.put(2)
    bench.later(hours=hours, minutes=1)
    bench.put(3)
    assert set(bench.run().errors) == {shard}


@pytest.mark.parametrize("after", [0, 1])
def test_one_incorrect_retention_does_not_fail_an_idle_shard_permanently(bench, faults, after):
    first, second = bench.create(2)
    bench.run()
    bench.later(hours=3)
    summary(faults, RetentionPeriodHours=1, after=after, times=1)
    bench.put(1, part=0.5)
    bench.run()
    faults.clear()
    assert [bench.at(shard).retention_hours for shard in (first, second)] == [24, 24]
    assert bench.run().errors == {}
    assert bench.items == [1]


def test_one_incorrect_retention_at_the_first_plan_is_not_stored(bench, faults):
    (shard,) = bench.create()
    summary(faults, RetentionPeriodHours=1, times=1)
    bench.plan()
    assert bench.at(shard).retention_hours == 24


def test_a_lowered_retention_that_two_responses_confirm_is_stored_for_every_shard(bench):
    first, second = bench.create(2)
    bench.set_retention(168)
    bench.run()
    bench.set_retention(24)
    bench.later(minutes=1)
    bench.run([second])
    assert [bench.at(shard).retention_hours for shard in (first, second)] == [24, 24]


# The identity of the stream


@pytest.mark.parametrize("after", [0, 1])
def test_one_incorrect_creation_time_is_not_stored_as_the_identity(bench, faults, after):
    bench.create()
    summary(faults, StreamCreationTimestamp=1.0, after=after, times=1)
    with pytest.raises(StreamRecreated):
        bench.run()
    faults.clear()
    bench.put(1)
    assert bench.run().errors == {}
    assert bench.items == [1]


@pytest.mark.parametrize("after", [0, 1])
def test_one_incorrect_creation_time_does_not_restart_the_stream(bench, faults, after):
    (shard,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    bench.later(hours=1)
    summary(faults, StreamCreationTimestamp=bench.clock.seconds, after=after, times=1)
    with pytest.raises(StreamRecreated):
        bench.run(on_recreated="restart")
    faults.clear()
    assert bench.at(shard).position == Position.after(number)
    bench.put(2)
    assert bench.run(on_recreated="restart").errors == {}
    assert bench.items == [1, 2]


# The end of a shard


def test_a_null_iterator_does_not_finish_an_open_shard(bench, faults):
    bench.create()
    bench.put(1, 2, 3)
    faults.page_size(1)
    faults.null_iterator(after=1, times=1)
    assert bench.run().errors == {}
    assert (bench.items, bench.positions.finished) == ([1, 2, 3], frozenset())
    bench.put(4)
    bench.run()
    assert bench.items == [1, 2, 3, 4]


@pytest.mark.slow
def test_repeated_null_iterators_fail_the_shard_and_earlier_rows_are_committed(bench, faults):
    first, _ = bench.create(2)
    bench.put(1, 2)
    bench.put(3, part=0.5)
    faults.page_size(1)
    faults.empty_page(after=1, shard_id=first)
    faults.null_iterator(after=1, shard_id=first)
    result = bench.run()
    assert set(result.errors) == {first}
    assert "ShardEndUnconfirmed" in str(result.errors[first])
    assert (bench.items, bench.positions.finished) == ([1, 3], frozenset())
    faults.clear()
    assert bench.run().errors == {}
    assert bench.items == [1, 2, 3]


def test_a_null_iterator_and_a_list_of_only_closed_shards_do_not_finish_a_shard(bench, faults):
    (shard,) = bench.create()

    def closed(_, response):
        (listed,) = response.members["Shards"]
        listed["SequenceNumberRange"]["EndingSequenceNumber"] = "9"
        return response.but(Shards=[listed])

    faults.answer("ListShards", closed, after=1)
    faults.null_iterator()
    assert set(bench.run([shard]).errors) == {shard}
    assert bench.positions.finished == set()


def test_one_incorrect_end_with_child_shards_does_not_finish_a_shard(bench, faults):
    (shard,) = bench.create()
    bench.put(1)
    child = {"ShardId": "shardId-000000000009", "ParentShards": [shard]}
    child["HashKeyRange"] = {"StartingHashKey": "0", "EndingHashKey": "9"}
    faults.answer(
        "GetRecords", lambda _, response: response.but(NextShardIterator=None, ChildShards=[child]), times=1
    )
    bench.run()
    assert bench.positions.finished == set()
    bench.put(2)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]
