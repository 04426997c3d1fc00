"""Changes of a stream while it is read: records expire, or the stream is recreated."""

from __future__ import annotations

import boto3
import pytest

from kinesis_assets.errors import InvalidInput, ShardUnknown, StreamNotFound

A, B = "shardId-000000000000", "shardId-000000000001"


# Trimming


def test_trimmed_shard_contains_only_later_records(orders, faults):
    orders.put(b"0", b"1")
    orders.put(b"2", shard_id=B)
    faults.trim(orders.name, A)
    assert (orders.data(A), orders.data(B)) == ([], [b"2"])
    orders.put(b"3")
    assert orders.data(A) == [b"3"]
    assert orders.shard_ids() == [A, B]


def test_trimmed_stream_has_only_empty_shards(orders, faults):
    orders.put(b"0")
    orders.put(b"1", shard_id=B)
    faults.trim(orders.name)
    assert orders.data(A) == orders.data(B) == []


def test_shard_is_trimmed_up_to_a_record_that_is_kept(orders, faults):
    numbers = orders.put(b"0", b"1", b"2")
    faults.trim(orders.name, A, before=numbers[1])
    assert orders.data() == [b"1", b"2"]


def test_reader_skips_trimmed_records_without_an_error(orders, faults):
    numbers = orders.put(b"0", b"1", b"2", b"3")
    iterator = orders.iterator(kind="AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=numbers[0])
    faults.trim(orders.name, A, before=numbers[3])
    assert [record["Data"] for record in orders.page(iterator)["Records"]] == [b"3"]


def test_earlier_trim_horizon_has_no_effect(orders, faults):
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
def test_invalid_sequence_number_is_invalid_input(orders, faults, number):
    orders.put(b"0")
    with pytest.raises(InvalidInput, match=A):
        faults.trim(orders.name, A, before=number)


def test_sequence_number_of_another_shard_is_invalid_input(orders, faults):
    (number,) = orders.put(b"0", shard_id=B)
    with pytest.raises(InvalidInput, match=A):
        faults.trim(orders.name, A, before=number)
    with pytest.raises(InvalidInput, match="shard_id"):
        faults.trim(orders.name, before=number)
    assert orders.data(B) == [b"0"]


@pytest.mark.parametrize("event", ["trim", "recreate"])
def test_unknown_stream_is_an_error(faults, event):
    with pytest.raises(StreamNotFound, match="no-such-stream"):
        getattr(faults, event)("no-such-stream")


def test_unknown_shard_is_an_error(orders, faults):
    with pytest.raises(ShardUnknown, match="shardId-000000000009"):
        faults.trim(orders.name, "shardId-000000000009")


# Recreation


def test_recreated_stream_is_empty_and_has_a_new_creation_time(orders, faults):
    orders.put(b"0")
    created = orders.created()
    faults.recreate(orders.name)
    assert orders.created() > created
    assert orders.shard_ids() == [A, B]
    assert orders.data() == []


def test_recreated_stream_rejects_iterators_of_the_deleted_one(orders, faults, rejected):
    iterator = orders.iterator()
    faults.recreate(orders.name)
    with rejected("ResourceNotFoundException"):
        orders.page(iterator)


def test_stream_is_recreated_between_two_pages_of_its_shard_list(orders, faults, rejected):
    faults.page_size(1, "ListShards")
    faults.before("ListShards", lambda: faults.recreate(orders.name), after=1, times=1)
    token = orders.client.list_shards(StreamName=orders.name)["NextToken"]
    with rejected("ResourceNotFoundException"):
        orders.shard_ids(NextToken=token)


def test_recreated_stream_has_the_number_of_open_shards(orders, faults):
    orders.client.split_shard(StreamName=orders.name, ShardToSplit=A, NewStartingHashKey="1000")
    faults.recreate(orders.name)
    assert len(orders.shard_ids()) == 3


def test_stream_of_an_endpoint_with_a_clock_can_be_recreated(clocked, faults):
    clocked.kinesis.create_stream(StreamName="orders", ShardCount=1)
    before = clocked.kinesis.describe_stream_summary(StreamName="orders")
    clocked.clock.advance(5)
    faults.recreate("orders")
    after = clocked.kinesis.describe_stream_summary(StreamName="orders")
    created = [each["StreamDescriptionSummary"]["StreamCreationTimestamp"] for each in (before, after)]
    assert (created[1] - created[0]).total_seconds() == pytest.approx(5, abs=0.01)


# Custom actions and other accounts


def test_action_before_a_call_may_call_the_stream(orders, faults):
    faults.before("GetRecords", lambda: orders.put(b"just in time"), times=1)
    assert orders.data() == [b"just in time"]


def test_error_of_an_action_before_a_call_is_http_500(orders, faults, rejected, caplog):
    def fail():
        raise ValueError("no such plan")

    iterator = orders.iterator()
    faults.before("GetRecords", fail)
    with rejected("500", 500):
        orders.page(iterator)
    assert "no such plan" in caplog.text


@pytest.fixture
def other_account(local_kinesis, orders):
    """A client of another account, with a stream of its own."""
    client = boto3.client(
        "kinesis",
        endpoint_url=local_kinesis.endpoint_url,
        region_name=local_kinesis.region,
        aws_access_key_id="111122223333",
        aws_secret_access_key="any",  # noqa: S106  # the embedded stream does not verify it
    )
    client.create_stream(StreamName=f"{orders.name}-other", ShardCount=2)
    return client


def test_faults_apply_to_streams_of_other_accounts(other_account, orders, faults):
    name, shard_id = f"{orders.name}-other", "shardId-000000000001"
    faults.partial_puts(every=1, shard_id=shard_id)
    entries = [{"Data": b"d", "PartitionKey": "k", "ExplicitHashKey": key} for key in ("0", str(1 << 127))]
    put = other_account.put_records(StreamName=name, Records=entries)
    assert ["ErrorCode" in record for record in put["Records"]] == [False, True]
    created = other_account.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    faults.recreate(name)
    again = other_account.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    assert again["StreamCreationTimestamp"] > created["StreamCreationTimestamp"]
    assert again["StreamARN"] == created["StreamARN"]


def test_trimmed_record_is_that_of_one_of_two_accounts(orders, faults, second_account):
    orders.put(b"0")
    place = {"StreamName": orders.name, "PartitionKey": "k", "ExplicitHashKey": "0"}
    numbers = [second_account.put_record(Data=data, **place)["SequenceNumber"] for data in (b"1", b"2")]
    faults.trim(orders.name, A, before=numbers[1])
    place = {"StreamName": orders.name, "ShardId": A, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = second_account.get_shard_iterator(**place)["ShardIterator"]
    assert [each["Data"] for each in second_account.get_records(ShardIterator=iterator)["Records"]] == [b"2"]
    assert orders.data() == [b"0"]
