"""Streams of other accounts: reached by their ARN alone, and only as far as their owner allows."""

from __future__ import annotations

import boto3
import pytest
from botocore.exceptions import ClientError

from kinesis_assets.local.errors import ResourceNotFoundException

OWNER = "111122223333"
OTHERS = "444455556666"
READ = ["DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"]


def client_of(local, account_id):
    """A client of an account: its access key id is the account's."""
    return boto3.client(
        "kinesis",
        endpoint_url=local.endpoint_url,
        region_name=local.region,
        aws_access_key_id=account_id,
        aws_secret_access_key="any",  # noqa: S106  # the embedded stream checks none
    )


@pytest.fixture
def owner(local):
    return client_of(local, OWNER)


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
    """All records, every call by the ARN where it takes one."""
    client.describe_stream_summary(StreamARN=arn)
    page = client.list_shards(StreamARN=arn, MaxResults=1)
    shards = page["Shards"] + client.list_shards(NextToken=page["NextToken"])["Shards"]
    found = []
    for shard in shards:
        of_shard = {"ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = client.get_shard_iterator(StreamARN=arn, **of_shard)["ShardIterator"]
        found += client.get_records(StreamARN=arn, ShardIterator=iterator)["Records"]
    return [record["Data"] for record in found]


def test_an_account_has_streams_of_its_own_under_its_own_arns(arn, client):
    assert arn.split(":")[4] == OWNER
    client.create_stream(StreamName=name_in(arn), ShardCount=1)
    mine = client.describe_stream_summary(StreamName=name_in(arn))["StreamDescriptionSummary"]
    assert mine["StreamARN"].split(":")[4] == "000000000000"
    assert mine["OpenShardCount"] == 1
    client.delete_stream(StreamName=name_in(arn))


def test_an_account_lists_its_own_streams_alone(arn, client, owner):
    assert name_in(arn) in owner.list_streams(Limit=1000)["StreamNames"]
    assert name_in(arn) not in client.list_streams(Limit=1000)["StreamNames"]


def test_a_shared_stream_is_read_by_its_arn(local, arn, client):
    local.share(arn)
    assert read(client, arn) == [b"theirs"]


def test_a_shared_stream_is_not_found_by_its_name(local, arn, client, refused):
    local.share(arn)
    with refused("ResourceNotFoundException"):
        client.describe_stream_summary(StreamName=name_in(arn))


def test_an_iterator_of_a_shared_stream_needs_its_arn_beside_it(local, arn, client, refused):
    local.share(arn)
    of_shard = {"ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.get_shard_iterator(StreamARN=arn, **of_shard)["ShardIterator"]
    with refused("ResourceNotFoundException"):
        client.get_records(ShardIterator=iterator)


def test_a_stream_that_nobody_shared_is_refused_as_one_that_is_not_there(arn, client):
    told = set()
    for each in (arn, arn + "-not-there"):
        with pytest.raises(ClientError) as refusal:
            client.describe_stream_summary(StreamARN=each)
        error = refusal.value.response["Error"]
        told.add((error["Code"], error["Message"].replace(each, "ARN")))
    ((code, message),) = told
    assert code == "AccessDeniedException"
    assert "no resource-based policy allows the kinesis:DescribeStreamSummary action" in message


@pytest.mark.parametrize("action", READ)
def test_each_call_needs_its_own_right(local, arn, client, refused, action):
    local.share(arn, [f"kinesis:{each}" for each in READ if each != action])
    with refused("AccessDeniedException", f"kinesis:{action}"):
        read(client, arn)


def test_who_may_read_may_not_put(local, arn, client, refused):
    local.share(arn)
    with refused("AccessDeniedException"):
        client.put_record(StreamARN=arn, Data=b"mine", PartitionKey="k")
    local.share(arn, ["kinesis:PutRecord"])
    client.put_record(StreamARN=arn, Data=b"mine", PartitionKey="k")


def test_a_stream_is_shared_with_the_account_that_is_named(local, arn, client, refused):
    local.share(arn, account_id=OTHERS)
    assert read(client_of(local, OTHERS), arn) == [b"theirs"]
    with refused("AccessDeniedException"):
        read(client, arn)


def test_a_stream_that_is_not_there_cannot_be_shared(local, arn):
    with pytest.raises(ResourceNotFoundException):
        local.share(arn + "-not-there")
