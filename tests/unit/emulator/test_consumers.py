"""Consumers with enhanced fan-out: register, describe, list and deregister."""

from __future__ import annotations

import pytest


@pytest.fixture
def register(client, stream):
    """Register a consumer and return its ARN."""

    def register(name="reader", **more):
        registered = client.register_stream_consumer(StreamARN=stream.arn, ConsumerName=name, **more)
        return registered["Consumer"]["ConsumerARN"]

    return register


def described(client, **named):
    return client.describe_stream_consumer(**named)["ConsumerDescription"]


def names(page):
    return [consumer["ConsumerName"] for consumer in page["Consumers"]]


def test_a_consumer_is_creating_when_it_is_registered_and_then_active(client, stream, clock):
    registered = client.register_stream_consumer(StreamARN=stream.arn, ConsumerName="reader")["Consumer"]
    assert registered["ConsumerStatus"] == "CREATING"
    consumer = described(client, ConsumerARN=registered["ConsumerARN"])
    assert consumer == registered | {"ConsumerStatus": "ACTIVE", "StreamARN": stream.arn}
    assert consumer["ConsumerCreationTimestamp"].timestamp() == round(clock(), 3)


def test_the_arn_of_a_consumer_has_the_second_of_its_creation(register, stream, clock):
    clock.advance(0.75)
    assert register() == f"{stream.arn}/consumer/reader:{int(clock())}"


def test_a_consumer_that_is_registered_again_has_another_arn(client, register, stream, refused):
    first = register()
    client.deregister_stream_consumer(ConsumerARN=first)
    second = register()
    assert second != first
    with refused("ResourceNotFoundException"):
        described(client, ConsumerARN=first)
    assert described(client, StreamARN=stream.arn, ConsumerName="reader")["ConsumerARN"] == second


def test_a_consumer_is_found_by_its_arn_or_by_its_name_and_stream(client, register, stream):
    arn = register()
    by_name = {"StreamARN": stream.arn, "ConsumerName": "reader"}
    for named in ({"ConsumerARN": arn}, by_name, by_name | {"ConsumerARN": arn}):
        assert described(client, **named)["ConsumerARN"] == arn


@pytest.mark.parametrize("given", [None, "StreamARN", "ConsumerName"])
def test_a_consumer_needs_an_arn_or_a_name_with_a_stream(client, register, stream, refused, given):
    register()
    named = {"StreamARN": stream.arn, "ConsumerName": "reader"}
    with refused("InvalidArgumentException"):
        described(client, **{name: value for name, value in named.items() if name == given})


@pytest.mark.parametrize("other", ["ConsumerName", "StreamARN"])
def test_a_name_or_stream_that_does_not_match_the_arn_is_refused(client, register, create, refused, other):
    arn = register()
    wrong = {"ConsumerName": "other", "StreamARN": create().arn}
    with refused("InvalidArgumentException", "does not match"):
        described(client, **{"ConsumerARN": arn, other: wrong[other]})


def test_a_name_is_unique_within_its_stream(register, create, client, refused):
    register()
    with refused("ResourceInUseException"):
        register()
    client.register_stream_consumer(StreamARN=create().arn, ConsumerName="reader")


def test_a_stream_has_at_most_twenty_consumers(client, register, stream, refused):
    for number in range(20):
        register(f"reader-{number}")
    with refused("LimitExceededException", "20"):
        register("reader-20")
    client.deregister_stream_consumer(StreamARN=stream.arn, ConsumerName="reader-0")
    register("reader-20")


def test_the_summary_of_a_stream_counts_its_consumers(client, register, stream):
    assert stream.summary["ConsumerCount"] == 0
    arn = register()
    assert stream.summary["ConsumerCount"] == 1
    client.deregister_stream_consumer(ConsumerARN=arn)
    assert stream.summary["ConsumerCount"] == 0


def test_consumers_are_listed_by_name(client, register, stream):
    for name in ("b", "a"):
        register(name)
    page = client.list_stream_consumers(StreamARN=stream.arn)
    assert names(page) == ["a", "b"]
    assert {consumer["ConsumerStatus"] for consumer in page["Consumers"]} == {"ACTIVE"}
    assert "NextToken" not in page


def test_consumers_are_listed_one_page_at_a_time(client, register, stream):
    for name in ("a", "b", "c"):
        register(name)
    first = client.list_stream_consumers(StreamARN=stream.arn, MaxResults=2)
    assert names(first) == ["a", "b"]
    client.deregister_stream_consumer(StreamARN=stream.arn, ConsumerName="b")
    second = client.list_stream_consumers(StreamARN=stream.arn, NextToken=first["NextToken"], MaxResults=2)
    assert names(second) == ["c"]
    assert "NextToken" not in second


def test_a_token_of_consumers_expires(client, register, stream, clock, refused):
    for name in ("a", "b"):
        register(name)
    token = client.list_stream_consumers(StreamARN=stream.arn, MaxResults=1)["NextToken"]
    clock.advance(301)
    with refused("ExpiredNextTokenException"):
        client.list_stream_consumers(StreamARN=stream.arn, NextToken=token)


def test_a_token_is_not_for_a_stream_that_was_created_again(client, register, stream, clock, refused):
    for name in ("a", "b"):
        register(name)
    token = client.list_stream_consumers(StreamARN=stream.arn, MaxResults=1)["NextToken"]
    client.delete_stream(StreamName=stream.name, EnforceConsumerDeletion=True)
    clock.advance(1)
    client.create_stream(StreamName=stream.name, ShardCount=1)
    with refused("ResourceNotFoundException"):
        client.list_stream_consumers(StreamARN=stream.arn, NextToken=token)


def test_consumers_can_be_listed_by_the_creation_time_of_the_stream(client, register, stream, refused):
    register()
    created = stream.summary["StreamCreationTimestamp"].timestamp()
    assert names(client.list_stream_consumers(StreamARN=stream.arn, StreamCreationTimestamp=created))
    with refused("ResourceNotFoundException"):
        client.list_stream_consumers(StreamARN=stream.arn, StreamCreationTimestamp=created + 1)


def test_the_creation_time_of_the_stream_may_be_in_whole_seconds(call, create, clock):
    clock.seconds = int(clock.seconds) + 1.5
    stream = create()
    created = int(stream.summary["StreamCreationTimestamp"].timestamp())
    answer = call("ListStreamConsumers", StreamARN=stream.arn, StreamCreationTimestamp=created)
    assert answer == (200, {"Consumers": []})


def test_a_stream_with_consumers_is_deleted_only_if_that_is_enforced(client, register, stream, refused):
    register()
    with refused("ResourceInUseException", "EnforceConsumerDeletion"):
        client.delete_stream(StreamName=stream.name)
    with refused("ResourceInUseException"):
        client.delete_stream(StreamName=stream.name, EnforceConsumerDeletion=False)
    client.delete_stream(StreamName=stream.name, EnforceConsumerDeletion=True)
    with refused("ResourceNotFoundException"):
        client.list_stream_consumers(StreamARN=stream.arn)


def test_a_consumer_of_another_account_is_not_accessible(local, connect, register, refused):
    arn, others = register(), connect(local, "444455556666")
    with refused("AccessDeniedException", "kinesis:DescribeStreamConsumer"):
        others.describe_stream_consumer(ConsumerARN=arn)
    local.share(arn.partition("/consumer/")[0], ["DescribeStreamConsumer"], account_id="444455556666")
    assert described(others, ConsumerARN=arn)["ConsumerName"] == "reader"
