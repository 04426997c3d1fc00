"""The tags of streams and consumers."""

import pytest


def tags_of(client, stream, **more):
    return client.list_tags_for_stream(StreamName=stream.name, **more)


def test_a_new_stream_has_the_tags_of_its_creation(client, names):
    name = next(names)
    client.create_stream(StreamName=name, ShardCount=1, Tags={"team": "shop"})
    assert client.list_tags_for_stream(StreamName=name)["Tags"] == [{"Key": "team", "Value": "shop"}]
    client.delete_stream(StreamName=name)


def test_tags_are_added_replaced_and_removed(client, stream):
    client.add_tags_to_stream(StreamName=stream.name, Tags={"team": "shop", "tier": "1"})
    client.add_tags_to_stream(StreamARN=stream.arn, Tags={"tier": "2"})
    client.remove_tags_from_stream(StreamName=stream.name, TagKeys=["team", "unknown"])
    response = tags_of(client, stream)
    assert response["Tags"] == [{"Key": "tier", "Value": "2"}]
    assert response["HasMoreTags"] is False


def test_tags_are_listed_in_pages_by_key(client, stream):
    client.add_tags_to_stream(StreamName=stream.name, Tags={"b": "2", "a": "1", "c": "3"})
    first = tags_of(client, stream, Limit=2)
    assert ([tag["Key"] for tag in first["Tags"]], first["HasMoreTags"]) == (["a", "b"], True)
    last = tags_of(client, stream, ExclusiveStartTagKey="b")
    assert ([tag["Key"] for tag in last["Tags"]], last["HasMoreTags"]) == (["c"], False)


@pytest.mark.parametrize(
    "tags", [{"": "x"}, {"k" * 129: "x"}, {"k": "v" * 257}], ids=["empty", "key", "value"]
)
def test_invalid_tags_are_refused(client, stream, refused, tags):
    with refused("ValidationException"):
        client.add_tags_to_stream(StreamName=stream.name, Tags=tags)


def test_more_than_fifty_tags_are_refused(client, stream, refused):
    client.add_tags_to_stream(StreamName=stream.name, Tags={str(number): "" for number in range(50)})
    with refused("InvalidArgumentException", "more than 50 tags"):
        client.add_tags_to_stream(StreamName=stream.name, Tags={"one": "more"})


def test_nothing_is_created_with_more_than_fifty_tags(client, stream, refused, names):
    many = {str(number): "" for number in range(51)}
    name = next(names)
    with refused("InvalidArgumentException", "more than 50 tags"):
        client.create_stream(StreamName=name, ShardCount=1, Tags=many)
    with refused("ResourceNotFoundException"):
        client.describe_stream_summary(StreamName=name)
    with refused("InvalidArgumentException", "more than 50 tags"):
        client.register_stream_consumer(StreamARN=stream.arn, ConsumerName="reader", Tags=many)
    assert client.list_stream_consumers(StreamARN=stream.arn)["Consumers"] == []


@pytest.fixture
def consumer(client, stream):
    """The ARN of a consumer that was registered with a tag."""
    registered = client.register_stream_consumer(
        StreamARN=stream.arn, ConsumerName="reader", Tags={"team": "shop"}
    )
    return registered["Consumer"]["ConsumerARN"]


def resource_tags(client, arn):
    return {tag["Key"]: tag["Value"] for tag in client.list_tags_for_resource(ResourceARN=arn)["Tags"]}


def test_a_consumer_has_tags_of_its_own(client, stream, consumer):
    client.tag_resource(ResourceARN=consumer, Tags={"tier": "1"})
    client.tag_resource(ResourceARN=stream.arn, Tags={"tier": "2"})
    assert resource_tags(client, consumer) == {"team": "shop", "tier": "1"}
    client.untag_resource(ResourceARN=consumer, TagKeys=["team", "unknown"])
    assert resource_tags(client, consumer) == {"tier": "1"}
    assert resource_tags(client, stream.arn) == {"tier": "2"}


def test_a_stream_has_the_same_tags_by_both_operations(client, stream):
    client.tag_resource(ResourceARN=stream.arn, Tags={"tier": "1"})
    assert tags_of(client, stream)["Tags"] == [{"Key": "tier", "Value": "1"}]


@pytest.mark.parametrize("missing", ["stream/missing", "queue/missing", "stream/missing/consumer/reader:1"])
def test_a_resource_that_does_not_exist_has_no_tags(client, stream, refused, missing):
    arn = stream.arn.replace(f"stream/{stream.name}", missing)
    with refused("ResourceNotFoundException"):
        client.list_tags_for_resource(ResourceARN=arn)


def test_a_consumer_has_at_most_fifty_tags(client, consumer, refused):
    with refused("InvalidArgumentException", "more than 50 tags"):
        client.tag_resource(ResourceARN=consumer, Tags={str(number): "" for number in range(50)})
