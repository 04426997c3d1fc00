"""Faults of responses: pages and lists that are unexpected or wrong, and partial puts."""

from __future__ import annotations

from collections import Counter
from email.utils import parsedate_to_datetime

import pytest

A, B = "shardId-000000000000", "shardId-000000000001"


# Pages


def test_twenty_empty_pages_are_followed_by_the_records(orders, faults):
    orders.put(b"0", b"1")
    iterator = orders.iterator()
    faults.empty_page(times=20)
    for _ in range(20):
        page = orders.page(iterator)
        assert (page["Records"], page["MillisBehindLatest"]) == ([], 1000)
        iterator = page["NextShardIterator"]
    page = orders.page(iterator)
    assert [record["Data"] for record in page["Records"]] == [b"0", b"1"]
    assert page["MillisBehindLatest"] == 0


def test_empty_page_has_the_configured_milliseconds_behind(orders, faults):
    faults.empty_page(behind_ms=86_400_000)
    assert orders.page()["MillisBehindLatest"] == 86_400_000


def test_empty_page_of_a_closed_shard_is_not_its_end(orders, faults):
    orders.client.split_shard(StreamName=orders.name, ShardToSplit=A, NewStartingHashKey="1000")
    faults.empty_page(times=1)
    page = orders.page()
    assert "ChildShards" not in page
    assert "NextShardIterator" not in orders.page(page["NextShardIterator"])


def test_iterator_of_an_empty_page_is_renewed(clocked, faults):
    client = clocked.kinesis
    client.create_stream(StreamName="orders", ShardCount=1)
    iterator = client.get_shard_iterator(StreamName="orders", ShardId=A, ShardIteratorType="TRIM_HORIZON")
    clocked.clock.advance(200)
    faults.empty_page(times=1)
    page = client.get_records(ShardIterator=iterator["ShardIterator"])
    clocked.clock.advance(200)
    assert client.get_records(ShardIterator=page["NextShardIterator"])["Records"] == []


def test_expired_iterator_fails_in_spite_of_an_empty_page(clocked, faults):
    client = clocked.kinesis
    client.create_stream(StreamName="orders", ShardCount=1)
    iterator = client.get_shard_iterator(StreamName="orders", ShardId=A, ShardIteratorType="TRIM_HORIZON")
    clocked.clock.advance(301)
    faults.empty_page()
    with pytest.raises(client.exceptions.ExpiredIteratorException):
        client.get_records(ShardIterator=iterator["ShardIterator"])


def test_small_pages_contain_all_records(orders, faults):
    orders.put(*(b"%d" % number for number in range(5)))
    faults.page_size(2)
    iterator, sizes = orders.iterator(), []
    for _ in range(3):
        page = orders.page(iterator)
        sizes.append(len(page["Records"]))
        iterator = page["NextShardIterator"]
    assert sizes == [2, 2, 1]


def test_smaller_limit_of_a_request_applies(orders, faults):
    orders.put(b"0", b"1", b"2")
    faults.page_size(2)
    page = orders.client.get_records(ShardIterator=orders.iterator(), Limit=1)
    assert len(page["Records"]) == 1


# Pages that the service should never return


def numbers(page):
    return [int(record["SequenceNumber"]) for record in page["Records"]]


def test_repeated_page_starts_before_its_iterator_and_replaces_the_next_page(orders, faults):
    put = [int(number) for number in orders.put(b"0", b"1", b"2", b"3", b"4")]
    faults.page_size(2)
    faults.repeat_page(after=1, times=1)
    first = orders.page()
    second = orders.page(first["NextShardIterator"])
    assert (numbers(first), numbers(second)) == (put[:2], put[1:3])
    assert numbers(orders.page(second["NextShardIterator"])) == put[4:]


def test_first_page_of_a_shard_cannot_be_repeated(orders, faults):
    orders.put(b"0", b"1")
    faults.repeat_page(back=5)
    assert orders.data() == [b"0", b"1"]


def test_reversed_page_has_the_same_records(orders, faults):
    put = [int(number) for number in orders.put(b"0", b"1", b"2")]
    faults.reverse_page()
    assert numbers(orders.page()) == put[::-1]


