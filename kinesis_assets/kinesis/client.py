"""The calls to one stream, through the AWS SDK."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import botocore
from botocore.exceptions import BotoCoreError

from kinesis_assets.errors import CallFailed, InvalidInput, ShardListIncomplete
from kinesis_assets.kinesis.position import Position  # noqa: TC001  # part of the public signature
from kinesis_assets.kinesis.records.page_checks import LATEST_ARRIVAL
from kinesis_assets.kinesis.records.wire import (
    IncompleteBody,
    Page,
    WireIterator,
    WirePage,
    page_of,
)
from kinesis_assets.kinesis.sdk_client import ATTEMPTS, sdk_client
from kinesis_assets.kinesis.sdk_errors import sdk_failures
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.shards import (
    Shard,
    covers_all_hash_keys,
    in_lineage_order,
    is_well_formed,
)
from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing, StreamSummary
from kinesis_assets.kinesis.stream_address import StreamAddress
from kinesis_assets.kinesis.transport.awaitables import by_a_thread, waited_out
from kinesis_assets.kinesis.transport.http_connection import ResponseTooLong
from kinesis_assets.kinesis.transport.memory_limiter import Room, Seat
from kinesis_assets.kinesis.transport.sdk_internals import (
    SdkInternalMissing,
    data_endpoint,
    parser_error,
    warn_that_the_sdk_calls,
)
from kinesis_assets.kinesis.transport.signed_call import COPIES, LARGEST_BODY, DirectCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from kinesis_assets.kinesis.transport.awaitables import Waits
    from kinesis_assets.kinesis.transport.signed_call import AnswerT_co


_LATEST = datetime.fromtimestamp(LATEST_ARRIVAL, UTC)

_NOT_A_PAGE = (
    KeyError,
    TypeError,
    ValueError,
    *(ArithmeticError, RuntimeError),  # the SDK's parser, of a timestamp that no calendar has
)
"""What is raised where a response is not a page, besides `parser_error`."""


class StreamClient:
    """The calls to one stream. Safe to share between threads.

    Every call raises `StreamNotFound` or `CallFailed`: after the SDK's retries where the SDK makes it.

    Args:
        stream: The stream's name or its ARN. Calls name it as it is given here: by StreamARN, which reaches
            other accounts too, or by StreamName.
        settings: How to reach it; an ARN's region counts where they name none.
        attempts: Tries of each call by the SDK.
        wait: Waits for so many seconds before shards are listed again.

    Attributes:
        address: What was given.
        stream: The stream's name.
        settings: How its records are read, with what the SDK's chain gave: good for another machine too.
        wait: See above.

    Raises:
        InvalidInput: That is no stream's name or ARN, its region is not that of the settings, or they
            are invalid.
    """

    def __init__(
        self,
        stream: str,
        settings: ClientSettings,
        *,
        attempts: int = ATTEMPTS,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self.address = StreamAddress.parse(stream)
        self.stream = self.address.name
        self.wait = wait
        settings = replace(settings, region_name=self.address.region_name(settings.region_name))
        self._get_records: DirectCall[Page] | None = None
        self._get_shard_iterator: DirectCall[str] | None = None
        try:
            self._client = sdk_client(settings, attempts)
            endpoint_url = data_endpoint(self._client, self.address.arn)
            if not settings.sdk_parser:
                self._call_directly(attempts, endpoint_url)
        except (BotoCoreError, ValueError) as error:
            # The SDK's own may repeat an endpoint's URL with what is in it.
            raise InvalidInput(f"stream {self.address}: cannot create a Kinesis client: {error}") from None
        meta = self._client.meta
        self.settings = ClientSettings(
            meta.region_name, endpoint_url, settings.profile_name, sdk_parser=self._get_records is None
        )

    def _call_directly(self, attempts: int, endpoint_url: str) -> None:
        try:
            get_records = DirectCall(self._client, "GetRecords", WirePage, endpoint_url)
            if attempts == 1:  # a direct call is made once
                self._get_shard_iterator = DirectCall(
                    self._client, "GetShardIterator", WireIterator, endpoint_url
                )
        except SdkInternalMissing as missing:
            warn_that_the_sdk_calls(str(missing))
        else:
            self._get_records = get_records

    def describe(self) -> StreamSummary:
        """Which stream it is, its retention, and the service's clock."""
        answer = self._call("DescribeStreamSummary", "StreamDescriptionSummary", **self.address.arguments)
        summary = answer["StreamDescriptionSummary"]
        if not self._is_ours(summary["StreamARN"]):
            raise CallFailed(
                self.stream,
                "DescribeStreamSummary",
                "IncompleteBody",
                f"the service returned the ARN {summary['StreamARN'][:200]!r}, which is not that of "
                f"{self.address}; check the endpoint",
            )
        return StreamSummary(
            identity=StreamIdentity(
                arn=summary["StreamARN"],
                created=summary["StreamCreationTimestamp"].astimezone(UTC),
            ),
            service_time=self._time("DescribeStreamSummary", _date(answer)),
            retention_hours=summary["RetentionPeriodHours"],
            on_demand=summary.get("StreamModeDetails", {}).get("StreamMode") == "ON_DEMAND",
        )

    def _is_ours(self, arn: str) -> bool:
        """Whether an ARN that the service gives can be that of the stream that was asked for."""
        if self.address.arn is not None:
            return arn == self.address.arn
        return re.fullmatch(rf"arn:[!-~]{{1,1000}}:stream/{re.escape(self.stream)}", arn) is not None

    def listing(self, *, whole: bool = True) -> StreamListing:
        """The stream and all its shards, listed once. Raises what `list_shards` raises.

        Args:
            whole: A list that leaves hash keys out is an error.

        Raises:
            ServiceTimeUncertain: The responses do not agree about the time.
        """
        summary = self.describe()
        shards, date = self._listed(whole=whole)
        return StreamListing(summary.timed_by(date), shards)

    def list_shards(self) -> list[Shard]:
        """Every listed shard, parents before children; all pages or an error.

        Raises:
            ShardListIncomplete: The list is empty, names a shard twice, leaves hash keys out, repeats a
                token, or has a shard whose names and numbers are none.
        """
        return self._listed()[0]

    def _listed(self, *, whole: bool = True) -> tuple[list[Shard], datetime]:
        """Every listed shard, and the service's clock at the first response."""
        # By hand: boto3's paginator sends StreamName beside NextToken, which Kinesis rejects. A token
        # names the stream by itself, one of another account too.
        answer = self._call("ListShards", "Shards", **self.address.arguments)
        listed, date = list(answer["Shards"]), self._time("ListShards", _date(answer))
        followed: set[str] = set()
        while token := answer.get("NextToken"):
            if token in followed:
                raise ShardListIncomplete(
                    self.stream, "ListShards returned a NextToken that was followed before; try again later"
                )
            followed.add(token)
            answer = self._call("ListShards", "Shards", NextToken=token)
            listed += answer["Shards"]
        if not listed:
            raise ShardListIncomplete(self.stream, "ListShards gave no shard; try again later")
        shards = in_lineage_order(self._shard(shard) for shard in listed)
        if len({shard.shard_id for shard in shards}) < len(shards):
            raise ShardListIncomplete(self.stream, "ListShards named a shard twice; try again later")
        if whole and not covers_all_hash_keys(shards):
            raise ShardListIncomplete(
                self.stream,
                "ListShards left out shards: the open ones do not cover all keys; try again later",
            )
        return shards, date

    def shard_iterator(self, shard_id: str, position: Position) -> str:
        """An iterator at a position; it lives for five minutes.

        The SDK makes the call, unless `attempts` is 1.
        """
        return waited_out(self.getting_iterator(shard_id, position))[0]

    def getting_iterator(self, shard_id: str, position: Position) -> Waits[tuple[str, datetime]]:
        """`shard_iterator`, without the waiting, and the service's clock at the response."""
        named = {**self.address.arguments, "ShardId": shard_id, **position.iterator_arguments()}
        if self._get_shard_iterator is None:
            answer = yield from by_a_thread(lambda: self._call("GetShardIterator", "ShardIterator", **named))
            return str(answer["ShardIterator"]), self._time("GetShardIterator", _date(answer))
        if position.timestamp is not None:
            named["Timestamp"] = position.timestamp.timestamp()  # as the SDK has it in JSON
        given, date = yield from self._directly(self._get_shard_iterator, named, _seat(None))
        return given, self._time("GetShardIterator", date)

    def get_records(self, iterator: str, limit: int) -> tuple[Page, datetime]:
        """One page of at most `limit` records (1 to 10,000), and the service's clock at the answer.

        The call is made once, whatever `attempts` says, unless the SDK makes it.
        """
        return waited_out(self.getting_records(iterator, limit))

    def getting_records(
        self, iterator: str, limit: int, seat: Seat | None = None
    ) -> Waits[tuple[Page, datetime]]:
        """`get_records`, without the waiting. The page takes its seat when its body is read."""
        arguments: dict[str, Any] = {"ShardIterator": iterator, "Limit": limit}
        if self.address.arn is not None:
            arguments["StreamARN"] = self.address.arn
        if self._get_records is None:
            given = yield from self._get_records_by_sdk(arguments, _seat(seat))
            page, date = self._whole("GetRecords", given)
            del given
        else:
            page, date = yield from self._directly(self._get_records, arguments, _seat(seat))
        try:
            return page, self._time("GetRecords", date)
        finally:
            del page  # an error keeps what is in its frames

    def _directly(
        self, call: DirectCall[AnswerT_co], arguments: Mapping[str, Any], seat: Seat
    ) -> Waits[tuple[AnswerT_co, str | None]]:
        with self._failures(call.operation):
            given = yield from call(arguments, seat)
        return self._whole(call.operation, given)

    def _get_records_by_sdk(
        self, arguments: Mapping[str, Any], seat: Seat
    ) -> Waits[tuple[Page | IncompleteBody, str | None]]:
        yield from seat.take(int(COPIES * LARGEST_BODY))

        def page() -> tuple[Page | IncompleteBody, str | None]:
            try:
                answer = self._call("GetRecords", "Records", **arguments)
                self._check_length(answer)
                return page_of(answer), _date(answer)
            except (parser_error(), *_NOT_A_PAGE) as error:
                return IncompleteBody(f"{type(error).__name__}: {error}"), None

        return (yield from by_a_thread(page))  # the SDK reads the body and parses it in one go

    def _check_length(self, answer: dict[str, Any]) -> None:
        """Refuse a response that the direct call would not receive.

        The SDK has read all of it by now: the memory that it took is not bounded here. The next one is asked
        for with fewer records.
        """
        length = int(answer["ResponseMetadata"]["HTTPHeaders"].get("content-length", 0))
        if length > LARGEST_BODY:
            with self._failures("GetRecords"):
                raise ResponseTooLong(error=f"the response has {length} bytes, more than {LARGEST_BODY}")

    def _whole(
        self, operation: str, given: tuple[AnswerT_co | IncompleteBody, str | None]
    ) -> tuple[AnswerT_co, str | None]:
        answer, date = given
        if isinstance(answer, IncompleteBody):
            raise CallFailed(self.stream, operation, "IncompleteBody", answer.reason)
        return answer, date

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
        method = getattr(self._client, botocore.xform_name(operation))
        with self._failures(operation, of_stream=arguments == self.address.arguments):
            answer: dict[str, Any] = method(**arguments)
        if required not in answer:
            raise CallFailed(self.stream, operation, "IncompleteBody", f"the answer has no {required}")
        return answer

    def _time(self, operation: str, date: str | None) -> datetime:
        """The service's clock at an answer: its `Date` header, whole seconds, rounded down.

        One at the end of the calendar is as wrong as any other, and is brought so far before it that a
        retention can be added.
        """
        try:
            found = parsedate_to_datetime(date or "").astimezone(UTC)
        except (ValueError, OverflowError):
            told = f"the answer has no date but {(date or '')[:80]!r}"
            raise CallFailed(self.stream, operation, "IncompleteBody", told) from None
        return min(found, _LATEST)

    def _failures(self, operation: str, *, of_stream: bool = False) -> AbstractContextManager[None]:
        return sdk_failures(self._client.meta, self.address, operation, of_stream=of_stream)


def _date(answer: dict[str, Any]) -> str | None:
    date: str | None = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return date


def _seat(seat: Seat | None) -> Seat:
    """The seat, or one in a room of its own."""
    return Room(LARGEST_BODY).seat() if seat is None else seat
