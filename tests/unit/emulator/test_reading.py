"""GetShardIterator and GetRecords."""

from datetime import UTC, datetime

import pytest

MIB = 1024 * 1024


def arrivals(stream, clock, *data):
    """Put records one second apart; return the time of each."""
    moments = []
    for each in data:
        clock.advance(1)
        stream.put(each)
        moments.append(clock())
    return moments


def at(moment):
    return datetime.fromtimestamp(moment, UTC)


def first_data(stream, kind, **more):
    return [record["Data"] for record in stream.page(stream.iterator(kind, **more))["Records"]]


def test_trim_horizon_reads_from_the_first_record(stream):
    stream.put(b"one")
    stream.put(b"two")
    assert first_data(stream, "TRIM_HORIZON") == [b"one", b"two"]


def test_latest_reads_only_records_put_after_the_iterator_was_requested(stream):
    stream.put(b"before")
    iterator = stream.iterator("LATEST")
    stream.put(b"after")
    assert [record["Data"] for record in stream.page(iterator)["Records"]] == [b"after"]


def test_at_sequence_number_includes_the_record(stream):
    _, two, _ = (stream.put(data)["SequenceNumber"] for data in (b"one", b"two", b"three"))
    assert first_data(stream, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=two) == [b"two", b"three"]


def test_after_sequence_number_excludes_the_record(stream):
    _, two, _ = (stream.put(data)["SequenceNumber"] for data in (b"one", b"two", b"three"))
    assert first_data(stream, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=two) == [b"three"]


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_the_starting_sequence_number_of_a_shard_reads_from_the_first_record(stream, kind):
    stream.put(b"one")
    start = stream.shard()["SequenceNumberRange"]["StartingSequenceNumber"]
    assert first_data(stream, kind, StartingSequenceNumber=start) == [b"one"]


def test_the_ending_sequence_number_of_a_closed_shard_is_its_end(stream):
    stream.put(b"one")
    stream.split()
    end = stream.shard()["SequenceNumberRange"]["EndingSequenceNumber"]
    page = stream.page(stream.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=end))
    assert page["Records"] == []
    assert "NextShardIterator" not in page


def test_at_timestamp_reads_from_the_first_record_at_or_after_it(stream, clock):
    _, two, _ = arrivals(stream, clock, b"one", b"two", b"three")
    assert first_data(stream, "AT_TIMESTAMP", Timestamp=at(two)) == [b"two", b"three"]
    assert first_data(stream, "AT_TIMESTAMP", Timestamp=at(two + 1)) == [b"three"]


def test_at_timestamp_has_millisecond_precision(stream, clock, call):
    clock.advance(0.001)
    stream.put(b"one")
    clock.advance(0.001)
    stream.put(b"two")
    _, response = call(
        "GetShardIterator",
        StreamName=stream.name,
        ShardId="shardId-000000000000",
        ShardIteratorType="AT_TIMESTAMP",
        Timestamp=stream.read()[1]["ApproximateArrivalTimestamp"].timestamp(),
    )
    assert [record["Data"] for record in stream.page(response["ShardIterator"])["Records"]] == [b"two"]


def test_at_timestamp_before_the_trim_horizon_is_the_trim_horizon(stream, clock):
    (one,) = arrivals(stream, clock, b"one")
    assert first_data(stream, "AT_TIMESTAMP", Timestamp=at(one - 1_000_000)) == [b"one"]


def test_at_timestamp_after_the_last_record_reads_later_records(stream, clock):
    arrivals(stream, clock, b"one")
    clock.advance(10)
    iterator = stream.iterator("AT_TIMESTAMP", Timestamp=at(clock()))
    stream.put(b"two")
    assert [record["Data"] for record in stream.page(iterator)["Records"]] == [b"two"]


