"""Reading one shard's range, page by page, and knowing at every moment how far it got."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import CallFailed, InvalidInput, ReadFailed, ShardStalled
from kinesis_assets.kinesis.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.pages import Page, Record

PAGE_LIMIT = 10_000
"""Most records in one GetRecords answer (AWS API reference, GetRecords)."""

SECONDS_BETWEEN_CALLS = 0.2
"""Five GetRecords a second and shard (AWS, Kinesis quotas)."""

BYTES_PER_SECOND = 2_000_000
"""What a shard gives; after a page of more it refuses calls for as long (AWS API reference, GetRecords)."""

STALL_SECONDS = 300.0
"""A shard that neither gives a record nor comes nearer to its tip for this long has failed."""

MAX_RECORDS = 1_000_000
MAX_BYTES = 1 << 30
MAX_SECONDS = 300.0
"""Bounds of one shard's range in a run, unless it is told otherwise."""

_ATTEMPTS = 6
"""Tries of one page, but for throttling, which is waited out until the shard counts as stalled."""

_LONGEST_WAIT = 5.0

_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "ThrottlingException",
        "KMSThrottlingException",
    }
)

_TRIED_AGAIN = frozenset(
    {
        "ExpiredIteratorException",
        "IncompleteBody",
        # The service's own failures, as codes or bare statuses.
        "InternalFailure",
        "InternalFailureException",
        "ServiceUnavailable",
        "500",
        "502",
        "503",
        "504",
        # No whole answer came: names of botocore's exceptions.
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "EndpointConnectionError",
        "ConnectionClosedError",
        "ResponseStreamingError",
        "HTTPClientError",
    }
)


class Bounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a shard's range ends at the latest. All hold at once; the first one met ends the range.

    Attributes:
        max_records: At most so many records; at least 1.
        max_bytes: Ends before the record that would take the sum of payload bytes above it; the first record
            is always taken.
        max_seconds: Begins no further page so many seconds after the first record.
        until: Ends before the first record that arrived at or after this time (UTC, service's clock).

    Raises:
        InvalidInput: A number is not above 0, or the time has no offset.
    """

    max_records: int | None = None
    max_bytes: int | None = None
    max_seconds: float | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("max_records", "max_bytes", "max_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInput(f"{name} must be above 0, not {value}")
        if self.until is not None and self.until.tzinfo is None:
            raise InvalidInput(f"until needs its offset from UTC, as in {self.until.isoformat()}Z")


class ShardRange(msgspec.Struct, frozen=True):
    """What is to be read of one shard.

    Attributes:
        shard_id: The shard.
        start: Where to begin; see `Position` for which kinds include the record they name.
        bounds: Where to end at the latest; the tip and the shard's end always end it.
        closed: The shard takes no more records: it ends at its null iterator alone, never at the tip.
        tip_not_before: Take MillisBehindLatest 0 for the tip only in an answer given at or after this time
            (service's clock). None takes any. It makes reading up to a time repeatable.
    """

    shard_id: str
    start: Position
    bounds: Bounds
    closed: bool = False
    tip_not_before: datetime | None = None


class RangeEnd(StrEnum):
    """What ended a range."""

    BOUND = "bound"
    TIP = "tip"
    SHARD_END = "shard_end"


class ShardReading:
    """One pass over a shard's range.

    Iterate it for lists of records, in order, none empty. Its attributes tell the truth about what the
    iteration has handed out, at any moment and after any error.

    Attributes:
        range: What is read.
        position: Where the next read begins. Moves only past records that were handed out.
        end: What ended the range; None before that, and after an error.
        records: Records handed out.
        bytes: Their payload bytes.
        last_arrival: Arrival of the last record handed out.
        millis_behind_latest: How far `position` is behind the tip, as of the last answer; None before it.
        tip_time: The service's clock when the tip was last seen.

    Raises (while iterating):
        ReadFailed: A call failed after bounded tries.
        ShardStalled: Neither a record nor any nearer to the tip within `STALL_SECONDS`.
    """

    def __init__(self, client: StreamClient, range_: ShardRange) -> None:
        self.range = range_
        self.position = range_.start
        self.end: RangeEnd | None = None
        self.records = 0
        self.bytes = 0
        self.last_arrival: datetime | None = None
        self.millis_behind_latest: int | None = None
        self.tip_time: datetime | None = None
        self._client = client
        self._iterator: str | None = None
        self._next_call = 0.0
        self._last_progress = 0.0

    def __iter__(self) -> Iterator[list[Record]]:
        """Hand out the range's records, a page at a time."""
        bounds = self.range.bounds
        self._last_progress = time.monotonic()
        deadline: float | None = None
        while self.end is None:
            if deadline is not None and time.monotonic() >= deadline:
                self.end = RangeEnd.BOUND
                break
            page, served = self._next_page()
            records = self._within_bounds(page.records)
            behind = page.millis_behind_latest
            if len(records) < len(page.records):
                unread_ms = int(served.timestamp() * 1000) - page.records[len(records)].arrival_ms
                behind = max(behind, unread_ms)
                self.end = RangeEnd.BOUND
            nearer = self.millis_behind_latest is None or behind < self.millis_behind_latest
            self.millis_behind_latest = behind
            if records:
                if deadline is None and bounds.max_seconds is not None:
                    deadline = time.monotonic() + bounds.max_seconds
                self._advance(records)
            if self.end is None:
                self.end = self._range_end(page, served)
            if records:
                yield records
            if records or nearer:
                self._last_progress = time.monotonic()
            elif self.end is None and self._stalled():
                raise ShardStalled(
                    self.range.shard_id,
                    f"neither a record nor the tip in {STALL_SECONDS:.0f} s from {self.position}, and still "
                    f"{behind} ms behind it. What was read before is kept; run again",
                )

    def _stalled(self) -> bool:
        return time.monotonic() - self._last_progress > STALL_SECONDS

    def _within_bounds(self, records: list[Record]) -> list[Record]:
        """The leading records that are still within the bounds."""
        bounds = self.range.bounds
        if bounds.max_bytes is None and bounds.until is None:
            return records  # max_records is kept by the page's limit
        room = float("inf") if bounds.max_bytes is None else bounds.max_bytes - self.bytes
        until_ms = float("inf") if bounds.until is None else bounds.until.timestamp() * 1000
        for index, record in enumerate(records):
            room -= len(record.data)
            over = room < 0 and (index or self.records)
            if over or record.arrival_ms >= until_ms:
                return records[:index]
        return records

    def _advance(self, records: list[Record]) -> None:
        self.position = Position.after(records[-1].sequence_number)
        self.last_arrival = datetime.fromtimestamp(records[-1].arrival_ms / 1000, UTC)
        self.records += len(records)
        self.bytes += sum(len(record.data) for record in records)

    def _range_end(self, page: Page, served: datetime) -> RangeEnd | None:
        """What ends the range after a page that was taken whole."""
        if page.next_shard_iterator is None:
            return RangeEnd.SHARD_END
        not_before = self.range.tip_not_before
        at_tip = page.millis_behind_latest == 0 and not self.range.closed
        if at_tip and (not_before is None or served >= not_before):
            self.tip_time = served
            return RangeEnd.TIP
        if self.range.bounds.max_records is not None and self.records >= self.range.bounds.max_records:
            return RangeEnd.BOUND
        return None

    def _next_page(self) -> tuple[Page, datetime]:
        """The page after `position`, tried again within bounds."""
        throttled = failed = 0
        while True:
            try:
                if self._iterator is None:
                    self._iterator = self._client.shard_iterator(self.range.shard_id, self.position)
                self._wait_for_turn()
                page, served = self._client.get_records(self._iterator, self._limit())
            except CallFailed as error:
                if error.code in _THROTTLED:
                    throttled += 1
                    lasting = self._stalled()
                else:
                    self._iterator = None  # a fresh one begins exactly after the last record handed out
                    failed += 1
                    lasting = failed == _ATTEMPTS or error.code not in _TRIED_AGAIN
                if lasting:
                    raise ReadFailed(
                        self.range.shard_id,
                        f"reading from {self.position} failed: {error}. What was read before is kept; "
                        "run again when the cause is gone",
                    ) from error
                longest = min(_LONGEST_WAIT, 0.1 * 2 ** min(throttled + failed, 10))
                time.sleep(random.uniform(0, longest))  # noqa: S311  # jitter
            else:
                self._iterator = page.next_shard_iterator
                seconds = sum(len(record.data) for record in page.records) / BYTES_PER_SECOND
                self._next_call = time.monotonic() + max(SECONDS_BETWEEN_CALLS, seconds)
                return page, served

    def _limit(self) -> int:
        most = self.range.bounds.max_records
        return PAGE_LIMIT if most is None else max(1, min(PAGE_LIMIT, most - self.records))

    def _wait_for_turn(self) -> None:
        time.sleep(max(0.0, self._next_call - time.monotonic()))
        self._next_call = time.monotonic() + SECONDS_BETWEEN_CALLS
