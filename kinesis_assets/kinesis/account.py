"""The streams of an account in one region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import botocore
from botocore.exceptions import BotoCoreError, ClientError

from kinesis_assets.errors import InvalidInput, StreamsNotListed
from kinesis_assets.kinesis.sdk import ATTEMPTS, CORRECT_SETTINGS, sdk_client
from kinesis_assets.kinesis.stream import StreamAddress

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings


@dataclass(frozen=True, slots=True)
class ListedStream:
    """A stream of the account."""

    name: str
    arn: str
    deleting: bool


class AccountClient:
    """The calls that list the streams of an account, through the AWS SDK."""

    def __init__(self, settings: ClientSettings) -> None:
        try:
            self._client = sdk_client(settings, ATTEMPTS)
        except (BotoCoreError, ValueError) as error:
            # The SDK's error is not chained: it may repeat credentials in the endpoint URL.
            raise InvalidInput(f"cannot create a Kinesis client: {error}", advice=CORRECT_SETTINGS) from None

    def list_streams(self) -> list[ListedStream]:
        """Return all streams, by name. Raises `StreamsNotListed` if a call fails or a page is invalid."""
        listed: dict[str, ListedStream] = {}
        following: dict[str, str] = {}
        more = True
        while more:
            page = self._call(
                "ListStreams", ("StreamNames", "StreamSummaries", "HasMoreStreams"), **following
            )
            streams = [_stream(summary) for summary in page["StreamSummaries"]]
            if [stream.name for stream in streams] != page["StreamNames"]:
                raise _incomplete("ListStreams returned different streams as names and as summaries")
            if not listed.keys().isdisjoint(page["StreamNames"]):
                raise _incomplete("ListStreams returned a stream twice")
            listed |= {stream.name: stream for stream in streams}
            more = page["HasMoreStreams"]
            if more and not streams:
                raise _incomplete("ListStreams returned an empty page, but there are more")
            if more:
                token = page.get("NextToken")
                following = {"NextToken": token} if token else {"ExclusiveStartStreamName": streams[-1].name}
        return sorted(listed.values(), key=lambda stream: stream.name)

    def tags(self, stream: ListedStream) -> dict[str, str]:
        """Return the tags of a stream."""
        tags: dict[str, str] = {}
        following: dict[str, str] = {}
        more = True
        while more:
            page = self._call("ListTagsForStream", ("Tags", "HasMoreTags"), StreamARN=stream.arn, **following)
            found = {tag["Key"]: tag.get("Value", "") for tag in page["Tags"]}
            more = page["HasMoreTags"]
            if not tags.keys().isdisjoint(found) or (more and not found):
                raise _incomplete(f"ListTagsForStream returned inconsistent pages for stream {stream.name}")
            tags |= found
            following = {"ExclusiveStartTagKey": next(reversed(found), "")}
        return tags

    def _call(self, operation: str, required: tuple[str, ...], **arguments: str) -> dict[str, Any]:
        try:
            response: dict[str, Any] = getattr(self._client, botocore.xform_name(operation))(**arguments)
        except ClientError as error:
            detail = error.response["Error"]
            # The SDK's error is not chained: for a rejected signature it may repeat the session token.
            raise _failed(operation, detail.get("Code"), detail.get("Message")) from None
        except BotoCoreError as error:
            raise _failed(operation, type(error).__name__, error) from error
        if missing := [name for name in required if name not in response]:
            raise _incomplete(f"the response of {operation} has no {missing[0]}")
        return response


def _stream(summary: dict[str, Any]) -> ListedStream:
    try:
        name, arn = summary["StreamName"], summary["StreamARN"]
        named = StreamAddress.parse(arn).name
    except (KeyError, InvalidInput) as error:
        raise _incomplete(f"ListStreams returned an invalid summary: {error}") from None
    if named != name:
        raise _incomplete(f"ListStreams returned stream {name} with the ARN {arn}")
    return ListedStream(name, arn, deleting=summary.get("StreamStatus") == "DELETING")


def _failed(operation: str, code: object, message: object) -> StreamsNotListed:
    return StreamsNotListed(
        f"{operation} failed with {code}: {message}",
        advice=f"Check the region, the credentials and their permission kinesis:{operation}, then list the "
        "streams again",
    )


def _incomplete(reason: str) -> StreamsNotListed:
    return StreamsNotListed(f"{reason}; try again later")
