"""The descriptions of consumers: that of the consumer that was asked for, or an error."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import CallFailed


@pytest.fixture
def stream_arn(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    return client.describe().identity.arn


@pytest.fixture
def describe(client, stream_arn, faults):
    """Describe a registered consumer with a change to its description in the response."""
    registered = client.register_consumer("lake", stream_arn)

    def describe(change, by="lake"):
        def answer(_, response):
            description = dict(response.members["ConsumerDescription"])
            change(description)
            return response.but(ConsumerDescription=description)

        faults.answer("DescribeStreamConsumer", answer)
        return client.describe_consumer(registered.arn if by == "ARN" else by, stream_arn)

    return describe


@pytest.mark.parametrize("by", ["lake", "ARN"])
def test_a_consumer_is_found_by_its_name_and_by_its_arn(describe, stream_arn, by):
    found = describe(lambda _: None, by)
    assert (found.name, found.status) == ("lake", "ACTIVE")
    assert found.arn.startswith(f"{stream_arn}/consumer/lake:")


def test_an_arn_without_a_time_as_of_some_emulators_is_accepted(describe, stream_arn):
    arn = f"{stream_arn}/consumer/lake"
    assert describe(lambda found: found.update(ConsumerARN=arn)).arn == arn


@pytest.mark.parametrize("by", ["lake", "ARN"])
@pytest.mark.parametrize(
    "arn",
    ["{}-other/consumer/lake:1", "{}/consumer/other:1", "{}/consumer/lake-2:1", "{}/consumer/lake:1/x", ""],
)
def test_the_arn_of_another_consumer_is_an_incomplete_body(describe, stream_arn, by, arn):
    with pytest.raises(CallFailed, match="is not consumer") as failed:
        describe(lambda found: found.update(ConsumerARN=arn.format(stream_arn)), by)
    assert failed.value.code == "IncompleteBody"


def test_another_arn_than_the_given_one_is_an_incomplete_body(describe, stream_arn):
    with pytest.raises(CallFailed, match="is not consumer"):
        describe(lambda found: found.update(ConsumerARN=f"{stream_arn}/consumer/lake:1"), "ARN")


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.pop("ConsumerName"),
        lambda found: found.pop("ConsumerARN"),
        lambda found: found.pop("ConsumerStatus"),
        lambda found: found.pop("ConsumerCreationTimestamp"),
        lambda found: found.update(ConsumerARN=["arn"]),
        lambda found: found.update(ConsumerCreationTimestamp="never"),
        lambda found: found.update(ConsumerCreationTimestamp=1e300),
    ],
    ids=["no name", "no ARN", "no status", "no time", "no text", "no number", "no year"],
)
def test_a_description_that_lacks_a_field_or_is_malformed_is_an_incomplete_body(describe, change):
    with pytest.raises(CallFailed) as failed:
        describe(change)
    assert failed.value.code == "IncompleteBody"


def test_another_name_is_an_incomplete_body(describe):
    with pytest.raises(CallFailed, match="is not consumer"):
        describe(lambda found: found.update(ConsumerName="other"))


def test_a_repeated_token_makes_the_list_of_consumers_incomplete(client, stream_arn, faults):
    for name in ("a", "b", "c"):
        client.register_consumer(name, stream_arn)
    tokens = []

    def back_to_page_two(_, response):
        tokens.append(response.members.get("NextToken"))
        return response.but(NextToken=tokens[0])

    faults.request("ListStreamConsumers", lambda arguments: {"MaxResults": 1, **arguments})
    faults.answer("ListStreamConsumers", back_to_page_two, times=20)
    with pytest.raises(CallFailed, match="the same NextToken twice"):
        client.list_consumers(stream_arn)
