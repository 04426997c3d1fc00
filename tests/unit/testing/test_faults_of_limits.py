"""The limits of a shard per second."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.harness.waiting import wait_until
from kinesis_assets.testing import Clock

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