def test_wrong_arrival_applies_to_the_last_record(orders, faults):
    orders.put(b"0", b"1")
    bodies = []
    faults.answer("GetRecords", lambda _, response: bodies.append(response.members))
    faults.wrong_arrival(1e5)
    orders.page()
    first, last = (record["ApproximateArrivalTimestamp"] for record in bodies[0]["Records"])
    assert (last, first > 1e9) == (1e5, True)


def test_long_page_is_longer_only_above_a_number_of_records(orders, faults):
    orders.put(b"0", b"1")
    lengths = []
    faults.answer("GetRecords", lambda _, response: lengths.append(len(response.body)))
    faults.page_size(1, times=1)
    faults.long_page(above=1, size=1 << 20)
    assert len(orders.page()["Records"]) == 1
    assert len(orders.page()["Records"]) == 2
    assert lengths[0] < 1 << 20 < lengths[1]


# Puts


def outcomes(response):
    return [record.get("ErrorCode", "put") for record in response["Records"]]


def test_partial_put_reports_the_records_that_failed_and_puts_the_others(orders, faults):
    faults.partial_puts()
    response = orders.put_all(b"0", b"1", b"2", b"3", b"4")
    failed = "ProvisionedThroughputExceededException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert response["FailedRecordCount"] == 2
    assert outcomes(response) == ["put", failed, "put", failed, "put"]
    records = orders.page()["Records"]
    assert [record["Data"] for record in records] == [b"0", b"2", b"4"]
    put = [record["SequenceNumber"] for record in response["Records"] if "SequenceNumber" in record]
    assert [record["SequenceNumber"] for record in records] == put


def test_partial_put_has_the_configured_code(orders, faults):
    faults.partial_puts(every=1, code="InternalFailure")
    response = orders.put_all(b"0")
    assert outcomes(response) == ["InternalFailure"]
    assert response["Records"][0]["ErrorMessage"]


def test_put_whose_records_all_fail_succeeds_as_a_call(orders, faults):
    faults.partial_puts(every=1)
    response = orders.put_all(b"0", b"1")
    assert (response["FailedRecordCount"], len(response["Records"])) == (2, 2)
    assert orders.data() == []


def test_partial_put_of_a_shard_does_not_affect_other_shards(orders, faults):
    faults.partial_puts(every=1, shard_id=B)
    response = orders.put_all(b"0", b"1", b"2", b"3", shard_ids=(A, B))
    assert [outcome == "put" for outcome in outcomes(response)] == [True, False, True, False]
    assert (orders.data(A), orders.data(B)) == ([b"0", b"2"], [])


def test_failed_records_can_be_retried_until_all_are_in_the_stream(orders, faults):
    faults.partial_puts()
    left = [b"%d" % number for number in range(9)]
    calls = 0
    while left:
        response = orders.put_all(*left)
        left = [data for data, outcome in zip(left, outcomes(response), strict=True) if outcome != "put"]
        calls += 1
    assert calls == 4
    assert Counter(orders.data()) == Counter(b"%d" % number for number in range(9))


def test_partial_put_adds_to_the_records_that_the_limits_reject(orders, faults):
    faults.enforce_limits()
    faults.partial_puts(every=3, code="InternalFailure")
    response = orders.put_all(*[b"0" * 400_000] * 4)
    throttled = "ProvisionedThroughputExceededException"
    assert outcomes(response) == ["put", "put", "InternalFailure", throttled]
    assert response["FailedRecordCount"] == 2


def test_put_that_the_service_rejects_is_rejected_as_a_whole(orders, faults, rejected):
    faults.partial_puts()
    with rejected("ValidationException"):
        orders.put_all(b"0" * 2_000_000, b"1")


# Custom changes


def test_answer_can_be_replaced(orders, faults):
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][1:]))
    assert orders.shard_ids() == [B]


def test_answer_is_unchanged_if_the_function_returns_none(orders, faults):
    faults.answer("ListShards", lambda *_: None)
    assert orders.shard_ids() == [A, B]


