"""Retention: trimmed records and shards that disappear."""

from datetime import UTC, datetime

HOUR = 3600
DAY = 24 * HOUR


def test_a_record_is_readable_until_its_retention_is_over(stream, clock):
    stream.put(b"old")
    clock.advance(DAY)
    assert stream.data() == [b"old"]
    clock.advance(0.001)
    assert stream.data() == []


def test_only_records_past_their_retention_are_trimmed(stream, clock):
    stream.put(b"old")
    clock.advance(HOUR)
    stream.put(b"new")
    clock.advance(DAY - 1)
    assert stream.data() == [b"new"]


def test_an_iterator_at_trimmed_records_continues_with_the_oldest_available_record(stream, clock):
    number = stream.put(b"one")["SequenceNumber"]
    stream.put(b"two")
    clock.advance(HOUR)
    stream.put(b"three")
    clock.advance(DAY - HOUR - 100)
    iterator = stream.page(Limit=1)["NextShardIterator"]
    clock.advance(200)
    assert [record["Data"] for record in stream.page(iterator)["Records"]] == [b"three"]
    again = stream.iterator("AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=number)
    assert [record["Data"] for record in stream.page(again)["Records"]] == [b"three"]


def test_sequence_numbers_keep_growing_after_a_trim(stream, clock):
    old = stream.put(b"old")["SequenceNumber"]
    clock.advance(2 * DAY)
    assert int(stream.put(b"new")["SequenceNumber"]) > int(old)
    assert stream.data() == [b"new"]


def test_a_longer_retention_keeps_records_longer(stream, client, clock):
    client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    stream.put(b"old")
    clock.advance(2 * DAY)
    assert stream.data() == [b"old"]


def test_a_longer_retention_does_not_restore_trimmed_records(stream, client, clock):
    stream.put(b"old")
    clock.advance(DAY + 1)
    client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    assert stream.data() == []


def test_a_shorter_retention_trims_immediately(stream, client, clock):
    client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    stream.put(b"old")
    clock.advance(DAY + 1)
    client.decrease_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=24)
    client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    assert stream.data() == []


def test_a_closed_shard_is_listed_until_the_retention_after_its_close_is_over(stream, clock, refused):
    clock.advance(HOUR)
    stream.split()
    clock.advance(DAY - 1)
    assert stream.numbers() == [0, 1, 2]
    clock.advance(2)
    assert stream.numbers() == [1, 2]
    with refused("ResourceNotFoundException", "shardId-000000000000"):
        stream.iterator()


def test_an_iterator_of_a_shard_that_disappeared_is_refused(stream, clock, refused):
    stream.split()
    clock.advance(DAY - 1)
    iterator = stream.iterator()
    clock.advance(2)
    with refused("ResourceNotFoundException", "shardId-000000000000"):
        stream.page(iterator)


def test_a_child_names_its_parent_after_the_parent_disappeared(stream, clock):
    stream.split()
    clock.advance(DAY + 1)
    assert stream.shard(1)["ParentShardId"] == "shardId-000000000000"


def test_shard_ids_keep_counting_after_shards_disappeared(stream, clock):
    stream.split()
    clock.advance(DAY + 1)
    stream.merge(1, 2)
    stream.split(3)
    assert stream.numbers() == [1, 2, 3, 4, 5]


def test_the_trim_horizon_moves_past_closed_shards(stream, clock):
    stream.split()
    clock.advance(DAY - 1)
    assert stream.numbers("AT_TRIM_HORIZON") == [0]
    clock.advance(2)
    assert stream.numbers("AT_TRIM_HORIZON") == [1, 2]


def test_a_longer_retention_does_not_move_the_trim_horizon_back(stream, client, clock):
    stream.split()
    clock.advance(DAY + 1)
    assert stream.numbers() == [1, 2]
    client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    assert stream.numbers("AT_TRIM_HORIZON") == [1, 2]


def test_a_timestamp_before_the_trim_horizon_is_the_trim_horizon(stream, clock):
    clock.advance(DAY)
    stream.split()
    clock.advance(HOUR)
    for kind, numbers in (("AT_TIMESTAMP", [0]), ("FROM_TIMESTAMP", [0, 1, 2])):
        assert stream.numbers(kind, Timestamp=datetime.fromtimestamp(0, UTC)) == numbers