def test_at_timestamp_on_an_empty_shard_reads_later_records(stream, clock):
    clock.advance(10)
    iterator = stream.iterator("AT_TIMESTAMP", Timestamp=at(clock()))
    stream.put(b"one")
    assert [record["Data"] for record in stream.page(iterator)["Records"]] == [b"one"]


def test_at_timestamp_in_the_future_is_refused(stream, clock, refused):
    with refused("InvalidArgumentException", "cannot be greater than the currentTimestampInMillis"):
        stream.iterator("AT_TIMESTAMP", Timestamp=at(clock() + 60))


def test_at_timestamp_needs_a_timestamp(stream, refused):
    with refused("InvalidArgumentException", "no timestamp parameter"):
        stream.iterator("AT_TIMESTAMP")


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_a_sequence_number_iterator_needs_a_sequence_number(stream, refused, kind):
    with refused("InvalidArgumentException", f"{kind} and no StartingSequenceNumber"):
        stream.iterator(kind)


@pytest.mark.parametrize("kind", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"])
def test_no_other_iterator_accepts_a_sequence_number(stream, refused, kind):
    number = stream.put(b"")["SequenceNumber"]
    with refused("InvalidArgumentException", f"{kind} and also a StartingSequenceNumber"):
        stream.iterator(kind, StartingSequenceNumber=number)


def test_the_sequence_number_of_another_shard_is_refused(create, refused):
    stream = create(2)
    number = stream.put_to(stream.shard(1), b"")["SequenceNumber"]
    with refused("InvalidArgumentException", "It encodes shardId-000000000001", "with shardId-000000000000"):
        stream.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=number)


def test_the_sequence_number_of_another_stream_is_refused(create, refused):
    stream, other = create(), create()
    number = other.put(b"")["SequenceNumber"]
    with refused("InvalidArgumentException", "did not come from this stream"):
        stream.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=number)


def test_an_invalid_sequence_number_is_refused(stream, refused):
    number = int(stream.put(b"")["SequenceNumber"])
    for other in ("0", "12345", str(number + 1), str(number * 10)):
        with refused("InvalidArgumentException", "is invalid"):
            stream.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=other)


def test_a_sequence_number_that_is_not_yet_assigned_is_refused(create, refused):
    stream, twin = create(), create()
    stream.put(b"")
    one, two = (int(twin.put(b"")["SequenceNumber"]) for _ in range(2))
    unborn = int(stream.read()[0]["SequenceNumber"]) + two - one
    with refused("InvalidArgumentException", "is invalid"):
        stream.iterator("AT_SEQUENCE_NUMBER", StartingSequenceNumber=str(unborn))


def test_an_iterator_of_an_unknown_shard_is_refused(stream, refused):
    with refused("ResourceNotFoundException", "shardId-000000000007"):
        stream.iterator(number=7)