def test_function_that_changes_an_answer_receives_the_call(orders, faults):
    calls = []
    faults.answer("GetRecords", lambda call, _: calls.append((call.stream, call.shard_id)))
    orders.page(shard_id=B)
    assert calls == [(orders.name, B)]


def test_answer_can_be_an_error_after_the_call_took_effect(orders, faults, rejected):
    faults.answer("PutRecord", lambda _, response: response.error("InternalFailure", 500))
    with rejected("InternalFailure", 500):
        orders.put(b"put, but not acknowledged")
    assert orders.data() == [b"put, but not acknowledged"]


@pytest.mark.parametrize("in_place", [False, True])
def test_arguments_of_a_request_can_be_replaced(orders, faults, in_place):
    def to_other_shard(arguments):
        if not in_place:
            return {**arguments, "ExplicitHashKey": str(2**128 - 1)}
        arguments["ExplicitHashKey"] = str(2**128 - 1)
        return arguments

    faults.request("PutRecord", to_other_shard)
    orders.put(b"0", shard_id=A)
    assert (orders.data(A), orders.data(B)) == ([], [b"0"])
    (call,) = (call for call in faults.calls if call.operation == "PutRecord")
    assert call.arguments["ExplicitHashKey"] == "0"


# Contradictory responses


def test_null_iterator_keeps_the_records_and_has_no_child_shards(orders, faults):
    orders.put(b"0")
    faults.null_iterator(times=1)
    page = orders.page()
    assert [record["Data"] for record in page["Records"]] == [b"0"]
    assert "NextShardIterator" not in page
    assert "NextShardIterator" in orders.page()


def test_null_iterator_at_the_end_of_a_closed_shard_has_no_child_shards(orders, faults):
    orders.client.split_shard(StreamName=orders.name, ShardToSplit=A, NewStartingHashKey="1000")
    faults.null_iterator(times=1)
    assert "ChildShards" not in orders.page()
    assert len(orders.page()["ChildShards"]) == 2


def shards_listed(orders):
    """Return the listed shards, and whether each is open."""
    listed = orders.client.list_shards(StreamName=orders.name)["Shards"]
    return {shard["ShardId"]: "EndingSequenceNumber" not in shard["SequenceNumberRange"] for shard in listed}


def test_stale_list_is_the_list_before_the_last_reshard(orders, faults):
    before = shards_listed(orders)
    orders.client.split_shard(StreamName=orders.name, ShardToSplit=A, NewStartingHashKey="1000")
    between = shards_listed(orders)
    orders.client.merge_shards(
        StreamName=orders.name,
        ShardToMerge="shardId-000000000002",
        AdjacentShardToMerge="shardId-000000000003",
    )
    faults.stale_list(times=1)
    assert shards_listed(orders) == between
    faults.clear()
    faults.stale_list(reshards=2)
    assert shards_listed(orders) == before == {A: True, B: True}


def test_stale_list_of_a_shared_stream_is_its_list_before_the_last_reshard(orders, faults, second_account):
    orders.client.split_shard(StreamName=orders.name, ShardToSplit=A, NewStartingHashKey="1000")
    faults.stale_list()
    listed = second_account.list_shards(StreamARN=orders.arn)["Shards"]
    assert [shard["ShardId"] for shard in listed] == [A, B]


def test_stale_list_of_a_stream_that_was_never_resharded_is_the_current_list(orders, faults):
    faults.stale_list(reshards=3)
    assert shards_listed(orders) == {A: True, B: True}


def test_skewed_date_is_off_by_the_configured_seconds(clocked, faults):
    client = clocked.kinesis
    faults.skew_date(3600, "ListStreams", times=1)
    faults.skew_date(-3600, "ListStreams", after=1, times=1)
    dates = [
        parsedate_to_datetime(client.list_streams()["ResponseMetadata"]["HTTPHeaders"]["date"]).timestamp()
        for _ in range(3)
    ]
    assert dates == [int(clocked.clock.seconds) + skew for skew in (3600, -3600, 0)]
