"""The list of an account's streams, on real HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import InvalidInput, StreamsNotListed
from kinesis_assets.kinesis.account import AccountClient
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.testing import LocalKinesis
from support.fixtures.stream import boto3_of, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def local() -> Iterator[LocalKinesis]:
    with LocalKinesis() as local:
        yield local


@pytest.fixture(scope="module")
def names(local: LocalKinesis) -> list[str]:
    """The names of 230 streams, which ListStreams returns in three pages."""
    client = boto3_of(local)
    names = [f"stream-{number:03}" for number in range(230)]
    for name in names:
        client.create_stream(StreamName=name, ShardCount=1)
    return names


@pytest.mark.slow
def test_all_pages_are_listed(local, names):
    streams = AccountClient(settings_of(local)).list_streams()
    assert [stream.name for stream in streams] == names
    assert streams[7].arn == "arn:aws:kinesis:us-east-1:000000000000:stream/stream-007"
    assert not streams[7].deleting


@pytest.mark.slow
def test_all_tags_of_a_stream_are_listed(local, names):
    client = boto3_of(local)
    tags = {f"key-{number:02}": str(number) for number in range(50)}
    client.add_tags_to_stream(StreamName=names[0], Tags=dict(list(tags.items())[:25]))
    client.add_tags_to_stream(StreamName=names[0], Tags=dict(list(tags.items())[25:]))
    account = AccountClient(settings_of(local))
    first, second, *_ = account.list_streams()
    assert account.tags(first) == tags
    assert account.tags(second) == {}


Change = "Callable[[dict[str, Any]], dict[str, Any]]"


def listing(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda body: {name: value for name, value in (body | changes).items() if value is not None}


def renamed(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"StreamSummaries": [each | {"StreamName": "other"} for each in body["StreamSummaries"]]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (listing(StreamSummaries=None), "the response of ListStreams has no StreamSummaries"),
        (listing(HasMoreStreams=None), "the response of ListStreams has no HasMoreStreams"),
        (listing(StreamNames=["stream-000"]), "different streams as names and as summaries"),
        (listing(StreamNames=[], StreamSummaries=[]), "an empty page, but there are more"),
        (listing(NextToken=None), None),
        (renamed, "stream other with the ARN"),
    ],
)
def test_an_incomplete_list_is_refused(local, names, change, reason):
    account = AccountClient(settings_of(local))
    call = account._client.list_streams
    account._client.list_streams = lambda **arguments: change(json_of(call(**arguments)))
    if reason is None:  # older endpoints have no tokens
        assert [stream.name for stream in account.list_streams()] == names
        return
    with pytest.raises(StreamsNotListed, match=reason):
        account.list_streams()


def json_of(response: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(response, default=str))


@pytest.mark.usefixtures("names")
def test_a_page_that_comes_again_is_refused(local):
    account = AccountClient(settings_of(local))
    first = account._client.list_streams()
    account._client.list_streams = lambda **_: first
    with pytest.raises(StreamsNotListed, match="ListStreams"):
        account.list_streams()


@pytest.mark.slow
def test_a_failed_call_is_one_sentence():
    settings = ClientSettings(region_name="us-east-1", endpoint_url="http://127.0.0.1:1")
    with pytest.raises(StreamsNotListed, match=r"ListStreams.*EndpointConnectionError"):
        AccountClient(settings).list_streams()


def test_an_unknown_profile_is_refused():
    with pytest.raises(InvalidInput, match="nobody"):
        AccountClient(ClientSettings(profile_name="nobody"))
