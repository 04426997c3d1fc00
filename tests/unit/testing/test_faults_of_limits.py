"""The limits of a shard per second."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
from botocore.exceptions import ClientError

from benchmarks.harness.waiting import wait_until
from kinesis_assets.testing import Clock
from support.http2 import Http2Client

A, B = "shardId-000000000000", "shardId-000000000001"
THROTTLED = "ProvisionedThroughputExceededException"
MIB = 1024 * 1024


@pytest.fixture
def machine():
    """The clock that the limits use, which the test advances."""
    machine = Clock()
    machine.seconds = 1000.0
    return machine


def outcomes(response):
    return Counter(record.get("ErrorCode", "put") for record in response["Records"])


def test_sixth_read_of_a_shard_within_a_second_is_throttled(orders, faults, rejected, machine):
    iterator = orders.iterator()
    faults.enforce_limits(machine)
    for _ in range(5):
        orders.page(iterator)
        machine.seconds += 0.125
    with rejected(THROTTLED):
        orders.page(iterator)
    machine.seconds = 1001.0
    orders.page(iterator)
    with rejected(THROTTLED):
        orders.page(iterator)


def test_each_shard_has_its_own_limit(orders, faults, machine):
    first, second = orders.iterator(A), orders.iterator(B)
    faults.enforce_limits(machine)
    for iterator in [first, second] * 5:
        orders.page(iterator)


def test_throttled_read_does_not_count(orders, faults, rejected, machine):
    iterator = orders.iterator()
    faults.enforce_limits(machine)
    for _ in range(5):
        orders.page(iterator)
    for _ in range(9):
        machine.seconds += 0.1
        with rejected(THROTTLED):
            orders.page(iterator)
    machine.seconds = 1001.0
    orders.page(iterator)


@pytest.mark.slow
@pytest.mark.parametrize(("records", "seconds"), [(10, 5.0), (4, 2.0), (1, 0.5)])
def test_next_read_is_throttled_for_as_long_as_the_bytes_of_the_last_one_take(
    orders, faults, rejected, machine, records, seconds
):
    for _ in range(records):
        orders.put(b"0" * (MIB - 1))  # and one byte of partition key
    faults.enforce_limits(machine)
    iterator = orders.page()["NextShardIterator"]
    machine.seconds += seconds - 0.01
    with rejected(THROTTLED):
        orders.page(iterator)
    machine.seconds += 0.01
    orders.page(iterator)


@pytest.mark.slow
def test_limits_use_the_clock_of_the_machine_by_default(orders, faults):
    half = b"0" * (MIB // 2 - 1)  # and one byte of partition key
    faults.enforce_limits()
    assert outcomes(orders.put_all(half, half, half)) == {"put": 2, THROTTLED: 1}
    wait_until(lambda: outcomes(orders.put_all(half, half)) == {"put": 2})


def test_injected_throttling_does_not_count_towards_the_limits(orders, faults, rejected, machine):
    iterator = orders.iterator()
    faults.enforce_limits(machine)
    faults.throttle(times=9)
    for _ in range(9):
        with rejected(THROTTLED):
            orders.page(iterator)
    for _ in range(5):
        orders.page(iterator)


@pytest.mark.slow
def test_records_above_a_thousand_per_second_fail_only_in_their_shard(orders, faults, machine):
    faults.enforce_limits(machine)
    batch = [b"%d" % number for number in range(500)]
    assert outcomes(orders.put_all(*batch)) == {"put": 500}
    machine.seconds += 0.5
    assert outcomes(orders.put_all(*batch[:400])) == {"put": 400}
    response = orders.put_all(*batch[:400], shard_ids=(A, B))
    assert outcomes(response) == {"put": 300, THROTTLED: 100}
    assert response["FailedRecordCount"] == 100
    assert len(orders.data(A)) == 1000
    assert len(orders.data(B)) == 200
    machine.seconds += 0.5
    assert outcomes(orders.put_all(*batch)) == {"put": 500}


def test_records_above_a_mebibyte_per_second_fail(orders, faults, rejected, machine):
    faults.enforce_limits(machine)
    part = b"0" * (MIB // 4 - 1)  # and one byte of partition key
    response = orders.put_all(part, part, part, part, b"", b"0")
    assert outcomes(response) == {"put": 4, THROTTLED: 2}
    with rejected(THROTTLED):
        orders.put(b"0")
    machine.seconds += 1
    assert outcomes(orders.put_all(part, part, part, part)) == {"put": 4}


def test_request_that_the_service_refuses_is_refused_whatever_the_limits(orders, faults, rejected, machine):
    too_many = [b"0" * 1_000_000] * 12
    faults.enforce_limits(machine)
    with rejected("InvalidArgumentException"):
        orders.put_all(*too_many)
    faults.clear()
    faults.partial_puts()
    with rejected("InvalidArgumentException"):
        orders.put_all(*too_many)
    assert orders.data() == []


def test_streams_of_one_name_in_two_accounts_have_their_own_limits(orders, faults, machine, second_account):
    faults.enforce_limits(machine)
    for _ in range(5):
        orders.page()
    place = {"StreamName": orders.name, "ShardId": A, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = second_account.get_shard_iterator(**place)["ShardIterator"]
    assert second_account.get_records(ShardIterator=iterator)["Records"] == []


def test_repeated_page_counts_as_one_read(orders, faults, machine):
    orders.put(b"0", b"1")
    faults.enforce_limits(machine)
    faults.repeat_page()
    iterator = orders.page()["NextShardIterator"]
    machine.seconds += 1
    assert [record["Data"] for record in orders.page(iterator)["Records"]] == [b"1"]


def test_single_record_above_the_limit_is_accepted(orders, faults, rejected, machine):
    arn = orders.client.describe_stream_summary(StreamName=orders.name)["StreamDescriptionSummary"][
        "StreamARN"
    ]
    orders.client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=2048)
    faults.enforce_limits(machine)
    orders.put(b"0" * 2_000_000)
    with rejected(THROTTLED):
        orders.put(b"0")
    machine.seconds += 1
    orders.put(b"0")


def test_clear_removes_the_limits(orders, faults, machine):
    iterator = orders.iterator()
    faults.enforce_limits(machine)
    faults.clear()
    for _ in range(6):
        orders.page(iterator)


@pytest.fixture
def arn(orders):
    summary = orders.client.describe_stream_summary(StreamName=orders.name)
    return summary["StreamDescriptionSummary"]["StreamARN"]


@pytest.fixture
def consumer(orders, arn):
    """The members of SubscribeToShard, for a consumer of shard A."""
    registered = orders.client.register_stream_consumer(StreamARN=arn, ConsumerName="reader")["Consumer"]
    position = {"Type": "TRIM_HORIZON"}
    return {"ConsumerARN": registered["ConsumerARN"], "ShardId": A, "StartingPosition": position}


@pytest.mark.slow
def test_subscription_sends_the_next_event_when_the_bytes_of_the_last_one_have_passed(
    orders, faults, consumer, machine, local_kinesis
):
    for _ in range(2):
        orders.put(b"0" * (MIB - 1))  # and one byte of partition key
    faults.enforce_limits(machine)
    with closing(Http2Client(local_kinesis)) as client:
        events = client.request("SubscribeToShard", **consumer).events()
        assert len(next(events)["Records"]) == 1
        machine.seconds += 0.49
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            next(events)
    with closing(Http2Client(local_kinesis)) as client:
        other = orders.client.register_stream_consumer(
            StreamARN=consumer["ConsumerARN"].partition("/consumer/")[0], ConsumerName="other"
        )
        consumer["ConsumerARN"] = other["Consumer"]["ConsumerARN"]
        events = client.request("SubscribeToShard", **consumer).events()
        assert len(next(events)["Records"]) == 1
        machine.seconds += 0.5
        assert len(next(events)["Records"]) == 1


def test_second_subscription_within_a_second_is_refused_for_the_same_shard(orders, faults, consumer, machine):
    faults.enforce_limits(machine)

    def code(**changed):
        with pytest.raises(ClientError) as caught:
            orders.client.subscribe_to_shard(**consumer | {"DryRun": True} | changed)
        return caught.value.response["Error"]["Code"]

    assert code() == "DryRunOperationException"
    assert code() == "LimitExceededException"
    assert code(ShardId=B) == "DryRunOperationException"
    machine.seconds += 1
    assert code() == "DryRunOperationException"


@pytest.mark.parametrize(
    ("operation", "limit"),
    [("describe_stream_consumer", 20), ("list_stream_consumers", 5), ("deregister_stream_consumer", 5)],
)
def test_calls_for_the_consumers_of_a_stream_are_limited(orders, arn, faults, machine, operation, limit):
    faults.enforce_limits(machine)
    named = {"StreamARN": arn} | ({"ConsumerName": "missing"} if "list" not in operation else {})

    def code():
        try:
            getattr(orders.client, operation)(**named)
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "."

    codes = [code() for _ in range(limit + 1)]
    assert [each == "LimitExceededException" for each in codes] == [*[False] * limit, True]
    machine.seconds += 1
    assert code() != "LimitExceededException"


def test_registrations_of_an_account_are_limited(orders, arn, faults, rejected, machine):
    faults.enforce_limits(machine)
    for name in "abcde":
        orders.client.register_stream_consumer(StreamARN=arn, ConsumerName=name)
    with rejected("LimitExceededException"):
        orders.client.register_stream_consumer(StreamARN=arn, ConsumerName="f")
    machine.seconds += 1
    orders.client.register_stream_consumer(StreamARN=arn, ConsumerName="f")