def test_an_iterator_can_be_requested_by_arn(stream, client):
    stream.put(b"one")
    iterator = client.get_shard_iterator(
        StreamARN=stream.arn, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    page = client.get_records(StreamARN=stream.arn, ShardIterator=iterator)
    assert [record["Data"] for record in page["Records"]] == [b"one"]


def test_an_iterator_of_another_stream_than_the_arn_is_refused(create, refused):
    stream, other = create(), create()
    with refused("InvalidArgumentException"):
        stream.page(StreamARN=other.arn)


def test_a_limit_shortens_the_page_and_the_next_iterator_continues_after_it(stream):
    for data in (b"one", b"two", b"three"):
        stream.put(data)
    page = stream.page(Limit=2)
    assert [record["Data"] for record in page["Records"]] == [b"one", b"two"]
    rest = stream.page(page["NextShardIterator"])
    assert [record["Data"] for record in rest["Records"]] == [b"three"]


def test_an_iterator_can_be_used_again(stream):
    stream.put(b"one")
    iterator = stream.iterator()
    assert stream.page(iterator)["Records"] == stream.page(iterator)["Records"]


@pytest.mark.slow
def test_a_page_holds_10_000_records(stream, client):
    entries = [{"Data": b"", "PartitionKey": "key"}] * 500
    for _ in range(21):
        client.put_records(StreamName=stream.name, Records=entries)
    page = stream.page()
    assert len(page["Records"]) == 10_000
    assert len(stream.page(page["NextShardIterator"])["Records"]) == 500


@pytest.mark.slow
def test_a_page_holds_10_mib(stream):
    for _ in range(11):
        stream.put(bytes(MIB - 3))
    page = stream.page()
    assert len(page["Records"]) == 10
    assert len(stream.page(page["NextShardIterator"])["Records"]) == 1


def test_an_empty_page_at_the_tip_has_a_next_iterator_and_no_lag(stream):
    page = stream.page()
    assert page["Records"] == []
    assert page["MillisBehindLatest"] == 0
    stream.put(b"later")
    assert [record["Data"] for record in stream.page(page["NextShardIterator"])["Records"]] == [b"later"]


def test_millis_behind_latest_is_the_age_of_the_next_record(stream, clock):
    arrivals(stream, clock, b"one", b"two")
    clock.advance(5)
    assert stream.page(Limit=1)["MillisBehindLatest"] == 5000
    assert stream.page(Limit=2)["MillisBehindLatest"] == 0


def test_millis_behind_latest_is_never_0_while_there_is_more(stream):
    stream.put(b"one")
    stream.put(b"two")
    assert stream.page(Limit=1)["MillisBehindLatest"] == 1


def test_the_arrival_is_the_time_of_the_put_in_milliseconds(stream, clock):
    clock.advance(0.1239)
    stream.put(b"")
    (record,) = stream.read()
    assert record["ApproximateArrivalTimestamp"].timestamp() == round(clock(), 3)


def test_arrivals_never_go_back_even_if_the_clock_does(stream, clock):
    stream.put(b"one")
    clock.advance(-30)
    stream.put(b"two")
    clock.advance(30)
    one, two = (record["ApproximateArrivalTimestamp"] for record in stream.read())
    assert two >= one


def test_an_iterator_is_valid_for_300_seconds(stream, clock):
    stream.put(b"one")
    iterator = stream.iterator()
    clock.advance(300)
    assert len(stream.page(iterator)["Records"]) == 1


def test_an_iterator_older_than_300_seconds_has_expired(stream, clock, refused):
    iterator = stream.iterator()
    clock.advance(300.001)
    with refused("ExpiredIteratorException", "tolerated delay of 300000 milliseconds"):
        stream.page(iterator)


def test_each_page_renews_the_iterator(stream, clock):
    iterator = stream.iterator()
    for _ in range(3):
        clock.advance(200)
        iterator = stream.page(iterator)["NextShardIterator"]


@pytest.mark.parametrize("iterator", ["nonsense", "AAAA", "kw=="])
def test_an_invalid_iterator_is_refused(client, refused, iterator):
    with refused("InvalidArgumentException", "Invalid ShardIterator."):
        client.get_records(ShardIterator=iterator)


def test_a_pagination_token_is_refused_as_an_iterator(create, client, refused):
    stream = create(2)
    token = client.list_shards(StreamName=stream.name, MaxResults=1)["NextToken"]
    with refused("InvalidArgumentException", "Invalid ShardIterator."):
        client.get_records(ShardIterator=token)


def test_an_iterator_does_not_outlive_its_stream(stream, client, refused):
    stream.put(b"old")
    iterator = stream.iterator()
    client.delete_stream(StreamName=stream.name)
    with refused("ResourceNotFoundException"):
        stream.page(iterator)
    client.create_stream(StreamName=stream.name, ShardCount=1)
    stream.put(b"new")
    with refused("ResourceNotFoundException"):
        stream.page(iterator)


def test_a_dry_run_reads_nothing(stream, refused):
    with refused("DryRunOperationException"):
        stream.iterator(DryRun=True)
    with refused("DryRunOperationException"):
        stream.page(DryRun=True)
