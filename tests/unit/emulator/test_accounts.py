"""Streams of other accounts: accessible only by ARN, and only as far as their owner allows."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from msgspec import inspect

from kinesis_assets.emulator.operations import OPERATIONS
from kinesis_assets.emulator.shapes import ResourceNotFoundException

OWNER = "111122223333"
OTHERS = "444455556666"
READ = ["DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"]


@pytest.fixture
def owner(local, connect):
    return connect(local, OWNER)


@pytest.fixture
def arn(owner, request):
    """A stream of the other account, with a record."""
    name = request.node.name[:100].replace("[", ".").replace("]", "")
    owner.create_stream(StreamName=name, ShardCount=2)
    owner.put_record(StreamName=name, Data=b"theirs", PartitionKey="k")
    return owner.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]


def name_in(arn):
    return arn.rpartition("/")[2]


def read(client, arn):
    """Read all records, with the ARN in every call that accepts one."""
    client.describe_stream_summary(StreamARN=arn)
    page = client.list_shards(StreamARN=arn, MaxResults=1)
    shards = page["Shards"] + client.list_shards(NextToken=page["NextToken"])["Shards"]
    found = []
    for shard in shards:
        of_shard = {"ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = client.get_shard_iterator(StreamARN=arn, **of_shard)["ShardIterator"]
        found += client.get_records(StreamARN=arn, ShardIterator=iterator)["Records"]
    return [record["Data"] for record in found]


def test_streams_of_an_account_have_its_id_in_their_arns(arn, client):
    assert arn.split(":")[4] == OWNER
    client.create_stream(StreamName=name_in(arn), ShardCount=1)
    mine = client.describe_stream_summary(StreamName=name_in(arn))["StreamDescriptionSummary"]
    assert mine["StreamARN"].split(":")[4] == "000000000000"
    assert mine["OpenShardCount"] == 1
    client.delete_stream(StreamName=name_in(arn))


def test_an_account_lists_only_its_own_streams(arn, client, owner):
    assert name_in(arn) in owner.list_streams(Limit=1000)["StreamNames"]
    assert name_in(arn) not in client.list_streams(Limit=1000)["StreamNames"]


def test_a_shared_stream_is_read_by_its_arn(local, arn, client):
    local.share(arn)
    assert read(client, arn) == [b"theirs"]


def test_a_shared_stream_is_not_found_by_its_name(local, arn, client, refused):
    local.share(arn)
    with refused("ResourceNotFoundException"):
        client.describe_stream_summary(StreamName=name_in(arn))


def test_an_iterator_of_a_shared_stream_must_be_used_with_the_arn(local, arn, client, refused):
    local.share(arn)
    of_shard = {"ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.get_shard_iterator(StreamARN=arn, **of_shard)["ShardIterator"]
    with refused("ResourceNotFoundException"):
        client.get_records(ShardIterator=iterator)


def test_a_stream_that_is_not_shared_is_refused_like_a_missing_one(arn, client):
    errors = set()
    for each in (arn, arn + "-not-there"):
        with pytest.raises(ClientError) as refusal:
            client.describe_stream_summary(StreamARN=each)
        error = refusal.value.response["Error"]
        errors.add((error["Code"], error["Message"].replace(each, "ARN")))
    ((code, message),) = errors
    assert code == "AccessDeniedException"
    assert "no resource-based policy allows the kinesis:DescribeStreamSummary action" in message


@pytest.mark.parametrize("action", READ)
def test_each_call_needs_its_own_permission(local, arn, client, refused, action):
    local.share(arn, [f"kinesis:{each}" for each in READ if each != action])
    with refused("AccessDeniedException", f"kinesis:{action}"):
        read(client, arn)


def test_permission_to_read_does_not_include_permission_to_put(local, arn, client, refused):
    local.share(arn)
    with refused("AccessDeniedException"):
        client.put_record(StreamARN=arn, Data=b"mine", PartitionKey="k")
    local.share(arn, ["kinesis:PutRecord"])
    client.put_record(StreamARN=arn, Data=b"mine", PartitionKey="k")


def test_a_stream_is_shared_only_with_the_given_account(local, connect, arn, client, refused):
    local.share(arn, account_id=OTHERS)
    assert read(connect(local, OTHERS), arn) == [b"theirs"]
    with refused("AccessDeniedException"):
        read(client, arn)


def test_a_missing_stream_cannot_be_shared(local, arn):
    with pytest.raises(ResourceNotFoundException):
        local.share(arn + "-not-there")


BY_ARN = {
    "describe_stream": {},
    "describe_stream_summary": {},
    "list_shards": {},
    "get_shard_iterator": {"ShardId": "shardId-000000000000", "ShardIteratorType": "LATEST"},
    "put_record": {"PartitionKey": "k", "Data": b"d"},
    "put_records": {"Records": [{"PartitionKey": "k", "Data": b"d"}]},
    "increase_stream_retention_period": {"RetentionPeriodHours": 24},
    "decrease_stream_retention_period": {"RetentionPeriodHours": 24},
    "split_shard": {"ShardToSplit": "shardId-000000000000", "NewStartingHashKey": "9"},
    "merge_shards": {"ShardToMerge": "shardId-000000000000", "AdjacentShardToMerge": "shardId-000000000001"},
    "update_shard_count": {"TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"},
    "update_stream_mode": {"StreamModeDetails": {"StreamMode": "ON_DEMAND"}},
    "update_stream_record_distribution_strategy": {"RecordDistributionStrategy": "AUTO"},
    "update_max_record_size": {"MaxRecordSizeInKiB": 1024},
    "add_tags_to_stream": {"Tags": {"k": "v"}},
    "list_tags_for_stream": {},
    "remove_tags_from_stream": {"TagKeys": ["k"]},
    "register_stream_consumer": {"ConsumerName": "reader"},
    "describe_stream_consumer": {"ConsumerName": "reader"},
    "list_stream_consumers": {},
    "deregister_stream_consumer": {"ConsumerName": "reader"},
    "delete_stream": {},
}
"""Every operation that accepts an ARN, with its other arguments; GetRecords also needs an iterator."""


def test_the_table_has_every_operation_that_takes_an_arn(client):
    expected = {
        name
        for name, operation in OPERATIONS.items()
        if any(field.encode_name == "StreamARN" for field in inspect.type_info(operation).fields)
    }
    assert {client.meta.method_to_api_mapping[name] for name in BY_ARN} | {"GetRecords"} == expected


@pytest.mark.parametrize("operation", BY_ARN)
def test_every_operation_checks_the_account_and_the_region_of_an_arn(client, owner, arn, refused, operation):
    arguments = BY_ARN[operation]
    with refused("AccessDeniedException", f"kinesis:{client.meta.method_to_api_mapping[operation]}"):
        getattr(client, operation)(StreamARN=arn, **arguments)
    with refused("ResourceNotFoundException"):
        getattr(owner, operation)(StreamARN=arn.replace("us-east-1", "eu-west-1"), **arguments)
    if operation == "update_stream_record_distribution_strategy":
        owner.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    if operation in {"describe_stream_consumer", "deregister_stream_consumer"}:
        owner.register_stream_consumer(StreamARN=arn, ConsumerName="reader")
    getattr(owner, operation)(StreamARN=arn, **arguments)
