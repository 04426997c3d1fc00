"""The end of a shard: two null iterators, confirmed by child shards or by a fresh list."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from msgspec import structs

from kinesis_assets.errors import ReadFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items
from support.timing import READING

CHILD = {
    "ShardId": "shardId-000000000009",
    "ParentShards": [SHARD],
    "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "9"},
}


@pytest.fixture(params=["own parser", "SDK's parser"])
def reading(request, kinesis, stream, settings):
    """A reading of the test's shard, which has six records."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    entries = [{"Data": b"%d" % item, "PartitionKey": "k"} for item in range(6)]
    kinesis.put_records(StreamName=stream, Records=entries)
    client = StreamClient(
        stream,
        replace(settings, sdk_parser=request.param != "own parser", timing=READING),
        attempts=1,
    )
    return ShardReading(client, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS))


def test_a_second_response_without_records_confirms_the_end_that_child_shards_show(reading, split, faults):
    split()
    faults.calls.clear()
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)
    assert [call.operation for call in faults.calls] == ["GetShardIterator", "GetRecords"] * 2


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("kept", [0, 1])
def test_records_that_a_response_with_child_shards_omits_are_read(reading, split, faults, after, kept):
    split()
    faults.page_size(2)

    def omit(_, response):
        records = response.members["Records"][:kept]
        return response.but(Records=records, NextShardIterator=None, ChildShards=[CHILD])

    faults.answer("GetRecords", omit, after=after, times=1)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)


def test_one_response_with_child_shards_does_not_end_an_open_shard(reading, faults):
    faults.answer(
        "GetRecords", lambda _, response: response.but(NextShardIterator=None, ChildShards=[CHILD]), times=1
    )
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.TIP)


def test_an_aggregate_that_a_resumed_reading_has_read_does_not_prolong_it(reading, split, faults):
    (last,) = [records.numbers[-1] for records in reading]
    split()
    start = Position.after(last, 0)
    reading = ShardReading(reading._client, structs.replace(reading.range, start=start))
    faults.calls.clear()
    assert (items(reading), reading.end, reading.position) == ([], RangeEnd.SHARD_END, start)
    assert faults.count("GetRecords") == 2


def test_an_empty_page_before_the_second_response_does_not_prolong_the_reading(reading, split, faults):
    split()
    faults.empty_page(after=1, times=1)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)
    assert faults.count("GetRecords") == 3


def test_a_reading_whose_last_record_uses_up_its_limit_still_confirms_the_end(reading, split):
    split()
    reading = limited(reading, 6)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)


def test_an_unconfirmed_end_does_not_raise_the_limit(reading, split, faults):
    split()
    faults.page_size(2)
    faults.null_iterator(times=1)
    reading = limited(reading, 2)
    assert (items(reading), reading.end) == ([0, 1], RangeEnd.BOUND)


def test_a_reading_at_its_limit_ends_without_an_error_if_the_end_cannot_be_confirmed(reading, split, faults):
    split()
    faults.fail("GetRecords", status=500, after=1)
    reading = limited(reading, 6)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.BOUND)


def limited(reading, records):
    bounds = Bounds(max_records=records)
    return ShardReading(reading._client, structs.replace(reading.range, bounds=bounds))


@pytest.mark.parametrize("after", [0, 1, 2])
def test_one_null_iterator_of_an_open_shard_does_not_end_it(reading, faults, after):
    faults.page_size(2)
    faults.null_iterator(after=after, times=1)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.TIP)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_one_null_iterator_within_a_closed_shard_skips_none_of_its_records(reading, split, faults, after):
    split()
    faults.page_size(2)
    faults.null_iterator(after=after, times=1)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)


@pytest.mark.parametrize("times", [2, 3])
def test_null_iterators_within_a_closed_shard_skip_none_of_its_records(reading, split, faults, times):
    split()
    faults.page_size(2)
    faults.null_iterator(times=times)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)


def test_without_child_shards_a_fresh_list_confirms_the_end(reading, split, faults):
    split()
    faults.answer("GetRecords", without_children)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)
    operations = [call.operation for call in faults.calls]
    assert operations[-1] == "ListShards"
    assert operations.count("ListShards") == 1


