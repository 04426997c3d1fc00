"""Scenarios with consumers that have enhanced fan-out, with tags, and with the limits of the account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.emulators.recorded_api import ABSENT, GARBAGE, HASH_KEYS, NO_STREAM, arn, shard_id

if TYPE_CHECKING:
    from integration.emulators.recorded_api import RecordedApi, Response


def registering(api: RecordedApi) -> None:
    api.create(1)
    named = {"StreamARN": api.arn, "ConsumerName": "reader"}
    registered = api("RegisterStreamConsumer", **named)
    api.settle()
    api("DescribeStreamConsumer", "by name", **named)
    api("DescribeStreamConsumer", "by ARN", ConsumerARN=_arn_in(registered))
    api("DescribeStreamSummary", **api.name)
    api("RegisterStreamConsumer", "again", **named)
    api("DeleteStream", "with a consumer", **api.name)
    api("DeregisterStreamConsumer", **named)
    api.settle()
    api("DescribeStreamConsumer", "gone", **named)
    api("DeregisterStreamConsumer", "again", **named)


def registering_with_invalid_arguments(api: RecordedApi) -> None:
    api.create(1)
    api("RegisterStreamConsumer", "no name", StreamARN=api.arn)
    api("RegisterStreamConsumer", "an empty name", StreamARN=api.arn, ConsumerName="")
    api("RegisterStreamConsumer", "no stream", ConsumerName="reader")
    api("RegisterStreamConsumer", "of no stream", StreamARN=arn(NO_STREAM), ConsumerName="reader")
    api("DescribeStreamConsumer", "no name", StreamARN=api.arn)
    api("DescribeStreamConsumer", "nothing")


def listing_consumers(api: RecordedApi) -> None:
    api.create(1)
    for name in ("c", "a", "b"):
        api("RegisterStreamConsumer", name, StreamARN=api.arn, ConsumerName=name)
    api.settle()
    api("ListStreamConsumers", "three", StreamARN=api.arn)
    page = api("ListStreamConsumers", "two", StreamARN=api.arn, MaxResults=2)
    api("ListStreamConsumers", "the last", StreamARN=api.arn, NextToken=page["NextToken"])
    api("ListStreamConsumers", "garbage for a token", StreamARN=api.arn, NextToken=GARBAGE)
    api("ListStreamConsumers", "no results at all", StreamARN=api.arn, MaxResults=0)
    api("ListStreamConsumers", "of no stream", StreamARN=arn(NO_STREAM))


def subscribing(api: RecordedApi) -> None:
    """A subscription to a shard that has ended, whose response ends."""
    api.create(1)
    registered = api("RegisterStreamConsumer", StreamARN=api.arn, ConsumerName="reader")
    api("SplitShard", **api.name, ShardToSplit=shard_id(0), NewStartingHashKey=str(HASH_KEYS // 2))
    api.settle()
    start = {"ShardId": shard_id(0), "StartingPosition": {"Type": "TRIM_HORIZON"}}
    consumer_arn = _arn_in(registered)
    api("SubscribeToShard", **start, ConsumerARN=consumer_arn)
    api("SubscribeToShard", "again", **start, ConsumerARN=consumer_arn)
    api("SubscribeToShard", "of no consumer", **start, ConsumerARN=f"{api.arn}/consumer/other:1")


def tagging_resources(api: RecordedApi) -> None:
    api.create(1)
    api("TagResource", ResourceARN=api.arn, Tags={"team": "shop", "stage": "test"})
    api("ListTagsForResource", ResourceARN=api.arn)
    api("UntagResource", ResourceARN=api.arn, TagKeys=["stage"])
    api("ListTagsForResource", "after the removal", ResourceARN=api.arn)
    for operation, arguments in (
        ("TagResource", {"Tags": {"team": "shop"}}),
        ("ListTagsForResource", {}),
        ("UntagResource", {"TagKeys": ["team"]}),
    ):
        api(operation, "of no stream", ResourceARN=arn(NO_STREAM), **arguments)


def describing_the_account(api: RecordedApi) -> None:
    api("DescribeLimits")
    api("DescribeAccountSettings")


def _arn_in(registered: Response) -> str:
    consumer = registered["Consumer"]
    return ABSENT if consumer == ABSENT else str(consumer["ConsumerARN"])
