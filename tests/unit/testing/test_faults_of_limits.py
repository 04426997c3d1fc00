"""What a shard lets through in a second."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from kinesis_assets.testing import limits

A, B = "shardId-000000000000", "shardId-000000000001"
THROTTLED = "ProvisionedThroughputExceededException"
MIB = 1024 * 1024


class Machine:
    """A machine's own clock, that stands still until it is moved."""

    def __init__(self):
        self.seconds = 1000.0

    def monotonic(self):
        return self.seconds


@pytest.fixture
def machine(monkeypatch):
    """The machine's clock as the limits see it."""
    machine = Machine()
    monkeypatch.setattr(limits, "time", machine)
    return machine


def outcomes(answer):
    return Counter(record.get("ErrorCode", "put") for record in answer["Records"])


def test_sixth_read_of_a_shard_within_a_second_is_throttled(orders, faults, refused, machine):
    iterator = orders.iterator()
    faults.enforce_limits()
    for _ in range(5):
        orders.page(iterator)
        machine.seconds += 0.125
    with refused(THROTTLED):
        orders.page(iterator)
    machine.seconds = 1001.0
    orders.page(iterator)
    with refused(THROTTLED):
        orders.page(iterator)


def test_limit_is_each_shards_own(orders, faults, machine):
    del machine
    first, second = orders.iterator(A), orders.iterator(B)
    faults.enforce_limits()
    for iterator in [first, second] * 5:
        orders.page(iterator)


def test_read_that_was_throttled_does_not_count(orders, faults, refused, machine):
    iterator = orders.iterator()
    faults.enforce_limits()
    for _ in range(5):
        orders.page(iterator)
    for _ in range(9):
        machine.seconds += 0.1
        with refused(THROTTLED):
            orders.page(iterator)
    machine.seconds = 1001.0
    orders.page(iterator)


@pytest.mark.parametrize(("records", "seconds"), [(10, 5.0), (4, 2.0), (1, 0.5)])
def test_read_of_so_many_bytes_is_followed_by_the_seconds_they_take(
    orders, faults, refused, machine, records, seconds
):
    for _ in range(records):
        orders.put(b"0" * (MIB - 1))  # and one byte of partition key
    faults.enforce_limits()
    iterator = orders.page()["NextShardIterator"]
    machine.seconds += seconds - 0.01
    with refused(THROTTLED):
        orders.page(iterator)
    machine.seconds += 0.01
    orders.page(iterator)


def test_limits_go_by_the_machines_own_clock(orders, faults, refused):
    iterator = orders.iterator()
    faults.enforce_limits()
    begin = time.monotonic()
    with refused(THROTTLED):
        while time.monotonic() < begin + 10:
            orders.page(iterator)
    reads = [call.at for call in faults.calls if call.operation == "GetRecords"]
    # A loaded machine may be slow to make six reads; it never gets more than five through in a second.
    assert len(reads) >= 6
    assert reads[-1] - reads[-6] <= 1.5


def test_faults_own_throttling_uses_nothing_up(orders, faults, refused, machine):
    del machine
    iterator = orders.iterator()
    faults.enforce_limits()
    faults.throttle(times=9)
    for _ in range(9):
        with refused(THROTTLED):
            orders.page(iterator)
    for _ in range(5):
        orders.page(iterator)


def test_records_beyond_a_thousand_in_a_second_fail_in_their_shard_alone(orders, faults, machine):
    faults.enforce_limits()
    batch = [b"%d" % number for number in range(500)]
    assert outcomes(orders.put_all(*batch)) == {"put": 500}
    machine.seconds += 0.5
    assert outcomes(orders.put_all(*batch[:400])) == {"put": 400}
    answer = orders.put_all(*batch[:400], shard_ids=(A, B))
    assert outcomes(answer) == {"put": 300, THROTTLED: 100}
    assert answer["FailedRecordCount"] == 100
    assert len(orders.data(A)) == 1000
    assert len(orders.data(B)) == 200
    machine.seconds += 0.5
    assert outcomes(orders.put_all(*batch)) == {"put": 500}


def test_bytes_beyond_a_mebibyte_in_a_second_fail(orders, faults, refused, machine):
    faults.enforce_limits()
    part = b"0" * (MIB // 4 - 1)  # and one byte of partition key
    answer = orders.put_all(part, part, part, part, b"", b"0")
    assert outcomes(answer) == {"put": 4, THROTTLED: 2}
    with refused(THROTTLED):
        orders.put(b"0")
    machine.seconds += 1
    assert outcomes(orders.put_all(part, part, part, part)) == {"put": 4}


def test_record_beyond_the_limit_by_itself_is_put_when_it_is_alone(orders, faults, refused, machine):
    arn = orders.client.describe_stream_summary(StreamName=orders.name)["StreamDescriptionSummary"][
        "StreamARN"
    ]
    orders.client.update_max_record_size(StreamARN=arn, MaxRecordSizeInKiB=2048)
    faults.enforce_limits()
    orders.put(b"0" * 2_000_000)
    with refused(THROTTLED):
        orders.put(b"0")
    machine.seconds += 1
    orders.put(b"0")


def test_limits_end_with_the_faults(orders, faults, machine):
    del machine
    iterator = orders.iterator()
    faults.enforce_limits()
    faults.clear()
    for _ in range(6):
        orders.page(iterator)
