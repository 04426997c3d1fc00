"""The calls to one stream, through boto3."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from kinesis_assets.errors import CallFailed, InvalidInput, ShardListIncomplete, StreamNotFound
from kinesis_assets.kinesis.body import COPIES, LARGEST_BODY, seat_bodies, seated
from kinesis_assets.kinesis.pages import (
    IncompleteBody,
    Page,
    Records,
    first_that_is_no_number,
    page_of,
)
from kinesis_assets.kinesis.parser import PageParserFactory
from kinesis_assets.kinesis.position import Position  # noqa: TC001  # part of the public signature
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.shards import (
    NAME,
    Shard,
    covers_all_hash_keys,
    in_lineage_order,
    is_well_formed,
)
from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing, StreamSummary

if TYPE_CHECKING:
    from kinesis_assets.kinesis.room import Seat

CONNECTIONS = 64
"""Calls that one client makes at once without opening a connection anew."""

ATTEMPTS = 6
"""Tries of a call by the SDK, with its back-off, unless the caller tries again by itself."""


def _boto3_client(settings: ClientSettings, attempts: int) -> Any:
    session = botocore.session.Session(profile=settings.profile_name)
    if not settings.sdk_parser:
        session.register_component("response_parser_factory", PageParserFactory())
    config = Config(
        user_agent=session.user_agent(),  # else the SDK puts it together anew twice a call
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        connect_timeout=5,
        read_timeout=20,
    )
    # boto3 alone among the SDKs looks only at AWS_DEFAULT_REGION.
    region_name = settings.region_name or os.environ.get("AWS_REGION")
    client = boto3.Session(botocore_session=session, region_name=region_name).client(
        "kinesis", endpoint_url=settings.endpoint_url, config=config
    )
    if not settings.sdk_parser:
        seat_bodies(client)
    return client


class StreamClient:
    """The calls to one stream. Safe to share between threads.

    Every call raises `StreamNotFound` or `CallFailed`, after the SDK's retries.

    Args:
        stream: The stream's name.
        settings: How to reach it.
        attempts: Tries of each call by the SDK.

    Attributes:
        stream: The stream's name.
        settings: How it is reached, with what the SDK's chain gave: good for another machine too.

    Raises:
        InvalidInput: That is no stream's name, or the settings cannot be meant.
    """

    def __init__(self, stream: str, settings: ClientSettings, *, attempts: int = ATTEMPTS) -> None:
        if not NAME.fullmatch(stream):
            raise InvalidInput(
                f"{stream[:80]!r} is no stream name: 1 to 128 letters, digits, '_', '.' or '-'"
            )
        self.stream = stream
        try:
            self._client = _boto3_client(settings, attempts)
        except (BotoCoreError, ValueError) as error:
            # The SDK's own may repeat an endpoint's URL with what is in it.
            raise InvalidInput(f"stream {stream}: no client of Kinesis: {error}") from None
        meta = self._client.meta
        self.settings = ClientSettings(
            meta.region_name, meta.endpoint_url, settings.profile_name, settings.sdk_parser
        )

    def describe(self) -> StreamSummary:
        """Which stream it is, its retention, and the service's clock."""
        answer = self._call("DescribeStreamSummary", "StreamDescriptionSummary", StreamName=self.stream)
        summary = answer["StreamDescriptionSummary"]
        if not re.fullmatch(rf"arn:[!-~]{{1,1000}}:stream/{re.escape(self.stream)}", summary["StreamARN"]):
            raise CallFailed(
                self.stream,
                "DescribeStreamSummary",
                "IncompleteBody",
                f"{summary['StreamARN'][:80]!r} is no ARN of this stream; check what answers at the endpoint",
            )
        return StreamSummary(
            identity=StreamIdentity(
                arn=summary["StreamARN"],
                created=summary["StreamCreationTimestamp"].astimezone(UTC),
            ),
            service_time=_service_time(answer),
            retention_hours=summary["RetentionPeriodHours"],
        )

    def listing(self) -> StreamListing:
        """The stream and all its shards. Raises what `list_shards` raises."""
        return StreamListing(self.describe(), self.list_shards())

    def list_shards(self) -> list[Shard]:
        """Every listed shard, parents before children; all pages or an error.

        Raises:
            ShardListIncomplete: The list is empty, names a shard twice, leaves hash keys out, or has a shard
                whose names and numbers are none.
        """
        # By hand: boto3's paginator sends StreamName beside NextToken, which Kinesis rejects.
        answer = self._call("ListShards", "Shards", StreamName=self.stream)
        listed = list(answer["Shards"])
        while token := answer.get("NextToken"):
            answer = self._call("ListShards", "Shards", NextToken=token)
            listed += answer["Shards"]
        if not listed:
            raise ShardListIncomplete(self.stream, "ListShards gave no shard; try again later")
        shards = in_lineage_order(self._shard(shard) for shard in listed)
        if len({shard.shard_id for shard in shards}) < len(shards):
            raise ShardListIncomplete(self.stream, "ListShards named a shard twice; try again later")
        if not covers_all_hash_keys(shards):
            raise ShardListIncomplete(
                self.stream,
                "ListShards left out shards: the open ones do not cover all keys; try again later",
            )
        return shards

    def shard_iterator(self, shard_id: str, position: Position) -> str:
        """An iterator at a position; it lives for five minutes."""
        arguments = position.iterator_arguments()
        answer = self._call(
            "GetShardIterator", "ShardIterator", StreamName=self.stream, ShardId=shard_id, **arguments
        )
        iterator: str = answer["ShardIterator"]
        return iterator

    def get_records(self, iterator: str, limit: int, seat: Seat | None = None) -> tuple[Page, datetime]:
        """One page of at most `limit` records (1 to 10,000), and the service's clock at the answer.

        It holds a seat, if there is one, from when its body is read.
        """
        if self.settings.sdk_parser:
            return self._get_records_by_sdk(iterator, limit, seat)
        with seated(seat):
            answer = self._call("GetRecords", "Page", ShardIterator=iterator, Limit=limit)
        page = answer["Page"]
        if isinstance(page, IncompleteBody):
            raise CallFailed(self.stream, "GetRecords", "IncompleteBody", page.reason)
        return self._with_numbers(page), _service_time(answer)

    def _get_records_by_sdk(self, iterator: str, limit: int, seat: Seat | None) -> tuple[Page, datetime]:
        if seat is not None:
            seat.take(int(COPIES * LARGEST_BODY))
        try:
            answer = self._call("GetRecords", "Records", ShardIterator=iterator, Limit=limit)
            page = page_of(answer)
        except (ResponseParserError, KeyError, TypeError, ValueError) as error:
            told = f"{type(error).__name__}: {error}"
            raise CallFailed(self.stream, "GetRecords", "IncompleteBody", told) from error
        return self._with_numbers(page), _service_time(answer)

    def _with_numbers(self, page: Page) -> Page:
        """The page, if its sequence numbers are such."""
        records = Records(page.records)
        wrong = first_that_is_no_number(records.numbers)
        if wrong is not None:
            told = f"{wrong[:80]!r} is no sequence number"
            raise CallFailed(self.stream, "GetRecords", "IncompleteBody", told)
        return Page(records, page.millis_behind_latest, page.next_shard_iterator)

    def _shard(self, listed: dict[str, Any]) -> Shard:
        parents = (listed.get("ParentShardId"), listed.get("AdjacentParentShardId"))
        try:
            keys, numbers = listed["HashKeyRange"], listed["SequenceNumberRange"]
            shard = Shard(
                shard_id=listed["ShardId"],
                parents=tuple(parent for parent in parents if parent),
                hash_range=(keys["StartingHashKey"], keys["EndingHashKey"]),
                starting_sequence_number=numbers["StartingSequenceNumber"],
                closed="EndingSequenceNumber" in numbers,
            )
        except KeyError as missing:
            raise ShardListIncomplete(
                self.stream, f"ListShards gave a shard without {missing}; try again later"
            ) from missing
        if not is_well_formed(shard):
            raise ShardListIncomplete(
                self.stream,
                f"ListShards gave what is no shard, {str(shard)[:300]!r}; check what answers at the endpoint",
            )
        return shard

    def _call(self, operation: str, required: str, **arguments: Any) -> dict[str, Any]:
        """A whole answer. One cut in transit is no error to the SDK: it lacks what is required."""
        method = botocore.xform_name(operation)
        try:
            answer: dict[str, Any] = getattr(self._client, method)(**arguments)
        except ClientError as error:
            detail = error.response["Error"]
            code, message = detail.get("Code", "Unknown"), detail.get("Message", "")
            if code == "ResourceNotFoundException" and "StreamName" in arguments and len(arguments) == 1:
                raise StreamNotFound(
                    self.stream, f"not found ({message}); check its name, region and endpoint"
                ) from None
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            # A refused signature's message may repeat the session token: the SDK's own error is not kept.
            raise CallFailed(self.stream, operation, code, message, status) from None
        except BotoCoreError as error:
            raise CallFailed(self.stream, operation, type(error).__name__, str(error)) from error
        for wanted, where in ((required, answer), ("date", answer["ResponseMetadata"]["HTTPHeaders"])):
            if wanted not in where:
                raise CallFailed(self.stream, operation, "IncompleteBody", f"the answer has no {wanted}")
        return answer


def _service_time(answer: dict[str, Any]) -> datetime:
    """The service's clock at an answer: its `Date` header, whole seconds, rounded down."""
    return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).astimezone(UTC)
