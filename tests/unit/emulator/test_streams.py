"""Creating, describing, listing and deleting streams, and their settings."""

import pytest


def describe(client, stream):
    return client.describe_stream(StreamName=stream.name)["StreamDescription"]


def test_a_new_stream_is_active_with_even_open_shards(create, client):
    stream = create(3)
    described = describe(client, stream)
    assert described["StreamStatus"] == "ACTIVE"
    assert described["HasMoreShards"] is False
    ranges = [
        (int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"]))
        for shard in described["Shards"]
    ]
    third = 2**128 // 3
    assert ranges == [(0, third - 1), (third, 2 * third - 1), (2 * third, 2**128 - 1)]


def test_a_new_shard_has_no_parents_and_no_end(stream):
    shard = stream.shard()
    assert sorted(shard) == ["HashKeyRange", "SequenceNumberRange", "ShardId"]
    assert list(shard["SequenceNumberRange"]) == ["StartingSequenceNumber"]


def test_a_new_stream_has_the_defaults_of_the_service(stream):
    summary = stream.summary
    assert summary["RetentionPeriodHours"] == 24
    assert summary["MaxRecordSizeInKiB"] == 1024
    assert summary["StreamModeDetails"] == {"StreamMode": "PROVISIONED"}
    assert summary["OpenShardCount"] == 1


def test_describe_stream_describe_stream_summary_and_list_streams_agree(stream, client):
    described, summary = describe(client, stream), stream.summary
    (listed,) = client.list_streams()["StreamSummaries"]
    assert {name: described[name] for name in listed} == listed
    assert {name: summary[name] for name in listed} == listed
    assert described["StreamARN"] == f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream.name}"


def test_a_stream_can_be_created_for_large_records(client, names):
    name = next(names)
    client.create_stream(StreamName=name, ShardCount=1, MaxRecordSizeInKiB=2048)
    summary = client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    client.delete_stream(StreamName=name)
    assert summary["MaxRecordSizeInKiB"] == 2048


def test_a_name_is_in_use_until_its_stream_is_deleted(stream, client, refused):
    with refused(
        "ResourceInUseException", f"Stream {stream.name} under account 000000000000 already exists."
    ):
        client.create_stream(StreamName=stream.name, ShardCount=1)


def test_a_stream_needs_a_shard_count(client, refused):
    with refused("ValidationException", "ShardCount"):
        client.create_stream(StreamName="unborn")


def test_an_account_has_at_most_20_000_open_shards(client, refused):
    with refused("LimitExceededException", "Limit: 20000"):
        client.create_stream(StreamName="unborn", ShardCount=20_001)


def test_a_deleted_stream_is_not_found(stream, client, refused):
    client.delete_stream(StreamARN=stream.arn)
    with refused("ResourceNotFoundException", stream.name):
        client.describe_stream(StreamName=stream.name)
    assert stream.name not in client.list_streams()["StreamNames"]


def test_a_recreated_stream_is_empty_and_a_different_stream(stream, client):
    stream.put(b"old")
    before, shard = describe(client, stream), stream.shard()
    client.delete_stream(StreamName=stream.name)
    client.create_stream(StreamName=stream.name, ShardCount=1)
    assert stream.data() == []
    assert describe(client, stream)["StreamCreationTimestamp"] > before["StreamCreationTimestamp"]
    old, new = (int(s["SequenceNumberRange"]["StartingSequenceNumber"]) for s in (shard, stream.shard()))
    assert new > old


def test_streams_are_listed_in_pages_by_name(create, client):
    names = [create().name for _ in range(5)]
    first = client.list_streams(Limit=2)
    assert first["StreamNames"] == names[:2]
    assert first["HasMoreStreams"] is True
    second = client.list_streams(Limit=2, NextToken=first["NextToken"])
    assert second["StreamNames"] == names[2:4]
    last = client.list_streams(ExclusiveStartStreamName=names[3])
    assert last["StreamNames"] == names[4:]
    assert last["HasMoreStreams"] is False
    assert "NextToken" not in last


def test_a_token_of_list_streams_expires(create, client, clock, refused):
    create(), create()
    token = client.list_streams(Limit=1)["NextToken"]
    clock.advance(301)
    with refused("ExpiredNextTokenException"):
        client.list_streams(NextToken=token)


def test_describe_stream_pages_by_shard_id(create, client):
    stream = create(5)
    first = client.describe_stream(StreamName=stream.name, Limit=3)["StreamDescription"]
    assert first["HasMoreShards"] is True
    rest = client.describe_stream(
        StreamName=stream.name, ExclusiveStartShardId=first["Shards"][-1]["ShardId"]
    )["StreamDescription"]
    assert rest["HasMoreShards"] is False
    assert first["Shards"] + rest["Shards"] == stream.shards()


def test_describe_stream_returns_at_most_100_shards(create, client):
    stream = create(101)
    described = client.describe_stream(StreamName=stream.name, Limit=1000)["StreamDescription"]
    assert len(described["Shards"]) == 100
    assert described["HasMoreShards"] is True


@pytest.mark.parametrize("size", [1023, 10241])
def test_the_maximum_record_size_is_between_1_and_10_mib(stream, client, refused, size):
    with refused("ValidationException", "MaxRecordSizeInKiB"):
        client.update_max_record_size(StreamARN=stream.arn, MaxRecordSizeInKiB=size)


def test_the_retention_can_be_increased_and_decreased(stream, client):
    client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=8760)
    assert stream.summary["RetentionPeriodHours"] == 8760
    client.decrease_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    assert stream.summary["RetentionPeriodHours"] == 48


@pytest.mark.parametrize(("hours", "word"), [(8761, "too long"), (23, "too short")])
def test_the_retention_is_between_a_day_and_a_year(stream, client, refused, hours, word):
    with refused("InvalidArgumentException", word):
        client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=hours)
    with refused("InvalidArgumentException", word):
        client.decrease_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=hours)


def test_an_increase_cannot_decrease_the_retention_and_vice_versa(stream, client, refused):
    client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=48)
    with refused("InvalidArgumentException", "can not be shorter than existing retention period (48 hours)"):
        client.increase_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=24)
    with refused("InvalidArgumentException", "can not be longer than existing retention period (48 hours)"):
        client.decrease_stream_retention_period(StreamName=stream.name, RetentionPeriodHours=72)


def test_an_operation_on_a_stream_needs_its_name_or_arn(client, refused):
    with refused("InvalidArgumentException", "StreamARN"):
        client.describe_stream()


def test_an_arn_of_another_region_is_not_found(stream, client, refused):
    with refused("ResourceNotFoundException"):
        client.describe_stream(StreamARN=stream.arn.replace("us-east-1", "eu-west-1"))


def test_the_limits_of_an_account_count_provisioned_shards_and_on_demand_streams(client, create):
    before = client.describe_limits()
    create(3)
    on_demand = create(1)
    client.update_stream_mode(StreamARN=on_demand.arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    after = client.describe_limits()
    assert after["ShardLimit"] == 20_000
    assert after["OpenShardCount"] - before["OpenShardCount"] == 3
    assert after["OnDemandStreamCount"] - before["OnDemandStreamCount"] == 1


def test_an_account_has_no_billing_commitment(client):
    assert client.describe_account_settings()["MinimumThroughputBillingCommitment"] == {"Status": "DISABLED"}
