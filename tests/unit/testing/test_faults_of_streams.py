"""What happens to a stream while it is read."""

from __future__ import annotations

import boto3
import pytest

from kinesis_assets.errors import InvalidInput, ShardUnknown, StreamNotFound

A, B = "shardId-000000000000", "shardId-000000000001"


# Trimmed


def test_trimmed_shard_has_nothing_left_but_what_comes_later(orders, faults):
    orders.put(b"0", b"1")
    orders.put(b"2", shard_id=B)
    faults.trim(orders.name, A)
    assert (orders.data(A), orders.data(B)) == ([], [b"2"])
    orders.put(b"3")
    assert orders.data(A) == [b"3"]
    assert orders.shard_ids() == [A, B]


def test_trimmed_stream_has_nothing_left_in_any_shard(orders, faults):
    orders.put(b"0")
    orders.put(b"1", shard_id=B)
    faults.trim(orders.name)
    assert orders.data(A) == orders.data(B) == []


def test_shard_is_trimmed_up_to_a_record_that_stays(orders, faults):
    numbers = orders.put(b"0", b"1", b"2")
    faults.trim(orders.name, A, before=numbers[1])
    assert orders.data() == [b"1", b"2"]


def test_reader_goes_on_past_what_was_trimmed_without_a_word(orders, faults):
    numbers = orders.put(b"0", b"1", b"2", b"3")
    iterator = orders.iterator(kind="AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[0])
    faults.trim(orders.name, A, before=numbers[3])
    assert [record["Data"] for record in orders.page(iterator)["Records"]] == [b"3"]


def test_shard_that_was_trimmed_further_stays_so(orders, faults):
    numbers = orders.put(b"0", b"1", b"2", b"3", b"4")
    faults.trim(orders.name, A, before=numbers[2])
    faults.trim(orders.name, A, before=numbers[1])
    assert orders.data() == [b"2", b"3", b"4"]


def test_stream_is_trimmed_before_the_third_page(orders, faults):
    orders.put(*(b"%d" % number for number in range(5)))
    faults.page_size(1)
    faults.before("GetRecords", lambda: faults.trim(orders.name, A), after=2, times=1)
    iterator, pages = orders.iterator(), []
    for _ in range(3):
        page = orders.page(iterator)
        pages.append([record["Data"] for record in page["Records"]])
        iterator = page["NextShardIterator"]
    assert pages == [[b"0"], [b"1"], []]


@pytest.mark.parametrize("number", ["", "latest", "12", "-1"])
def test_place_that_is_no_sequence_number_of_the_shard_is_invalid_input(orders, faults, number):
    orders.put(b"0")
    with pytest.raises(InvalidInput, match=A):
        faults.trim(orders.name, A, before=number)


def test_sequence_number_of_another_shard_is_invalid_input(orders, faults):
    (number,) = orders.put(b"0", shard_id=B)
    with pytest.raises(InvalidInput, match=A):
        faults.trim(orders.name, A, before=number)
    with pytest.raises(InvalidInput, match="needs a shard_id"):
        faults.trim(orders.name, before=number)
    assert orders.data(B) == [b"0"]


@pytest.mark.parametrize("event", ["trim", "recreate"])
def test_stream_that_is_not_there_is_told(faults, event):
    with pytest.raises(StreamNotFound, match="no-such-stream"):
        getattr(faults, event)("no-such-stream")


def test_shard_that_is_not_there_is_told(orders, faults):
    with pytest.raises(ShardUnknown, match="shardId-000000000009"):
        faults.trim(orders.name, "shardId-000000000009")


# Recreated


def test_recreated_stream_is_empty_and_another_one(orders, faults):
    orders.put(b"0")
    created = orders.created()
    faults.recreate(orders.name)
    assert orders.created() > created
    assert orders.shard_ids() == [A, B]
    assert orders.data() == []


def test_iterator_of_the_stream_before_is_no_iterator_of_the_recreated_one(orders, faults, refused):
    iterator = orders.iterator()
    faults.recreate(orders.name)
    with refused("ResourceNotFoundException"):
        orders.page(iterator)


def test_stream_is_recreated_between_two_pages_of_its_shard_list(orders, faults, refused):
    faults.page_size(1, "ListShards")
    faults.before("ListShards", lambda: faults.recreate(orders.name), after=1, times=1)
    token = orders.client.list_shards(StreamName=orders.name)["NextToken"]
    with refused("ResourceNotFoundException"):
        orders.shard_ids(NextToken=token)


def test_recreated_stream_has_as_many_shards_as_were_open(orders, faults):
    orders.client.split_shard(StreamName=orders.name, ShardToSplit=A, NewStartingHashKey="1000")
    faults.recreate(orders.name)
    assert len(orders.shard_ids()) == 3


def test_stream_on_a_clocks_endpoint_is_found_too(clocked, faults):
    clocked.kinesis.create_stream(StreamName="orders", ShardCount=1)
    before = clocked.kinesis.describe_stream_summary(StreamName="orders")
    clocked.clock.advance(5)
    faults.recreate("orders")
    after = clocked.kinesis.describe_stream_summary(StreamName="orders")
    created = [each["StreamDescriptionSummary"]["StreamCreationTimestamp"] for each in (before, after)]
    assert (created[1] - created[0]).total_seconds() == pytest.approx(5, abs=0.01)


# Whatever else


def test_what_is_done_before_a_call_may_call_the_stream_itself(orders, faults):
    faults.before("GetRecords", lambda: orders.put(b"just in time"), times=1)
    assert orders.data() == [b"just in time"]


def test_what_is_done_before_a_call_and_fails_is_http_500(orders, faults, refused, caplog):
    def fail():
        raise ValueError("no such plan")

    iterator = orders.iterator()
    faults.before("GetRecords", fail)
    with refused("500", 500):
        orders.page(iterator)
    assert "no such plan" in caplog.text


@pytest.fixture
def theirs(local_kinesis, orders):
    """A client of another account, with a stream of the same name as the test's."""
    client = boto3.client(
        "kinesis",
        endpoint_url=local_kinesis.endpoint_url,
        region_name=local_kinesis.region,
        aws_access_key_id="111122223333",
        aws_secret_access_key="any",  # noqa: S106  # the embedded stream checks none
    )
    client.create_stream(StreamName=f"{orders.name}-theirs", ShardCount=2)
    return client


def test_faults_are_on_streams_of_other_accounts_too(theirs, orders, faults):
    name, shard_id = f"{orders.name}-theirs", "shardId-000000000001"
    faults.partial_puts(every=1, shard_id=shard_id)
    entries = [{"Data": b"d", "PartitionKey": "k", "ExplicitHashKey": key} for key in ("0", str(1 << 127))]
    put = theirs.put_records(StreamName=name, Records=entries)
    assert ["ErrorCode" in record for record in put["Records"]] == [False, True]
    created = theirs.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    faults.recreate(name)
    again = theirs.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    assert again["StreamCreationTimestamp"] > created["StreamCreationTimestamp"]
    assert again["StreamARN"] == created["StreamARN"]
