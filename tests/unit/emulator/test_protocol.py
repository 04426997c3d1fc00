"""The wire protocol: headers, validation errors, and conformance with the service's model."""

import json
from email.utils import parsedate_to_datetime

import botocore.session
import pytest
from msgspec import inspect

from kinesis_assets.emulator.operations import OPERATIONS

JSON = "application/x-amz-json-1.1"
LIST_STREAMS = "Kinesis_20131202.ListStreams"

# Members that this endpoint does not have, and bounds that differ from those of the service's model.
LEFT_OUT = {
    "StreamId",  # reserved for future use
    "WarmThroughputMiBps",  # on-demand streams alone
}
BOUND_ELSEWHERE = {
    "Data"  # by the stream's maximum record size
}


@pytest.fixture(scope="module")
def model():
    return botocore.session.get_session().get_service_model("kinesis")


def test_every_response_has_the_headers_of_the_service(send, clock):
    first, _ = send(b"{}", Content_Type=JSON, X_Amz_Target=LIST_STREAMS)
    second, _ = send(b"{}", Content_Type=JSON, X_Amz_Target=LIST_STREAMS)
    assert first.headers["Content-Type"] == JSON
    assert abs(parsedate_to_datetime(first.headers["Date"]).timestamp() - clock()) < 1.5
    assert first.headers["x-amzn-RequestId"] != second.headers["x-amzn-RequestId"]


def test_an_operation_without_a_result_has_an_empty_body(send, stream):
    response, body = send(
        json.dumps({"StreamName": stream.name}).encode(),
        Content_Type=JSON,
        X_Amz_Target="Kinesis_20131202.DeleteStream",
    )
    assert (response.status, body) == (200, b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"Content_Type": JSON, "X_Amz_Target": "Kinesis_20131202.CreateQueue"},
        {"Content_Type": JSON, "X_Amz_Target": "DynamoDB_20120810.ListStreams"},
        {"Content_Type": JSON, "X_Amz_Target": "ListStreams"},
        {"Content_Type": JSON},
        {"Content_Type": "application/x-amz-cbor-1.1", "X_Amz_Target": LIST_STREAMS},
        {"X_Amz_Target": LIST_STREAMS},
    ],
)
def test_an_unknown_operation_or_content_type_is_refused(send, headers):
    response, body = send(b"{}", **headers)
    assert response.status == 400
    assert json.loads(body)["__type"] == "UnknownOperationException"


def test_the_content_type_may_have_parameters(send):
    response, _ = send(b"{}", Content_Type=f"{JSON}; charset=utf-8", X_Amz_Target=LIST_STREAMS)
    assert response.status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"Limit": "1"}',
        b'{"Limit": 1.5}',
        b'{"ExclusiveStartStreamName": "\xff"}',
    ],
)
def test_a_body_that_does_not_match_the_type_is_refused(send, body):
    response, content = send(body, Content_Type=JSON, X_Amz_Target=LIST_STREAMS)
    assert response.status == 400
    assert json.loads(content)["__type"] == "SerializationException"


def test_unknown_members_and_nulls_are_ignored(call):
    status, _ = call("ListStreams", NoSuchMember=1, Limit=None)
    assert status == 200


def test_a_missing_member_is_refused(call):
    status, error = call("GetRecords")
    assert (status, error["__type"]) == (400, "ValidationException")
    assert "ShardIterator" in error["message"]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("StreamName", "not a name"),
        ("ShardId", "s" * 129),
        ("ShardIteratorType", "SOMEWHERE"),
        ("StartingSequenceNumber", "007"),
    ],
)
def test_a_value_out_of_bounds_is_named(call, member, value):
    valid = {"StreamName": "orders", "ShardId": "shard", "ShardIteratorType": "LATEST"}
    _, error = call("GetShardIterator", **valid | {member: value})
    assert error["__type"] == "ValidationException"
    assert member in error["message"]


def test_a_value_out_of_bounds_in_a_list_is_named_by_its_index(call, stream):
    records = [{"Data": "", "PartitionKey": "key"}, {"Data": "", "PartitionKey": ""}]
    _, error = call("PutRecords", StreamName=stream.name, Records=records)
    assert "length >= 1" in error["message"]
    assert "Records[1].PartitionKey" in error["message"]


@pytest.mark.parametrize(("operation", "limit"), [("ListStreams", 0), ("DescribeStream", 10_001)])
def test_a_number_out_of_range_is_refused(call, stream, operation, limit):
    _, error = call(operation, StreamName=stream.name, Limit=limit)
    assert error["__type"] == "ValidationException"
    assert "Limit" in error["message"]


def bounds(kind):
    """The bounds of a msgspec type, in the terms of the service's model."""
    if isinstance(kind, inspect.UnionType):
        return bounds(next(choice for choice in kind.types if not isinstance(choice, inspect.NoneType)))
    names = {
        "min": ("min_length", "ge"),
        "max": ("max_length", "le"),
        "pattern": ("pattern",),
        "enum": ("values",),
    }
    found = {
        name: next((value for value in (getattr(kind, key, None) for key in keys) if value is not None), None)
        for name, keys in names.items()
    }
    found["pattern"] = found["pattern"] and found["pattern"].strip("^$")
    found["enum"] = found["enum"] and sorted(found["enum"])
    return found


def model_bounds(shape):
    return {
        "min": shape.metadata.get("min"),
        "max": shape.metadata.get("max"),
        "pattern": shape.metadata.get("pattern") and shape.metadata["pattern"].strip("^$"),
        "enum": sorted(shape.metadata["enum"]) if "enum" in shape.metadata else None,
    }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_request_has_the_members_and_bounds_of_the_service_model(model, operation):
    shape = model.operation_model(operation).input_shape
    fields = {field.encode_name: field for field in inspect.type_info(OPERATIONS[operation]).fields}
    assert set(fields) == set(shape.members) - LEFT_OUT
    for name, field in fields.items():
        if name not in BOUND_ELSEWHERE:
            assert field.required == (name in shape.required_members), name
            assert bounds(field.type) == model_bounds(shape.members[name]), name


