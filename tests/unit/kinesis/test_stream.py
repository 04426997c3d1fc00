"""A stream's name or ARN, and its identity."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinesis_assets.errors import InvalidInput, StreamRecreated
from kinesis_assets.kinesis.stream import StreamAddress, StreamIdentity, StreamSummary

ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders.v2"


def test_a_name_is_sent_as_stream_name():
    address = StreamAddress.parse("orders.v2")
    assert (address.name, address.arn, str(address)) == ("orders.v2", None, "orders.v2")
    assert address.arguments == {"StreamName": "orders.v2"}


@pytest.mark.parametrize(
    ("partition", "region"),
    [
        ("aws", "eu-west-1"),
        ("aws-cn", "cn-north-1"),
        ("aws-us-gov", "us-gov-west-1"),
        ("aws-iso-b", "us-isob-east-1"),
    ],
)
def test_an_arn_of_any_partition_is_sent_as_stream_arn(partition, region):
    arn = f"arn:{partition}:kinesis:{region}:123456789012:stream/orders.v2"
    address = StreamAddress.parse(arn)
    assert (address.name, address.arn, str(address)) == ("orders.v2", arn, arn)
    assert address.arguments == {"StreamARN": arn}
    assert address.region_name(None) == region


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two words",
        "orders/v2",
        "arn:",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/",
        "arn:aws:kinesis:eu-west-1:12345:stream/orders",
        "arn:aws:kinesis::123456789012:stream/orders",
        "arn:aws:firehose:eu-west-1:123456789012:stream/orders",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/or ders",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/orders\n",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/../orders",
        "arn:aws:kinesis:eu-west-1:123456789012:table/orders",
        "arn:gcp:kinesis:eu-west-1:123456789012:stream/orders",
        "arn:aws:kinesis:eu-west-1:12345678901\u0662:stream/orders",
        f"arn:aws:kinesis:eu-west-1:123456789012:stream/{'o' * 129}",
        " " + ARN,
    ],
)
def test_text_that_is_neither_a_name_nor_an_arn_is_refused(text):
    with pytest.raises(InvalidInput):
        StreamAddress.parse(text)


def test_the_arn_of_a_consumer_is_refused_and_the_error_names_the_streams_arn():
    with pytest.raises(InvalidInput, match="consumer") as refused:
        StreamAddress.parse(f"{ARN}/consumer/analytics:1700000000")
    assert f"'{ARN}'" in str(refused.value)


def test_the_region_of_an_arn_must_match_region_name():
    assert StreamAddress.parse(ARN).region_name("eu-west-1") == "eu-west-1"
    with pytest.raises(InvalidInput, match=r"eu-west-1.*region_name.*us-east-1"):
        StreamAddress.parse(ARN).region_name("us-east-1")


def test_a_name_has_no_region():
    assert StreamAddress.parse("orders").region_name("us-east-1") == "us-east-1"
    assert StreamAddress.parse("orders").region_name(None) is None


@pytest.mark.parametrize(
    ("text", "arn", "region", "expected"),
    [
        (ARN, ARN, None, True),
        (ARN, ARN.replace("123456789012", "210987654321"), "eu-west-1", False),
        ("orders.v2", ARN, "eu-west-1", True),
        ("orders.v2", ARN, "eu-west-2", False),
        ("orders", ARN, "eu-west-1", False),
        ("orders.v2", "orders.v2", "eu-west-1", False),
    ],
)
def test_an_arn_may_be_that_of_an_address_by_its_name_and_region(text, arn, region, expected):
    assert StreamAddress.parse(text).may_have(arn, region) is expected


def test_a_stream_that_was_created_again_is_reported_with_what_that_means():
    created, now = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    summary = StreamSummary(StreamIdentity(ARN, created), now, retention_hours=24)
    summary.require(StreamIdentity(ARN, created), "since then; run again")
    with pytest.raises(StreamRecreated, match=r"stream orders.v2: deleted and created again since then; run"):
        summary.require(StreamIdentity(ARN, now), "since then; run again")
