"""The service refuses: what a client sees, and that nothing was done."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from kinesis_assets.errors import InvalidInput


def test_throttled_read_is_refused_for_its_rate(orders, faults, refused):
    iterator = orders.iterator()
    faults.throttle()
    with refused("ProvisionedThroughputExceededException"):
        orders.page(iterator)


def test_throttling_has_the_code_that_is_asked_for(orders, faults, refused):
    faults.throttle("ListShards", code="LimitExceededException")
    with refused("LimitExceededException"):
        orders.shard_ids()


def test_throttled_put_is_not_put(orders, faults, refused):
    faults.throttle("PutRecord")
    with refused("ProvisionedThroughputExceededException"):
        orders.put(b"lost")
    assert orders.data() == []


def test_refusal_tells_that_it_is_a_fault_of_the_kit(orders, faults):
    faults.throttle()
    with pytest.raises(ClientError, match=r"a fault of kinesis_assets\.testing"):
        orders.page()


def test_expired_iterator_is_refused_as_such_and_a_fresh_one_goes_on(orders, faults, refused):
    orders.put(b"0")
    faults.expire(times=1)
    with refused("ExpiredIteratorException"):
        orders.page()
    assert orders.data() == [b"0"]


def test_expired_page_token_of_the_shard_list_is_refused_as_such(orders, faults, refused):
    first = orders.client.list_shards(StreamName=orders.name, MaxResults=1)
    faults.expire("ListShards")
    with refused("ExpiredNextTokenException"):
        orders.shard_ids(NextToken=first["NextToken"])


def test_failure_of_the_service_is_http_500(orders, faults, refused):
    faults.fail()
    with refused("InternalFailure", 500):
        orders.page()


def test_failure_has_the_status_and_code_that_are_asked_for(orders, faults, refused):
    faults.fail("DescribeStreamSummary", status=503, code="ServiceUnavailable")
    with refused("ServiceUnavailable", 503):
        orders.created()


def test_second_page_of_the_shard_list_fails(orders, faults, refused):
    faults.page_size(1, "ListShards")
    faults.fail("ListShards", after=1)
    first = orders.client.list_shards(StreamName=orders.name)
    assert len(first["Shards"]) == 1
    with refused("InternalFailure", 500):
        orders.shard_ids(NextToken=first["NextToken"])


def test_refusal_has_the_headers_of_the_service(clocked, faults):
    faults.fail("ListStreams", status=400, code="AccessDeniedException")
    clocked.clock.seconds = 1_900_000_000.0
    with pytest.raises(ClientError) as caught:
        clocked.kinesis.list_streams()
    headers = caught.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert headers["date"] == "Sun, 17 Mar 2030 17:46:40 GMT"
    assert headers["content-type"] == "application/x-amz-json-1.1"
    assert headers["x-amzn-requestid"]


@pytest.mark.parametrize(
    "told",
    [
        lambda faults: faults.throttle("GetRecord"),
        lambda faults: faults.count("GetRecord"),
        lambda faults: faults.fail(after=-1),
        lambda faults: faults.fail(times=0),
        lambda faults: faults.cut_body(kept=1),
        lambda faults: faults.cut_body(kept=-0.1),
        lambda faults: faults.page_size(1, "PutRecords"),
        lambda faults: faults.partial_puts(every=0),
    ],
)
def test_fault_that_would_never_be_seen_is_invalid_input(faults, told):
    with pytest.raises(InvalidInput):
        told(faults)