def assert_fits(shape, value, path):
    if shape.type_name == "structure":
        assert set(value) <= set(shape.members), path
        assert set(shape.required_members) <= set(value), path
        for name, member in value.items():
            assert_fits(shape.members[name], member, f"{path}.{name}")
    elif shape.type_name == "list":
        for item in value:
            assert_fits(shape.member, item, f"{path}[]")
    else:
        types = {"string": str, "blob": str, "timestamp": float, "boolean": bool, "integer": int, "long": int}
        assert type(value) is types[shape.type_name], path


def test_every_response_has_the_members_of_the_service_model(model, call, create):
    stream = create(2)
    name = {"StreamName": stream.name}
    record = {"Data": "", "PartitionKey": "key", "ExplicitHashKey": "0"}
    scaling = {"TargetShardCount": 3, "ScalingType": "UNIFORM_SCALING"}
    reader = {"StreamARN": stream.arn, "ConsumerName": "reader"}
    call("AddTagsToStream", **name, Tags={"team": "shop"})
    responses = [
        ("PutRecord", call("PutRecord", **name, **record)),
        ("PutRecords", call("PutRecords", **name, Records=[record])),
        ("GetRecords", call("GetRecords", ShardIterator=stream.iterator())),
        ("UpdateShardCount", call("UpdateShardCount", **name, **scaling)),
        ("GetRecords", call("GetRecords", ShardIterator=stream.iterator())),
        ("GetShardIterator", call(
            "GetShardIterator", **name, ShardId="shardId-000000000000", ShardIteratorType="LATEST"
        )),
        ("ListShards", call("ListShards", **name, MaxResults=5)),
        ("DescribeStream", call("DescribeStream", **name)),
        ("DescribeStreamSummary", call("DescribeStreamSummary", **name)),
        ("ListStreams", call("ListStreams", Limit=1)),
        ("ListTagsForStream", call("ListTagsForStream", **name)),
        ("RegisterStreamConsumer", call("RegisterStreamConsumer", **reader)),
        ("DescribeStreamConsumer", call("DescribeStreamConsumer", **reader)),
        ("ListStreamConsumers", call("ListStreamConsumers", StreamARN=stream.arn)),
        ("ListTagsForResource", call("ListTagsForResource", ResourceARN=stream.arn)),
        ("DescribeLimits", call("DescribeLimits")),
        ("DescribeAccountSettings", call("DescribeAccountSettings")),
    ]  # fmt: skip
    for operation, (status, response) in responses:
        assert status == 200, response
        assert_fits(model.operation_model(operation).output_shape, response, operation)
    without_output = set(OPERATIONS) - {"SubscribeToShard"} - {operation for operation, _ in responses}
    assert all(model.operation_model(operation).output_shape is None for operation in without_output)


UNSUPPORTED = {
    "AcknowledgeDeadLetterQueueRecords",
    "AcknowledgeQueueRecords",
    "CreateChannel",
    "CreateQueue",
    "DeleteChannel",
    "DeleteQueue",
    "DeleteResourcePolicy",
    "DescribeChannel",
    "DescribeQueue",
    "DisableEnhancedMonitoring",
    "EnableEnhancedMonitoring",
    "GetResourcePolicy",
    "ListChannels",
    "ListQueues",
    "PutResourcePolicy",
    "ReceiveDeadLetterQueueRecords",
    "ReceiveQueueRecords",
    "RestoreDeadLetterQueueRecords",
    "StartStreamEncryption",
    "StopStreamEncryption",
    "UpdateAccountSettings",
    "UpdateChannel",
    "UpdateDeadLetterQueueRecordsVisibility",
    "UpdateQueue",
    "UpdateQueueRecordsVisibility",
    "UpdateStreamWarmThroughput",
}


def sample(shape, stream):
    """Return a value that fits a shape of the service's model, for a stream where one is named."""
    known = {"StreamARN": stream.arn, "ResourceARN": stream.arn, "StreamName": stream.name}
    if shape.name in known:
        return known[shape.name]
    if shape.type_name == "structure":
        named = {*shape.required_members, *known}
        return {name: sample(member, stream) for name, member in shape.members.items() if name in named}
    if shape.type_name == "list":
        return [sample(shape.member, stream)] * max(shape.metadata.get("min", 0), 1)
    if shape.type_name == "map":
        return {sample(shape.key, stream): sample(shape.value, stream)}
    if "enum" in shape.metadata:
        return shape.metadata["enum"][0]
    numbers = dict.fromkeys(("integer", "long", "timestamp"), shape.metadata.get("min", 1))
    return (numbers | {"boolean": True, "blob": ""}).get(shape.type_name, "1")


OPERATIONS_OF_THE_MODEL = botocore.session.get_session().get_service_model("kinesis").operation_names


@pytest.mark.parametrize("operation", OPERATIONS_OF_THE_MODEL)
def test_every_operation_of_the_service_model_is_carried_out_or_refused(model, call, stream, operation):
    shape = model.operation_model(operation).input_shape
    status, response = call(operation, **({} if shape is None else sample(shape, stream)))
    unknown = response.get("__type") == "UnknownOperationException"
    assert unknown == (operation in UNSUPPORTED)
    assert status in {200, 400}


def test_an_unsupported_operation_is_an_error_of_the_client(client, refused):
    with refused("UnknownOperationException", "ListQueues"):
        client.list_queues()
