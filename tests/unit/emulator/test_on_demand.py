"""On-demand streams and automatic record distribution."""

import pytest

AUTO, USER = "AUTO", "USER_PARTITION_KEY"
ON_DEMAND = {"StreamMode": "ON_DEMAND"}
PROVISIONED = {"StreamMode": "PROVISIONED"}


@pytest.fixture
def on_demand(stream, client):
    """The test's stream, which has one shard and is on demand."""
    client.update_stream_mode(StreamARN=stream.arn, StreamModeDetails=ON_DEMAND)
    return stream


@pytest.fixture
def distribute(on_demand, client):
    """Set the stream's record distribution strategy."""

    def distribute(strategy):
        client.update_stream_record_distribution_strategy(
            StreamARN=on_demand.arn, RecordDistributionStrategy=strategy
        )

    return distribute


def summary(client, name):
    return client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]


def test_an_on_demand_stream_has_four_shards_and_distributes_by_partition_key_by_default(client):
    client.create_stream(StreamName="on-demand", StreamModeDetails=ON_DEMAND)
    found = summary(client, "on-demand")
    assert found["OpenShardCount"] == 4
    assert (found["StreamModeDetails"], found["RecordDistributionStrategy"]) == (ON_DEMAND, USER)
    client.delete_stream(StreamName="on-demand")


def test_a_stream_is_created_with_a_strategy(client):
    client.create_stream(StreamName="spread", StreamModeDetails=ON_DEMAND, RecordDistributionStrategy=AUTO)
    assert summary(client, "spread")["RecordDistributionStrategy"] == AUTO
    client.delete_stream(StreamName="spread")


def test_a_provisioned_stream_has_no_strategy(stream, client, refused):
    assert "RecordDistributionStrategy" not in summary(client, stream.name)
    with refused("InvalidArgumentException", "on-demand"):
        client.update_stream_record_distribution_strategy(
            StreamARN=stream.arn, RecordDistributionStrategy=AUTO
        )
    with refused("InvalidArgumentException", "on-demand"):
        client.create_stream(StreamName="refused", ShardCount=1, RecordDistributionStrategy=AUTO)


def test_the_strategy_is_set_only_by_arn(on_demand, call):
    status, response = call(
        "UpdateStreamRecordDistributionStrategy", StreamName=on_demand.name, RecordDistributionStrategy=AUTO
    )
    assert (status, response["__type"]) == (400, "ValidationException")


def test_an_on_demand_stream_cannot_be_resharded(on_demand, client, refused):
    with refused("ValidationException", "provisioned"):
        on_demand.split()
    with refused("ValidationException", "provisioned"):
        on_demand.scale(2)
    client.update_stream_mode(StreamARN=on_demand.arn, StreamModeDetails=PROVISIONED)
    on_demand.split()


def test_a_stream_that_is_provisioned_again_distributes_by_partition_key(
    on_demand, client, distribute, refused
):
    distribute(AUTO)
    client.update_stream_mode(StreamARN=on_demand.arn, StreamModeDetails=PROVISIONED)
    with refused("ValidationException", "PartitionKey"):
        client.put_record(StreamName=on_demand.name, Data=b"")


def test_a_key_is_optional_under_auto_and_returned_as_it_was_put(on_demand, client, distribute):
    distribute(AUTO)
    client.put_record(StreamName=on_demand.name, Data=b"0")
    client.put_records(
        StreamName=on_demand.name, Records=[{"Data": b"1"}, {"Data": b"2", "PartitionKey": "k"}]
    )
    assert [record.get("PartitionKey") for record in on_demand.read()] == [None, None, "k"]
    assert ["PartitionKey" in record for record in on_demand.read()] == [False, False, True]


def test_a_key_is_required_again_after_auto_and_earlier_records_keep_none(
    on_demand, client, distribute, refused
):
    distribute(AUTO)
    client.put_record(StreamName=on_demand.name, Data=b"0")
    distribute(USER)
    with refused("ValidationException", "PartitionKey"):
        client.put_record(StreamName=on_demand.name, Data=b"1")
    with refused("ValidationException", "PartitionKey", "Records[1]"):
        client.put_records(
            StreamName=on_demand.name, Records=[{"Data": b"1", "PartitionKey": "k"}, {"Data": b"2"}]
        )
    assert on_demand.data() == [b"0"]


def test_keys_and_hash_keys_do_not_select_the_shard_under_auto(create, client):
    stream = create(2)
    client.update_stream_mode(StreamARN=stream.arn, StreamModeDetails=ON_DEMAND)
    client.update_stream_record_distribution_strategy(StreamARN=stream.arn, RecordDistributionStrategy=AUTO)
    put = [stream.put(b"", ExplicitHashKey="0")["ShardId"] for _ in range(4)]
    assert sorted(put) == ["shardId-000000000000"] * 2 + ["shardId-000000000001"] * 2


def test_sequence_number_for_ordering_is_refused_under_auto(on_demand, distribute, refused):
    number = on_demand.put(b"0")["SequenceNumber"]
    distribute(AUTO)
    with refused("InvalidArgumentException", "SequenceNumberForOrdering"):
        on_demand.put(b"1", SequenceNumberForOrdering=number)
