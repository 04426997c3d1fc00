"""Faults of the service: the error that a client receives, and that the call has no effect."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from kinesis_assets.errors import InvalidInput


def test_throttled_read_fails_with_its_code(orders, faults, rejected):
    iterator = orders.iterator()
    faults.throttle()
    with rejected("ProvisionedThroughputExceededException"):
        orders.page(iterator)


def test_throttling_has_the_configured_code(orders, faults, rejected):
    faults.throttle("ListShards", code="LimitExceededException")
    with rejected("LimitExceededException"):
        orders.shard_ids()


def test_throttled_put_has_no_effect(orders, faults, rejected):
    faults.throttle("PutRecord")
    with rejected("ProvisionedThroughputExceededException"):
        orders.put(b"lost")
    assert orders.data() == []


def test_error_message_names_the_test_kit(orders, faults):
    faults.throttle()
    with pytest.raises(ClientError, match=r"a fault of kinesis_assets\.testing"):
        orders.page()


def test_expired_iterator_fails_and_a_new_one_works(orders, faults, rejected):
    orders.put(b"0")
    faults.expire(times=1)
    with rejected("ExpiredIteratorException"):
        orders.page()
    assert orders.data() == [b"0"]


def test_expired_token_of_the_shard_list_fails(orders, faults, rejected):
    first = orders.client.list_shards(StreamName=orders.name, MaxResults=1)
    faults.expire("ListShards")
    with rejected("ExpiredNextTokenException"):
        orders.shard_ids(NextToken=first["NextToken"])


def test_failure_of_the_service_is_http_500(orders, faults, rejected):
    faults.fail()
    with rejected("InternalFailure", 500):
        orders.page()


def test_failure_has_the_configured_status_and_code(orders, faults, rejected):
    faults.fail("DescribeStreamSummary", status=503, code="ServiceUnavailable")
    with rejected("ServiceUnavailable", 503):
        orders.created()


def test_second_page_of_the_shard_list_fails(orders, faults, rejected):
    faults.page_size(1, "ListShards")
    faults.fail("ListShards", after=1)
    first = orders.client.list_shards(StreamName=orders.name)
    assert len(first["Shards"]) == 1
    with rejected("InternalFailure", 500):
        orders.shard_ids(NextToken=first["NextToken"])


def test_error_has_the_headers_of_the_service(clocked, faults):
    faults.fail("ListStreams", status=400, code="AccessDeniedException")
    clocked.clock.seconds = 1_900_000_000.0
    with pytest.raises(ClientError) as caught:
        clocked.kinesis.list_streams()
    headers = caught.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert headers["date"] == "Sun, 17 Mar 2030 17:46:40 GMT"
    assert headers["content-type"] == "application/x-amz-json-1.1"
    assert headers["x-amzn-requestid"]


@pytest.mark.parametrize(
    "inject",
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
def test_fault_that_can_never_apply_is_invalid_input(faults, inject):
    with pytest.raises(InvalidInput):
        inject(faults)