def test_an_empty_iterator_ends_a_shard_as_a_null_iterator_does(reading, split, faults):
    split()

    def empty_iterator(_, response):
        ends = "NextShardIterator" not in response.members
        return response.but(ChildShards=None, NextShardIterator="") if ends else None

    faults.answer("GetRecords", empty_iterator)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)
    assert faults.count("ListShards") == 1


def test_null_iterators_between_empty_pages_are_confirmed_by_a_fresh_list(reading, split, faults):
    split()
    reading = ShardReading(reading._client, structs.replace(reading.range, closed=True))
    number = count()

    def null_iterator_every_second_time(call, response):
        members = response.members
        if members["Records"] or "NextShardIterator" in members:
            return None
        if next(number) % 2 == 0:
            return response.but(ChildShards=None)
        return response.but(ChildShards=None, NextShardIterator=call.arguments["ShardIterator"])

    faults.answer("GetRecords", without_children)
    faults.answer("GetRecords", null_iterator_every_second_time)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)
    assert faults.count("ListShards") == 1


def without_children(_, response):
    members = response.members
    return response.but(ChildShards=None) if "ChildShards" in members else None


def test_null_iterators_of_an_open_shard_with_records_do_not_end_it(reading, faults):
    faults.page_size(2)
    faults.null_iterator(times=3)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.TIP)


def test_repeated_null_iterators_of_an_open_shard_fail_it_and_keep_the_records_read(reading, faults):
    faults.page_size(2)
    faults.empty_page(after=1)
    faults.null_iterator(after=1)
    handed_out = []
    with pytest.raises(ReadFailed, match=r"ShardEndUnconfirmed.*ListShards"):
        handed_out.extend(int(record.data) for records in reading for record in records)
    assert (handed_out, reading.end) == ([0, 1], None)


def test_a_stale_list_is_refreshed_until_it_shows_the_shard_closed(reading, split, faults):
    split()
    faults.answer("GetRecords", without_children)
    faults.stale_list(times=2)
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.SHARD_END)
    assert faults.count("ListShards") == 3


def test_a_list_that_stays_stale_fails_the_reading(reading, split, faults):
    split()
    faults.answer("GetRecords", without_children)
    faults.stale_list()
    with pytest.raises(ReadFailed, match="ShardEndUnconfirmed"):
        items(reading)
    assert reading.end is None


@pytest.mark.parametrize("shards", [[], None])
def test_an_incomplete_list_does_not_confirm_the_end(reading, split, faults, shards):
    split()
    faults.answer("GetRecords", without_children)
    faults.answer(
        "ListShards",
        lambda _, response: (
            response.but(Shards=shards)
            if shards is not None
            else response.but(Shards=response.members["Shards"][:1])
        ),
    )
    with pytest.raises(ReadFailed, match="ShardEndUnconfirmed"):
        items(reading)
    assert reading.end is None


def test_a_refused_list_fails_the_shard(reading, split, faults):
    split()
    faults.answer("GetRecords", without_children)
    faults.fail("ListShards", status=400, code="AccessDeniedException")
    with pytest.raises(ReadFailed, match="ListShards failed with AccessDeniedException"):
        items(reading)


def test_child_shards_of_another_shard_do_not_confirm_the_end(reading, faults):
    other = CHILD | {"ParentShards": ["shardId-000000000008"]}
    faults.answer(
        "GetRecords", lambda _, response: response.but(NextShardIterator=None, ChildShards=[other]), times=2
    )
    assert (items(reading), reading.end) == (list(range(6)), RangeEnd.TIP)


# The service's clock


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
@pytest.mark.parametrize("days", [-3650, 3650])
def test_one_wrong_date_header_does_not_become_the_time_of_the_tip(reading, faults, operation, days):
    faults.skew_date(days * 86_400, operation, times=1)
    before = reading._client.describe().service_time
    assert items(reading) == list(range(6))
    assert reading.tip_time is not None
    assert before <= reading.tip_time <= reading._client.describe().service_time


def test_date_headers_that_stay_wrong_fail_the_shard(reading, faults):
    faults.skew_date(86_400)
    with pytest.raises(ReadFailed, match="ServiceTimeUncertain"):
        items(reading)
    assert reading.tip_time is None
