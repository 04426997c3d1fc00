"""Which calls a fault affects, and how calls are recorded."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

A, B = "shardId-000000000000", "shardId-000000000001"


def codes(calls):
    """Return the result of each call: a dot, or the code of its error."""
    return [code(call) for call in calls]


def code(call):
    try:
        call()
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "."


@pytest.fixture
def page(orders):
    """Read a page; the iterators are created before any fault."""
    iterators = {shard_id: orders.iterator(shard_id) for shard_id in (A, B)}
    return lambda shard_id=A: orders.page(iterators[shard_id])


def test_fault_affects_every_call_until_it_is_cleared(faults, page):
    faults.fail(code="X")
    assert codes([page] * 3) == ["X", "X", "X"]
    faults.clear()
    assert codes([page]) == ["."]


def test_fault_skips_and_affects_the_configured_numbers_of_calls(faults, page):
    faults.fail(code="X", after=2, times=3)
    assert codes([page] * 7) == [".", ".", "X", "X", "X", ".", "."]


def test_fault_counts_calls_from_its_injection(faults, page):
    page()
    faults.fail(code="X", after=1, times=1)
    assert codes([page] * 3) == [".", "X", "."]


def test_fault_of_a_shard_ignores_other_shards(faults, page):
    faults.fail(code="X", shard_id=B, after=1, times=1)
    assert codes([page, page, lambda: page(B), page, lambda: page(B), lambda: page(B)]) == [
        ".",
        ".",
        ".",
        ".",
        "X",
        ".",
    ]


def test_fault_of_an_operation_ignores_other_operations(orders, faults, page):
    faults.fail("ListShards", code="X", after=1)
    assert codes([page, page, orders.shard_ids, page, orders.shard_ids]) == [".", ".", ".", ".", "X"]


def test_fault_of_a_stream_ignores_other_streams(orders, faults, page):
    other = f"{orders.name}-other"
    orders.client.create_stream(StreamName=other, ShardCount=1)
    faults.fail("DescribeStreamSummary", code="X", stream=other, after=1)
    faults.fail(code="X", stream=other)
    describe = orders.client.describe_stream_summary
    mine, others = (lambda name=name: describe(StreamName=name) for name in (orders.name, other))
    assert codes([mine, mine, others, mine, others, page]) == [".", ".", ".", ".", "X", "."]


def test_call_that_a_fault_has_answered_is_not_counted_by_later_faults(faults, page):
    faults.fail(code="X", after=1, times=2)
    faults.fail(code="Y", after=1, times=2)
    assert codes([page] * 6) == [".", "X", "X", "Y", "Y", "."]


def test_faults_of_different_kinds_apply_in_order(orders, faults):
    orders.put(b"0")
    iterator = orders.iterator()
    faults.reset(times=1)
    faults.cut_body(times=1)
    faults.empty_page(times=1)
    faults.throttle(times=1)
    with pytest.raises(ConnectionClosedError):
        orders.page(iterator)
    assert "Records" not in orders.page(iterator)
    assert orders.page(iterator)["Records"] == []
    with pytest.raises(ClientError):
        orders.page(iterator)
    assert len(orders.page(iterator)["Records"]) == 1


def test_faults_that_only_observe_or_change_apply_to_every_call(orders, faults):
    orders.put(b"0", b"1")
    iterator = orders.iterator()
    done = []
    faults.throttle(times=1)
    faults.before("GetRecords", lambda: done.append(1))
    faults.page_size(1)
    faults.answer("GetRecords", lambda call, _: done.append(call.arguments["Limit"]))
    with pytest.raises(ClientError):
        orders.page(iterator)
    assert len(orders.page(iterator)["Records"]) == 1
    assert done == [1, 1, 1, 1]


def test_first_change_of_an_answer_is_applied_last(orders, faults):
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][:1]))
    faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][::-1]))
    assert orders.shard_ids() == [B]


@pytest.mark.slow
def test_fault_affects_the_configured_number_of_calls_across_threads(faults, page):
    faults.fail(code="X", after=20, times=50)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: code(page), range(100)))
    assert results.count("X") == 50


@pytest.mark.slow
def test_fault_can_be_injected_during_calls(faults, page):
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(code, page) for _ in range(50)]
        faults.fail(code="X", times=3)
        reads += [pool.submit(code, page) for _ in range(50)]
        results = [read.result() for read in reads]
    assert (results.count("X"), results.count(".")) == (3, 97)


# Recorded calls


def test_calls_are_recorded_in_order_with_their_arguments(orders, faults):
    orders.put(b"0")
    iterator = orders.iterator()
    orders.page(iterator)
    put, get_iterator, read = faults.calls
    assert [call.operation for call in faults.calls] == ["PutRecord", "GetShardIterator", "GetRecords"]
    assert put.arguments["Data"] == "MA=="
    assert get_iterator.arguments["ShardIteratorType"] == "TRIM_HORIZON"
    assert read.arguments == {"ShardIterator": iterator}
    assert put.at <= get_iterator.at <= read.at


def test_call_knows_its_shard_and_stream_from_any_argument(orders, faults):
    orders.put(b"0", shard_id=B)
    orders.client.put_record(StreamName=orders.name, Data=b"0", PartitionKey="1")
    page = orders.page(orders.iterator(B))
    orders.page(page["NextShardIterator"])
    assert {call.stream for call in faults.calls} == {orders.name}
    assert [call.shard_id for call in faults.calls] == [B, faults_shard(orders, "1"), B, B, B]


def faults_shard(orders, key):
    response = orders.client.put_record(StreamName=orders.name, Data=b"0", PartitionKey=key)
    return response["ShardId"]


def test_shard_is_known_from_an_iterator_of_before_the_faults_were_cleared(orders, faults):
    iterator = orders.iterator(B)
    faults.clear()
    orders.page(iterator)
    assert faults.count("GetRecords", B) == 1


def test_stream_is_known_from_an_arn_or_a_token(orders, faults):
    summary = orders.client.describe_stream_summary(StreamName=orders.name)
    arn = summary["StreamDescriptionSummary"]["StreamARN"]
    token = orders.client.list_shards(StreamARN=arn, MaxResults=1)["NextToken"]
    orders.client.list_shards(NextToken=token)
    assert [call.stream for call in faults.calls] == [orders.name] * 3


def test_call_without_a_stream_has_none(orders, faults):
    orders.client.list_streams()
    (call,) = faults.calls
    assert (call.stream, call.shard_id) == (None, None)


@pytest.mark.parametrize("operation", ["get_records", "put_record"])
def test_invalid_call_is_rejected_by_the_service(orders, faults, operation):
    arguments = {
        "get_records": {"ShardIterator": "none"},
        "put_record": {"StreamName": "none", "Data": b"", "PartitionKey": "k"},
    }
    with pytest.raises(ClientError):
        getattr(orders.client, operation)(**arguments[operation])
    (call,) = faults.calls
    assert call.shard_id is None


def test_invalid_json_is_rejected_by_the_service(faults, local_kinesis):
    connection = HTTPConnection("127.0.0.1", local_kinesis.port)
    headers = {"X-Amz-Target": "Kinesis_20131202.ListStreams", "Content-Type": "application/x-amz-json-1.1"}
    connection.request("POST", "/", b"{", headers)
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["__type"]) == (400, "SerializationException")
    connection.close()
    assert [(call.operation, call.arguments) for call in faults.calls] == [("ListStreams", {})]


def test_calls_are_counted_by_operation_and_shard(orders, faults):
    orders.page(shard_id=A)
    orders.page(shard_id=B)
    orders.page(shard_id=B)
    assert faults.count("GetRecords") == 3
    assert faults.count("GetRecords", B) == 2
    assert faults.count("ListShards") == 0


def test_failed_call_is_recorded(faults, page):
    faults.fail(code="X")
    codes([page])
    assert faults.count("GetRecords", A) == 1


def test_clear_deletes_the_recorded_calls(faults, page):
    page()
    faults.clear()
    assert faults.calls == []


def test_call_for_the_tags_of_a_stream_is_a_call_for_the_stream(orders, faults, rejected):
    faults.throttle("ListTagsForResource", stream="another")
    assert orders.client.list_tags_for_resource(ResourceARN=orders.arn)["Tags"] == []
    faults.throttle("ListTagsForResource", stream=orders.name)
    with rejected("ProvisionedThroughputExceededException"):
        orders.client.list_tags_for_resource(ResourceARN=orders.arn)
