"""What a reading keeps after failed calls, throttling and incorrect pages."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kinesis_assets.errors import ReadFailed, ShardStalled
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from support.mentions import assert_mentions
from support.one_shard import ALL_KEYS, BEGINNING, SHARD, items
from support.timing import EXACT, READING, set_timing

# Faults


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("KMSAccessDeniedException", ["kms:Decrypt", "policy", "another account"]),
        ("KMSDisabledException", ["is disabled", "enable it"]),
        ("KMSInvalidStateException", ["state Enabled", "aws kms describe-key", "deletion"]),
        ("KMSNotFoundException", ["deleted", "another key"]),
        ("KMSOptInRequired", ["Subscribe"]),
    ],
)
def test_an_error_of_the_streams_key_says_what_to_do_and_is_not_retried(
    put, reading_of, faults, code, advice
):
    put(0)
    faults.fail(status=400, code=code)
    with pytest.raises(ReadFailed) as raised:
        items(reading_of())
    assert_mentions(str(raised.value), SHARD, code, *advice)
    assert faults.count("GetRecords") == 1


def test_an_expired_iterator_is_replaced_at_the_exact_position(put, reading_of, faults):
    numbers = put(*range(6))
    faults.page_size(2)
    faults.expire(after=1, times=1)
    assert items(reading_of()) == list(range(6))
    first, second = (call.arguments for call in faults.calls if call.operation == "GetShardIterator")
    assert first["ShardIteratorType"] == "TRIM_HORIZON"
    assert (second["ShardIteratorType"], second["StartingSequenceNumber"]) == (
        "AFTER_SEQUENCE_NUMBER",
        numbers[1],
    )


def test_an_iterator_that_expires_between_pages_neither_loses_nor_duplicates_records(
    clocked, clocked_client, stream, faults
):
    clocked.kinesis.create_stream(StreamName=stream, ShardCount=1)
    for item in range(6):
        clocked.kinesis.put_record(StreamName=stream, Data=str(item).encode(), PartitionKey="k")
    faults.page_size(2)
    reading = ShardReading(clocked_client, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS))
    read = []
    for records in reading:
        read += [int(record.data) for record in records]
        assert read == list(range(len(read)))
        clocked.clock.seconds += 301
    assert len(read) == 6
    assert faults.count("GetShardIterator") == 3


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_truncated_response_is_requested_again_without_loss_or_duplicates(put, reading_of, faults, kept):
    put(*range(6))
    faults.page_size(2)
    faults.cut_body(kept=kept, after=1, times=1)
    assert items(reading_of()) == list(range(6))
    assert faults.count("GetRecords") == 4


def test_a_reading_fails_after_bounded_attempts_and_names_shard_and_position(put, reading_of, faults):
    numbers = put(*range(4))
    faults.page_size(2)
    faults.answer("GetRecords", lambda _, response: response.with_body(b"{}"), after=1)
    reading = reading_of()
    with pytest.raises(ReadFailed) as caught:
        items(reading)
    assert caught.value.shard_id == SHARD
    assert f"AFTER_SEQUENCE_NUMBER:{numbers[1]}" in str(caught.value)
    assert faults.count("GetRecords") == 1 + 6


def test_attempts_are_counted_per_page(put, reading_of, faults):
    put(*range(4))
    faults.page_size(1)
    # Every other response is truncated: more failures in total than one page tolerates.
    faults.answer(
        "GetRecords",
        lambda _, response: response.with_body(b"{}") if faults.count("GetRecords") % 2 else None,
    )
    assert items(reading_of()) == [0, 1, 2, 3]


def test_an_error_after_some_pages_keeps_their_position_and_counts(put, reading_of, faults):
    numbers = put(*range(6))
    faults.page_size(2)
    faults.fail(status=400, code="AccessDeniedException", after=2)
    reading = reading_of()
    read = []
    with pytest.raises(ReadFailed, match="AccessDeniedException"):
        read.extend(int(record.data) for records in reading for record in records)
    assert reading.position == Position.after(numbers[3])
    assert (reading.records, reading.bytes, reading.end) == (4, 4, None)


def test_a_permanent_error_is_not_retried(put, reading_of, faults):
    put(0)
    faults.fail(status=400, code="AccessDeniedException")
    with pytest.raises(ReadFailed):
        items(reading_of())
    assert faults.count("GetRecords") == 1


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
def test_resource_not_found_is_never_the_shards_end(put, reading_of, faults, operation):
    put(0)
    faults.fail(operation, status=400, code="ResourceNotFoundException")
    reading = reading_of()
    with pytest.raises(ReadFailed, match="ResourceNotFoundException"):
        items(reading)
    assert (reading.end, reading.position) == (None, BEGINNING)


def test_a_stream_deleted_during_a_reading_fails_it(kinesis, put, stream, reading_of, faults):
    put(0, 1)
    faults.page_size(1)
    reading = reading_of()
    pages = iter(reading)
    next(pages)
    kinesis.delete_stream(StreamName=stream)
    with pytest.raises(ReadFailed):
        next(pages)
    assert reading.end is None


@pytest.mark.usefixtures("sdk_waits")
@pytest.mark.parametrize("error", [("ProvisionedThroughputExceededException", 400), ("InternalFailure", 500)])
def test_transient_errors_neither_lose_nor_duplicate_records(put, reading_of, faults, error):
    put(*range(4))
    faults.page_size(2)
    faults.answer(
        "GetRecords",
        lambda _, response: response.error(*error) if faults.count("GetRecords") in (1, 3, 4) else None,
    )
    assert items(reading_of()) == [0, 1, 2, 3]


def test_at_most_five_pages_per_second_are_requested(put, reading_of, faults, virtual):
    put(*range(11))
    faults.page_size(1)
    began = virtual.now
    items(reading_of())
    assert faults.count("GetRecords") == 11
    assert virtual.now - began == pytest.approx(10 * 0.2)


# Throttling, empty pages, closed shards


@pytest.fixture
def worker(stream, settings, virtual):
    """A client like that of a Spark task: the SDK does not retry, and back-off takes no time."""
    timing = replace(EXACT, page_retries=READING.page_retries, clock=virtual)
    return StreamClient(stream, replace(settings, timing=timing), attempts=1)


@pytest.fixture
def worker_reading(worker):
    """Create a reading that uses that client."""
    return lambda **fields: ShardReading(worker, ShardRange(SHARD, BEGINNING, Bounds(), ALL_KEYS, **fields))


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "KMSThrottlingException"])
def test_throttling_is_retried_however_often_it_occurs(put, worker_reading, faults, code):
    put(*range(3))
    faults.throttle(code=code, times=12)
    assert items(worker_reading()) == [0, 1, 2]
    assert faults.count("GetShardIterator") == 1


def test_endless_throttling_fails_once_the_shard_counts_as_stalled(put, worker_reading, faults, worker):
    set_timing(worker, stall_seconds=0.5)
    put(0)
    faults.throttle()
    with pytest.raises(ReadFailed, match="ProvisionedThroughputExceeded"):
        items(worker_reading())


@pytest.mark.parametrize("status", [500, 503])
def test_server_errors_are_retried(put, worker_reading, faults, status):
    put(0, 1)
    faults.fail(status=status, times=2)
    assert items(worker_reading()) == [0, 1]


def test_empty_pages_that_approach_the_tip_are_not_a_stall(put, reading_of, faults, client):
    set_timing(client, stall_seconds=0.3)
    put(0)
    behind = iter(range(80_000, 0, -10_000))
    faults.answer(
        "GetRecords",
        lambda call, response: response.but(
            Records=[], MillisBehindLatest=next(behind), NextShardIterator=call.arguments["ShardIterator"]
        ),
        times=8,
    )
    assert items(reading_of()) == [0]


def test_empty_pages_that_approach_the_tip_slower_than_real_time_are_a_stall(put, reading_of, faults, client):
    set_timing(client, stall_seconds=0.5)
    put(0)
    behind = itertools.count(10**6, -1)
    faults.answer(
        "GetRecords",
        lambda call, response: response.but(
            Records=[], MillisBehindLatest=next(behind), NextShardIterator=call.arguments["ShardIterator"]
        ),
    )
    with pytest.raises(ShardStalled):
        items(reading_of())


def test_a_closed_shard_ends_at_its_null_iterator_and_not_at_a_lag_of_zero(
    put, split, worker_reading, faults, kinesis, stream
):
    put(0, 1)
    split()
    after = kinesis.get_shard_iterator(StreamName=stream, ShardId=SHARD, ShardIteratorType="LATEST")
    faults.answer(
        "GetRecords",
        lambda _, response: response.but(NextShardIterator=after["ShardIterator"], MillisBehindLatest=0),
        times=1,
    )
    reading = worker_reading(closed=True)
    assert items(reading) == [0, 1]
    assert reading.end is RangeEnd.SHARD_END


def test_the_call_after_a_large_page_is_delayed_by_its_bytes(put, worker_reading, faults, worker, virtual):
    set_timing(worker, bytes_per_second=10)
    put(10_000, 20_000)
    faults.page_size(1)
    items(worker_reading())
    assert max(virtual.waits) == pytest.approx(0.6)  # for five bytes of data and one of the key
