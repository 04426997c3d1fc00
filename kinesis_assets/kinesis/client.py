"""The calls to one stream: through the AWS SDK, except those that read records, see `SignedCall`."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import botocore
from botocore.exceptions import BotoCoreError

from kinesis_assets.errors import CallFailed, InvalidInput, ShardListIncomplete
from kinesis_assets.kinesis.consumers import Consumer, ConsumerAddress
from kinesis_assets.kinesis.position import Position  # noqa: TC001  # part of the public signature
from kinesis_assets.kinesis.records.wire import (
    LATEST_ARRIVAL,
    IncompleteBody,
    Page,
    WireIterator,
    WirePage,
    page_of,
)
from kinesis_assets.kinesis.sdk import ATTEMPTS, CORRECT_SETTINGS, sdk_client, sdk_failures
from kinesis_assets.kinesis.stream import (
    Shard,
    StreamAddress,
    StreamIdentity,
    StreamListing,
    StreamSummary,
    covers_all_hash_keys,
    in_lineage_order,
    is_well_formed,
)
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, Reservation, run
from kinesis_assets.kinesis.transport.http import ResponseTooLong
from kinesis_assets.kinesis.transport.sdk_internals import (
    SdkInternalMissing,
    data_endpoint,
    parser_error,
    warn_about_missing_internal,
)
from kinesis_assets.kinesis.transport.signed_call import MEMORY_PER_BODY_BYTE, SignedCall, SignedRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.kinesis.transport.http2 import Http2Response
    from kinesis_assets.kinesis.transport.signed_call import ResultT_co

_LATEST = datetime.fromtimestamp(LATEST_ARRIVAL, UTC)

_LARGEST_ERROR = 64 << 10

_OF_SUMMARY = ("StreamARN", "StreamCreationTimestamp", "RetentionPeriodHours")
"""The fields of a StreamDescriptionSummary that are required."""

_INVALID = (
    KeyError,
    TypeError,
    ValueError,
    *(ArithmeticError, RuntimeError),  # from the SDK's parser, for an impossible timestamp
)
"""The errors of parsing an invalid response, besides `parser_error`."""


class StreamClient:
    """The calls to one stream. Instances can be shared between threads.

    Every call raises `StreamNotFound` or `CallFailed`; calls through the SDK do so after the SDK's retries.

    Args:
        stream: The stream's name or ARN. Calls use the same form: StreamARN, which also works for other
            accounts, or StreamName.
        settings: The settings of the client. Without a region, the region of the ARN is used.
        attempts: The maximum number of attempts of each call by the SDK.

    Attributes:
        settings: The settings with the values from the SDK's chain, so that other machines can use them.

    Raises:
        InvalidInput: The name or ARN is invalid, its region differs from the settings, or the settings are
            invalid.
        RoleNotAssumed: The role of the settings cannot be assumed.
    """

    def __init__(self, stream: str, settings: ClientSettings, *, attempts: int = ATTEMPTS) -> None:
        self.address = StreamAddress.parse(stream)
        self.stream = self.address.name
        settings = replace(settings, region_name=self.address.region_name(settings.region_name))
        self._records_call: SignedCall[Page] | None = None
        self._iterator_call: SignedCall[str] | None = None
        try:
            self._client = sdk_client(settings, attempts)
            endpoint_url = data_endpoint(self._client, self.address.arn)
            if not settings.sdk_parser:
                self._call_directly(attempts, endpoint_url, settings.page_sizes.largest_body)
        except (BotoCoreError, ValueError) as error:
            # The SDK's error is not chained: it may repeat credentials in the endpoint URL.
            raise InvalidInput(
                f"stream {self.address}: cannot create a Kinesis client: {error}", advice=CORRECT_SETTINGS
            ) from None
        meta = self._client.meta
        self.settings = replace(
            settings,
            region_name=meta.region_name,
            endpoint_url=endpoint_url,
            sdk_parser=self._records_call is None,
        )

    def _call_directly(self, attempts: int, endpoint_url: str, largest_body: int) -> None:
        try:
            records_call = SignedCall(self._client, "GetRecords", WirePage, endpoint_url, largest_body)
            if attempts == 1:  # direct calls are not retried
                self._iterator_call = SignedCall(
                    self._client, "GetShardIterator", WireIterator, endpoint_url, largest_body
                )
        except SdkInternalMissing as missing:
            warn_about_missing_internal(str(missing))
        else:
            self._records_call = records_call

    def describe(self) -> StreamSummary:
        """Return the stream's identity and retention, and the service's clock."""
        response = self._call("DescribeStreamSummary", "StreamDescriptionSummary", **self.address.arguments)
        summary = response["StreamDescriptionSummary"]
        mode = summary.get("StreamModeDetails", {}).get("StreamMode")
        if missing := [field for field in _OF_SUMMARY if field not in summary]:
            raise self._invalid("DescribeStreamSummary", f"the description of the stream has no {missing[0]}")
        if not self._is_ours(summary["StreamARN"]):
            raise self._invalid(
                "DescribeStreamSummary",
                f"the service returned the ARN {summary['StreamARN'][:200]!r}, which is not that of "
                f"{self.address}; check the endpoint",
            )
        return StreamSummary(
            identity=StreamIdentity(
                arn=summary["StreamARN"], created=summary["StreamCreationTimestamp"].astimezone(UTC)
            ),
            service_time=self._time("DescribeStreamSummary", _date(response)),
            retention_hours=summary["RetentionPeriodHours"],
            on_demand=None if mode is None else mode == "ON_DEMAND",
            record_distribution=summary.get("RecordDistributionStrategy"),
        )

    def _is_ours(self, arn: str) -> bool:
        """Whether an ARN in a response can belong to the requested stream."""
        if self.address.arn is not None:
            return arn == self.address.arn
        return re.fullmatch(rf"arn:[!-~]{{1,1000}}:stream/{re.escape(self.stream)}", arn) is not None

    def listing(self, *, whole: bool = True) -> StreamListing:
        """Describe the stream and list its shards once.

        Args:
            whole: Whether the open shards must cover all hash keys.

        Raises:
            ShardListIncomplete: See `list_shards`.
            ServiceTimeUncertain: The times of the responses do not agree.
        """
        summary = self.describe()
        shards, date = self._listed(whole=whole)
        return StreamListing(summary.with_earlier_time(date), shards)

    def list_shards(self) -> list[Shard]:
        """Return every listed shard from all pages, parents before children.

        Raises:
            ShardListIncomplete: The list is empty, has a shard twice, does not cover all hash keys, repeats a
                token, or has a shard with missing or invalid fields.
        """
        return self._listed()[0]

    def _listed(self, *, whole: bool = True) -> tuple[list[Shard], datetime]:
        """Return every listed shard, and the service's clock at the first response."""
        # Not boto3's paginator: it sends StreamName with NextToken, which Kinesis rejects. A token already
        # identifies the stream, in other accounts too.
        response = self._call("ListShards", "Shards", **self.address.arguments)
        listed, date = list(response["Shards"]), self._time("ListShards", _date(response))
        followed: set[str] = set()
        while token := response.get("NextToken"):
            if token in followed:
                raise self._incomplete_list("returned the same NextToken twice")
            followed.add(token)
            response = self._call("ListShards", "Shards", NextToken=token)
            listed += response["Shards"]
        if not listed:
            raise self._incomplete_list("returned no shard")
        shards = in_lineage_order(self._shard(shard) for shard in listed)
        if len({shard.shard_id for shard in shards}) < len(shards):
            raise self._incomplete_list("returned a shard twice")
        if whole and not covers_all_hash_keys(shards):
            raise self._incomplete_list("omitted shards: the open ones do not cover all hash keys")
        return shards, date

    def describe_consumer(self, consumer: str, stream_arn: str) -> Consumer:
        """Return a consumer of the stream, by its name or ARN. Raises `InvalidInput` for another stream's."""
        address = ConsumerAddress.parse(consumer)
        named = address.arguments(stream_arn)
        response = self._call("DescribeStreamConsumer", "ConsumerDescription", **named)
        (found,) = self._consumers("DescribeStreamConsumer", [response["ConsumerDescription"]])
        # SubscribeToShard names no stream, and shard ids are the same in all of them.
        if found.name != address.name or not address.may_have(found.arn, stream_arn):
            raise self._invalid(
                "DescribeStreamConsumer",
                f"the service returned consumer {found.name[:200]!r} with the ARN {found.arn[:400]!r}, which "
                f"is not consumer {consumer} of {stream_arn}; check the endpoint",
            )
        return found

    def list_consumers(self, stream_arn: str) -> list[Consumer]:
        """Return all registered consumers of the stream."""
        named = {"StreamARN": stream_arn}
        response = self._call("ListStreamConsumers", "Consumers", **named)
        listed, followed = list(response["Consumers"]), set[str]()
        while token := response.get("NextToken"):
            if token in followed:
                raise self._invalid(
                    "ListStreamConsumers", "the service returned the same NextToken twice; try again later"
                )
            followed.add(token)
            response = self._call("ListStreamConsumers", "Consumers", **named, NextToken=token)
            listed += response["Consumers"]
        return self._consumers("ListStreamConsumers", listed)

    def register_consumer(self, name: str, stream_arn: str) -> Consumer:
        """Register a consumer of the stream, for which AWS charges from then on."""
        response = self._call("RegisterStreamConsumer", "Consumer", StreamARN=stream_arn, ConsumerName=name)
        (registered,) = self._consumers("RegisterStreamConsumer", [response["Consumer"]])
        return registered

    def deregister_consumer(self, consumer: str, stream_arn: str) -> None:
        """Deregister a consumer of the stream, by its name or ARN. Its subscriptions end."""
        named = ConsumerAddress.parse(consumer).arguments(stream_arn)
        self._call("DeregisterStreamConsumer", "ResponseMetadata", **named)

    def shard_iterator(self, shard_id: str, position: Position) -> str:
        """Return an iterator at a position, which is valid for five minutes.

        The SDK makes the call, unless `attempts` is 1.
        """
        return run(self.getting_iterator(shard_id, position))[0]

    async def getting_iterator(
        self, shard_id: str, position: Position, seconds_left: Callable[[], float] | None = None
    ) -> tuple[str, datetime]:
        """`shard_iterator` as a coroutine; also returns the service's clock.

        `seconds_left` limits the waits of a direct call, see `HttpEndpoint.post`.
        """
        named = {**self.address.arguments, "ShardId": shard_id, **position.iterator_arguments()}
        if self._iterator_call is None:
            response = await asyncio.to_thread(self._call, "GetShardIterator", "ShardIterator", **named)
            return str(response["ShardIterator"]), self._time("GetShardIterator", _date(response))
        if position.timestamp is not None:
            named["Timestamp"] = position.timestamp.timestamp()  # the SDK's form in JSON
        received, date = await self._directly(
            self._iterator_call, named, self._own_reservation(), seconds_left
        )
        return received, self._time("GetShardIterator", date)

    def get_records(self, iterator: str, limit: int) -> tuple[Page, datetime]:
        """Return a page of at most `limit` records (1 to 10,000), and the service's clock at the response.

        A direct call is made once, regardless of `attempts`; the SDK retries its own calls.
        """
        return run(self.getting_records(iterator, limit))

    async def getting_records(
        self,
        iterator: str,
        limit: int,
        reservation: Reservation | None = None,
        seconds_left: Callable[[], float] | None = None,
    ) -> tuple[Page, datetime]:
        """`get_records` as a coroutine; memory is reserved before the body is read.

        A direct call is a `SignedCall`, which decodes the body as a `WirePage` and converts it to the page.
        `seconds_left` limits its waits, see `HttpEndpoint.post`.
        """
        arguments: dict[str, Any] = {"ShardIterator": iterator, "Limit": limit}
        if self.address.arn is not None:
            arguments["StreamARN"] = self.address.arn
        reservation = self._own_reservation() if reservation is None else reservation
        if self._records_call is None:
            received = await self._get_records_by_sdk(arguments, reservation)
            page, date = self._complete_or_raise("GetRecords", received)
            del received
        else:
            page, date = await self._directly(self._records_call, arguments, reservation, seconds_left)
        try:
            return page, self._time("GetRecords", date)
        finally:
            del page  # the traceback of an error must not keep the page alive

    async def subscribing(
        self, consumer_arn: str, shard_id: str, position: Position, seconds: float
    ) -> tuple[Http2Response, datetime]:
        """Subscribe a consumer to a shard, without retries.

        Args:
            seconds: The maximum time to wait for the head, and again for the body of an error.

        Returns:
            The response, whose body is a stream of events and must be closed; and the service's clock.
        """
        from kinesis_assets.kinesis.transport.http2 import Http2Response  # noqa: PLC0415  # it may be missing

        try:
            requests = SignedRequests(self._client, "SubscribeToShard", self.settings.endpoint_url)
        except SdkInternalMissing as missing:
            raise CallFailed(self.stream, "SubscribeToShard", type(missing).__name__, str(missing)) from None
        named = {
            "ConsumerARN": consumer_arn,
            "ShardId": shard_id,
            "StartingPosition": position.subscription_arguments(),
        }
        with self._failures(requests.operation):
            request = await requests.signed(named)
            response = await Http2Response.post(
                requests.connections, requests.url, request.headers.items(), request.body, seconds
            )
        try:
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                await self._raise_error(requests, response, seconds)
            date = self._time(requests.operation, response.headers.get("date"))
        except BaseException:
            response.close()
            raise
        return response, date

    async def _raise_error(self, requests: SignedRequests, response: Http2Response, seconds: float) -> None:
        with self._failures(requests.operation):
            body = await response.receive_all(_LARGEST_ERROR, seconds)
            raise requests.error_of(response.status, response.headers, body)

    async def _directly(
        self,
        call: SignedCall[ResultT_co],
        arguments: Mapping[str, Any],
        reservation: Reservation,
        seconds_left: Callable[[], float] | None,
    ) -> tuple[ResultT_co, str | None]:
        with self._failures(call.operation):
            received = await call(arguments, reservation, seconds_left)
        return self._complete_or_raise(call.operation, received)

    async def _get_records_by_sdk(
        self, arguments: Mapping[str, Any], reservation: Reservation
    ) -> tuple[Page | IncompleteBody, str | None]:
        await reservation.acquire(int(MEMORY_PER_BODY_BYTE * self._largest_body))

        def page() -> tuple[Page | IncompleteBody, str | None]:
            try:
                response = self._call("GetRecords", "Records", **arguments)
                self._check_length(response)
                return page_of(response), _date(response)
            except (parser_error(), *_INVALID) as error:
                return IncompleteBody(f"{type(error).__name__}: {error}"), None

        return await asyncio.to_thread(page)  # the SDK reads the body and parses it in one go

    def _check_length(self, response: dict[str, Any]) -> None:
        """Reject a response that is too long for a direct call, so that the next one asks for fewer records.

        The SDK has already read the whole body: its memory is not limited.
        """
        length = int(response["ResponseMetadata"]["HTTPHeaders"].get("content-length", 0))
        if length > self._largest_body:
            with self._failures("GetRecords"):
                raise ResponseTooLong(
                    error=f"the response has {length} bytes, more than {self._largest_body}"
                )

    @property
    def _largest_body(self) -> int:
        return self.settings.page_sizes.largest_body

    def _own_reservation(self) -> Reservation:
        """Return a reservation in a limiter for one call alone."""
        return MemoryLimiter(self._largest_body).reservation()

    def _complete_or_raise(
        self, operation: str, received: tuple[ResultT_co | IncompleteBody, str | None]
    ) -> tuple[ResultT_co, str | None]:
        response, date = received
        if isinstance(response, IncompleteBody):
            raise self._invalid(operation, response.reason)
        return response, date

    def _consumers(self, operation: str, described: Iterable[dict[str, Any]]) -> list[Consumer]:
        try:
            return [Consumer.of(each) for each in described]
        except (KeyError, TypeError, ValueError) as error:
            raise self._invalid(operation, f"the description of a consumer is invalid: {error!r}") from None

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
                ending_sequence_number=numbers.get("EndingSequenceNumber"),
            )
        except KeyError as missing:
            raise self._incomplete_list(f"returned a shard without {missing}") from missing
        if not is_well_formed(shard):
            raise ShardListIncomplete(
                self.stream, f"ListShards returned an invalid shard, {str(shard)[:300]!r}; check the endpoint"
            )
        return shard

    def _incomplete_list(self, reason: str) -> ShardListIncomplete:
        return ShardListIncomplete(self.stream, f"ListShards {reason}; try again later")

    def _invalid(self, operation: str, reason: str) -> CallFailed:
        """Return the error for a response that is incomplete or invalid."""
        return CallFailed(self.stream, operation, "IncompleteBody", reason)

    def _call(self, operation: str, required: str, **arguments: Any) -> dict[str, Any]:
        """Call the SDK. It accepts a truncated response, in which the required field is missing."""
        method = getattr(self._client, botocore.xform_name(operation))
        try:
            with self._failures(operation, of_stream=arguments == self.address.arguments):
                response: dict[str, Any] = method(**arguments)
        except (parser_error(), *_INVALID) as error:
            raise self._invalid(operation, f"{type(error).__name__}: {error}") from None
        if required not in response:
            raise self._invalid(operation, f"the response has no {required}")
        return response

    def _time(self, operation: str, date: str | None) -> datetime:
        """Return the service's clock at a response: its `Date` header, in whole seconds, rounded down.

        A time at the end of the calendar is limited to one to which a retention can be added; it is as wrong
        as before.
        """
        try:
            found = parsedate_to_datetime(date or "").astimezone(UTC)
        except (ValueError, OverflowError):
            reason = f"the response has an invalid Date, {(date or '')[:80]!r}"
            raise self._invalid(operation, reason) from None
        return min(found, _LATEST)

    def _failures(self, operation: str, *, of_stream: bool = False) -> AbstractContextManager[None]:
        return sdk_failures(self._client.meta, self.address, operation, of_stream=of_stream)


def _date(response: dict[str, Any]) -> str | None:
    date: str | None = response["ResponseMetadata"]["HTTPHeaders"].get("date")
    return date
