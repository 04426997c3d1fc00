"""A client configured with a stream's ARN: its requests, its endpoint and its errors."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import boto3
import pytest

from kinesis_assets.errors import CallFailed, InvalidInput, StreamNotFound
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.transport.sdk_internals import data_endpoint

OWNER = "111122223333"
BEGINNING = Position(PositionKind.TRIM_HORIZON)


@pytest.fixture
def owner(local_kinesis):
    """A client of another account."""
    return boto3.client(
        "kinesis",
        endpoint_url=local_kinesis.endpoint_url,
        region_name=local_kinesis.region,
        aws_access_key_id=OWNER,
        aws_secret_access_key="any",  # noqa: S106  # the embedded stream checks none
    )


@pytest.fixture
def arn(owner, stream):
    """A stream of the other account."""
    owner.create_stream(StreamName=stream, ShardCount=3)
    return owner.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]


def call_everything(client):
    """Make every call of this package and return the records of one shard."""
    client.describe()
    (shard, *_) = client.list_shards()
    iterator = client.shard_iterator(shard.shard_id, BEGINNING)
    page, _ = client.get_records(iterator, 100)
    return page.records


@pytest.mark.parametrize("attempts", [1, 6], ids=["direct", "retried"])
@pytest.mark.parametrize("sdk_parser", [False, True], ids=["own parser", "SDK's parser"])
def test_a_shared_stream_of_another_account_is_read_by_its_arn(
    local_kinesis, settings, faults, owner, stream, arn, attempts, sdk_parser
):
    local_kinesis.share(arn)
    owner.put_record(StreamName=stream, Data=b"theirs", PartitionKey="k", ExplicitHashKey="0")
    faults.page_size(1, "ListShards")
    faults.calls.clear()
    client = StreamClient(arn, replace(settings, sdk_parser=sdk_parser), attempts=attempts)
    assert client.stream == stream
    assert len(call_everything(client)) == 1
    for call in faults.calls:
        assert "StreamName" not in call.arguments
        # NextToken identifies the stream; the service refuses it together with a name or an ARN.
        assert ("StreamARN" in call.arguments) is ("NextToken" not in call.arguments), call
    assert faults.count("ListShards") == 3
    assert {call.operation for call in faults.calls} == {
        "DescribeStreamSummary",
        "ListShards",
        "GetShardIterator",
        "GetRecords",
    }


def test_a_shared_stream_of_another_account_is_not_found_by_its_name(local_kinesis, settings, stream, arn):
    local_kinesis.share(arn)
    with pytest.raises(StreamNotFound):
        StreamClient(stream, settings).describe()


def test_a_client_with_a_name_sends_the_name_in_all_calls(kinesis, settings, faults, stream):
    """Emulators without support for ARNs work, and the hosts are those of the region."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.calls.clear()
    call_everything(StreamClient(stream, settings, attempts=1))
    assert not [call for call in faults.calls if "StreamARN" in call.arguments]


def test_a_call_without_permission_fails_and_names_the_policies_to_check(settings, arn):
    with pytest.raises(CallFailed, match=r"kinesis:DescribeStreamSummary.*resource policy") as refused:
        StreamClient(arn, settings).describe()
    assert refused.value.code == "AccessDeniedException"


def test_a_missing_stream_of_the_own_account_is_not_found(settings, stream):
    with pytest.raises(StreamNotFound):
        StreamClient(f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream}", settings).describe()


def test_a_description_with_another_arn_is_refused(local_kinesis, settings, faults, arn):
    local_kinesis.share(arn)

    def another(_, response):
        summary = response.members["StreamDescriptionSummary"]
        return response.but(StreamDescriptionSummary=summary | {"StreamARN": arn.replace(OWNER, "0" * 12)})

    faults.answer("DescribeStreamSummary", another)
    with pytest.raises(CallFailed, match=arn.replace(OWNER, "0" * 12)):
        StreamClient(arn, settings).describe()


# Region and endpoint


def test_the_region_of_the_arn_overrides_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    client = StreamClient("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", ClientSettings())
    assert client.settings.region_name == "eu-west-1"


def test_another_region_in_the_settings_is_refused():
    with pytest.raises(InvalidInput, match=r"eu-west-1.*region_name.*us-east-1"):
        StreamClient("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", ClientSettings("us-east-1"))


class Sent(Exception):
    """Raised instead of sending a request, with its URL."""


def host_of_sdk(client, operation, arguments):
    """The URL to which the SDK sends a call."""

    def stop(request, **_):
        raise Sent(request.url)

    client._client.meta.events.register_first("before-send.kinesis", stop)
    with pytest.raises(Sent) as sent:
        getattr(client._client, operation)(**arguments)
    return str(sent.value).rstrip("/")


@pytest.mark.parametrize(
    ("partition", "region", "suffix"),
    [
        ("aws", "eu-west-1", "amazonaws.com"),
        ("aws-cn", "cn-north-1", "amazonaws.com.cn"),
        ("aws-us-gov", "us-gov-west-1", "amazonaws.com"),
    ],
)
@pytest.mark.parametrize("fips", [False, True])
def test_direct_calls_use_the_endpoint_that_the_sdk_resolves(monkeypatch, partition, region, suffix, fips):
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", str(fips).lower())
    arn = f"arn:{partition}:kinesis:{region}:{OWNER}:stream/orders"
    client = StreamClient(arn, ClientSettings(), attempts=1)
    arguments = {"StreamARN": arn, "ShardIterator": "i"}
    by_sdk = host_of_sdk(client, "get_records", arguments)
    assert by_sdk == f"https://{OWNER}.data-kinesis{'-fips' if fips else ''}.{region}.{suffix}"
    assert client._records_call.requests.url == client._iterator_call.requests.url == f"{by_sdk}/"
    assert client.settings.endpoint_url == by_sdk
    worker = StreamClient(arn, client.settings, attempts=1)
    assert worker._records_call.requests.url == f"{by_sdk}/"


def test_a_custom_endpoint_is_used_unchanged():
    arn = f"arn:aws:kinesis:eu-west-1:{OWNER}:stream/orders"
    client = StreamClient(arn, ClientSettings(endpoint_url="http://127.0.0.1:4567"), attempts=1)
    assert client._records_call.requests.url == f"{client.settings.endpoint_url}/"
    assert client.settings.endpoint_url == "http://127.0.0.1:4567"


def test_a_client_with_a_name_uses_the_regions_endpoint():
    client = StreamClient("orders", ClientSettings("eu-west-1"), attempts=1)
    by_sdk = host_of_sdk(client, "get_records", {"ShardIterator": "i"})
    assert urlsplit(by_sdk).hostname == "kinesis.eu-west-1.amazonaws.com"
    assert client._records_call.requests.url == f"{by_sdk}/"


def test_an_sdk_without_endpoint_rules_uses_the_regions_endpoint():
    class Old:
        meta = boto3.client("kinesis", region_name="eu-west-1").meta

    arn = f"arn:aws:kinesis:eu-west-1:{OWNER}:stream/orders"
    assert data_endpoint(Old(), arn) == "https://kinesis.eu-west-1.amazonaws.com"
