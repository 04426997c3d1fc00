"""PutRecord and PutRecords."""

from base64 import b64encode
from hashlib import md5

import pytest

MIB = 1024 * 1024


def test_a_record_is_read_as_it_was_put(stream):
    put = stream.put(b"\x00\xffdata", "a key: \N{SNOWMAN}")
    (record,) = stream.read()
    assert record["Data"] == b"\x00\xffdata"
    assert record["PartitionKey"] == "a key: \N{SNOWMAN}"
    assert record["SequenceNumber"] == put["SequenceNumber"]
    assert put["ShardId"] == "shardId-000000000000"


def test_an_empty_record_is_kept(stream):
    stream.put(b"")
    assert stream.data() == [b""]


def test_records_of_a_batch_are_read_in_its_order(stream, client):
    entries = [{"Data": b"%d" % i, "PartitionKey": f"key {i}"} for i in range(500)]
    response = client.put_records(StreamName=stream.name, Records=entries)
    assert response["FailedRecordCount"] == 0
    records = stream.read()
    assert [record["Data"] for record in records] == [entry["Data"] for entry in entries]
    assert [record["SequenceNumber"] for record in records] == [
        entry["SequenceNumber"] for entry in response["Records"]
    ]


def test_the_arn_can_replace_the_name(stream, client):
    client.put_record(StreamARN=stream.arn, Data=b"one", PartitionKey="key")
    client.put_record(StreamARN=stream.arn, StreamName=stream.name, Data=b"two", PartitionKey="key")
    assert stream.data() == [b"one", b"two"]


def test_an_arn_and_a_name_of_different_streams_are_refused(create, client, refused):
    stream, other = create(), create()
    with refused("InvalidArgumentException"):
        client.put_record(StreamName=stream.name, StreamARN=other.arn, Data=b"", PartitionKey="key")


def test_sequence_numbers_have_56_digits_and_grow_in_the_order_of_puts(stream):
    numbers = [stream.put(b"")["SequenceNumber"] for _ in range(20)]
    assert {len(number) for number in numbers} == {56}
    assert numbers == sorted(set(numbers), key=int)


def test_the_md5_of_the_partition_key_chooses_the_shard(create):
    stream = create(4)
    for key in (f"key {i}" for i in range(40)):
        hash_key = int(md5(key.encode(), usedforsecurity=False).hexdigest(), 16)
        (shard,) = (
            shard["ShardId"]
            for shard in stream.shards()
            if int(shard["HashKeyRange"]["StartingHashKey"])
            <= hash_key
            <= int(shard["HashKeyRange"]["EndingHashKey"])
        )
        assert stream.put(b"", key)["ShardId"] == shard


def test_an_explicit_hash_key_overrides_the_partition_key(create):
    stream = create(2)
    upper = int(stream.shard(1)["HashKeyRange"]["StartingHashKey"])
    assert stream.put(b"", ExplicitHashKey=str(upper - 1))["ShardId"] == "shardId-000000000000"
    assert stream.put(b"", ExplicitHashKey=str(upper))["ShardId"] == "shardId-000000000001"
    assert stream.put(b"", ExplicitHashKey=str(2**128 - 1))["ShardId"] == "shardId-000000000001"


def test_a_hash_key_beyond_128_bits_is_refused(stream, refused):
    with refused("InvalidArgumentException", "[0, 2^128-1]"):
        stream.put(b"", ExplicitHashKey=str(2**128))


def test_a_batch_of_more_than_500_records_is_refused(stream, client, refused):
    entries = [{"Data": b"", "PartitionKey": "key"}] * 501
    with refused("ValidationException", "Records", "<= 500"):
        client.put_records(StreamName=stream.name, Records=entries)


@pytest.mark.slow
def test_a_batch_has_at_most_10_mib_including_partition_keys(stream, client, refused):
    entries = [{"Data": bytes(MIB - 10), "PartitionKey": "0123456789"}] * 10
    client.put_records(StreamName=stream.name, Records=entries)
    with refused("InvalidArgumentException", "10 MB"):
        client.put_records(StreamName=stream.name, Records=[*entries, {"Data": b"", "PartitionKey": "k"}])


def test_a_record_has_at_most_1_mib_including_its_partition_key(stream, refused):
    stream.put(bytes(MIB - 3))
    with refused("ValidationException", "Data", "1048576"):
        stream.put(bytes(MIB - 2))


def test_an_invalid_record_is_named_and_its_batch_is_refused(stream, client, refused):
    entries = [{"Data": b"", "PartitionKey": "key"}, {"Data": bytes(MIB), "PartitionKey": "key"}]
    with refused("ValidationException", "Records[1].Data"):
        client.put_records(StreamName=stream.name, Records=entries)
    assert stream.data() == []


@pytest.mark.slow
def test_a_larger_maximum_record_size_allows_larger_records(stream, client):
    client.update_max_record_size(StreamARN=stream.arn, MaxRecordSizeInKiB=10240)
    stream.put(bytes(10 * MIB - 3))
    assert [len(data) for data in stream.data()] == [10 * MIB - 3]


@pytest.mark.parametrize("data", ["YQ", "Y Q=", "YQ==\n", "é===", "===="])
def test_data_that_is_not_base64_is_refused(stream, call, data):
    status, error = call("PutRecord", StreamName=stream.name, Data=data, PartitionKey="key")
    assert (status, error["__type"]) == (400, "SerializationException")
    assert stream.data() == []


def test_sizes_are_those_of_the_decoded_data(stream, call):
    encoded = b64encode(bytes(MIB - 3)).decode()
    assert len(encoded) > MIB
    status, _ = call("PutRecord", StreamName=stream.name, Data=encoded, PartitionKey="key")
    assert status == 200


def test_an_invalid_sequence_number_for_ordering_is_refused(stream, refused):
    first = stream.put(b"one")
    stream.put(b"two", SequenceNumberForOrdering=first["SequenceNumber"])
    with refused("InvalidArgumentException", "ExclusiveMinimumSequenceNumber"):
        stream.put(b"three", SequenceNumberForOrdering="1234")
    assert stream.data() == [b"one", b"two"]


def test_a_dry_run_puts_nothing(stream, client, refused):
    with refused("DryRunOperationException"):
        client.put_record(StreamName=stream.name, Data=b"", PartitionKey="key", DryRun=True)
    with refused("DryRunOperationException"):
        client.put_records(
            StreamName=stream.name, Records=[{"Data": b"", "PartitionKey": "key"}], DryRun=True
        )
    assert stream.data() == []


def test_a_put_to_an_unknown_stream_is_refused(client, refused):
    with refused("ResourceNotFoundException", "Stream nowhere under account 000000000000 not found."):
        client.put_record(StreamName="nowhere", Data=b"", PartitionKey="key")
