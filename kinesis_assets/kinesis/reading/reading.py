"""Reads one range of a shard, page by page, with an exact position at every moment.

KPL aggregates are replaced by their user records. A task reads many shards in one event loop: while some
wait, the others continue (`concurrency`).
"""

from __future__ import annotations

from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.errors import CallFailed, ShardSilent, ShardStalled, TooManyBadRecords
from kinesis_assets.kinesis.data_loss import LossDetector
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.calls import (
    CallPacing,
    PageRetries,
    StallDetector,
    is_throttled,
    is_too_long,
    is_transient,
)
from kinesis_assets.kinesis.reading.pages import INCOMPLETE, PageSource
from kinesis_assets.kinesis.reading.range import (
    Allowance,
    Bounds,
    Quota,
    RangeEnd,
    ShardRange,
    count_before_end,
)
from kinesis_assets.kinesis.reading.received_pages import Received, ReceivedPages
from kinesis_assets.kinesis.records.aggregation import any_aggregate, deaggregate_slices, is_damaged
from kinesis_assets.kinesis.records.records import Records, checksums
from kinesis_assets.kinesis.stream import ITERATOR_LIFETIME, agree
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, Turns, iterate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence
    from datetime import datetime

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.reading.range import TipIterator
    from kinesis_assets.kinesis.records.records import Record
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.settings import PageSizes


class ShardReading:
    """One pass over a shard's range.

    Iterating yields the records in order, in batches, with KPL aggregates as their sub-records. Attributes
    describe exactly the records that were yielded, at any time and after any error. `batches` does the same
    in a running event loop.

    Args:
        quota: The quota that the reading shares with others.
        turns: The turns of the readings of a task, one of which the caller has taken for this reading. Once
            they are stopped, no further page is requested.
        limiter: A page holds a reservation until the next records are requested. None for one of its own.
        received: What a subscription to the shard has received from the start of the range on, or from before
            it. The range ends with it. None to call GetRecords.

    Attributes:
        position: The position after the yielded records.
        end: The reason for the end of the range; None before the end, and after an error.
        records: The number of yielded records.
        bytes: Their payload bytes.
        checksum: Their checksum, see `records.checksum`.
        bad_records: How many of them are damaged aggregates, kept unchanged.
        outside_hash_range: How many of them belong to another shard.
        throttles: The number of calls that were throttled.
        millis_behind_latest: The time from `position` to the tip, as of the last response; None before it.
        tip_time: The service's clock when the tip was reached.
        tip_iterator: The iterator that GetRecords returned there, if the shard has no unread record as far as
            is known; None otherwise.
        gaps: The gaps to record, in which records may be missing.

    Raises (while iterating):
        ReadFailed: A call failed after a limited number of attempts.
        ShardSilent: A response took longer than the range's `response_timeout`.
        ShardThrottled: The shard was throttled for `ReadTiming.stall_seconds` or, if it never responded, for
            the range's `retry_seconds`.
        ShardStalled: The shard made no progress for `ReadTiming.stall_seconds`.
        DataLost: Records may have expired unread, and the policy of `expiry` is to fail.
        TooManyBadRecords: The next record is damaged, and `max_bad_records` is reached.
    """

    def __init__(
        self,
        client: StreamClient,
        range_: ShardRange,
        quota: Quota | None = None,
        turns: Turns | None = None,
        limiter: MemoryLimiter | None = None,
        *,
        received: Received | None = None,
    ) -> None:
        self.range = range_
        self.position = range_.start
        self.end: RangeEnd | None = None
        self.records = 0
        self.bytes = 0
        self.checksum = 0
        self.first_sequence_number: str | None = None
        self.bad_records = 0
        self.outside_hash_range = 0
        self.throttles = 0
        self.first_arrival: datetime | None = None
        self.last_arrival: datetime | None = None
        self.millis_behind_latest: int | None = None
        self.tip_time: datetime | None = None
        self.tip_iterator: str | None = None
        self.gaps: list[Gap] = []
        bounds = range_.bounds
        own = Quota(Allowance(records=bounds.max_records, bytes=bounds.max_bytes))
        self._quotas = [own] if quota is None else [own, quota]
        self._loss = (
            None if range_.expiry is None else LossDetector(range_.shard_id, range_.expiry, range_.start)
        )
        self._client = client
        self._timing = timing = client.settings.timing
        self._clock = timing.clock
        self._sizes = client.settings.page_sizes
        self._turns = turns or Turns(1, self._clock)
        self._pause = self._turns.sleep if turns is None else turns.pause
        self._reservation = (limiter or MemoryLimiter(self._sizes.largest_body)).reservation()
        self._stall_detector = StallDetector(range_.retry_seconds, timing)
        self._pacing = CallPacing(self._sizes, timing)
        self._started = False
        self._has_news = False
        self._polls = PageSource(client, range_.shard_id, range_.response_timeout)
        self._pages: PageSource | ReceivedPages = self._polls
        if received is not None and received.events:
            self._pages = ReceivedPages(received, self._polls, closed=range_.closed)
        self._deadline: float | None = None
        self._first_rejected: int | None = None

    def __iter__(self) -> Iterator[Records]:
        """Yield the range's records, at most a page at a time."""
        return iterate(self.batches())

    async def batches(self) -> AsyncGenerator[Records]:
        """Yield the range's records, at most a page at a time. It must be closed if it is not exhausted."""
        try:
            if self.range.tip_iterator is not None and self._pages is self._polls:
                await self._ask_at_tip(self.range.tip_iterator)
            while self.end is None:
                self._reservation.release()
                if self._started or self._pacing.seconds_left():
                    await self._pause(self._pacing.seconds_left())
                # The page that confirms the end of a shard needs no quota: it has no records.
                self.end = self._limit_reached(quotas=not self._polls.end_unconfirmed)
                if self.end is not None:
                    break
                self._started = True
                response = await self._next_page()
                if response is None:
                    self.end = self._limit_reached() or RangeEnd.TIME_LIMIT
                    break
                if self.end is None:
                    for records in self._batches_of(*response):
                        yield records
                        del records
                del response
        finally:
            self._reservation.release()

    def _batches_of(self, page: Page, service_time: datetime) -> Iterator[Records]:
        before = self.records
        for records in user_records(page.records, self.position, self.range, self._sizes):
            taken = self._take(records)
            if taken:
                part = records.first(taken)
                self._advance(part, inside=is_inside(records, taken), service_time=service_time)
                yield part
            if taken < len(records):
                self._end_inside_page(page, service_time, records, taken)
                break
        if self.end is None:
            # The page was at the tip when it was sent. What has arrived since is after it.
            self.millis_behind_latest = page.millis_behind_latest or int(self._pages.has_more)
            self.end = self._range_end(page, service_time)
        self._stall_detector.note_response(page.millis_behind_latest, any_records=self.records > before)
        if self.end is None and self._stall_detector.stalled:
            raise ShardStalled(
                self.range.shard_id,
                f"no record was read from {self.position} in {self._timing.stall_seconds:.0f} s, and the "
                f"shard is still {self.millis_behind_latest} ms behind. The records read before are kept; "
                "run again",
            )

    @property
    def refused(self) -> str | None:
        """Why GetRecords has read instead of what a subscription has received; None if it has not."""
        return self._pages.refused

    @property
    def _used_up(self) -> bool:
        return any(quota.used_up for quota in self._quotas)

    def _limit_reached(self, *, quotas: bool = True) -> RangeEnd | None:
        """Return the reason to read no more records, if there is one."""
        if self._turns.stopped or (quotas and self._used_up):
            return RangeEnd.BOUND
        timed_out = self._deadline is not None and self._clock.monotonic() >= self._deadline
        # A started reading continues to a record or the tip: the next run would meet the same empty pages.
        before_first = self._started and not self.records
        others_wait = self._stall_detector.retry_time_over or any(quota.timed_out for quota in self._quotas)
        return RangeEnd.TIME_LIMIT if timed_out or (others_wait and not before_first) else None

    def _ends_after_failure(self, *, silent: bool) -> bool:
        """Whether a failed call ends the range without an error.

        It must not hide a failure: a shard without records has failed, unless the quota is used up.
        """
        if self._turns.stopped:
            return True
        if silent:
            return False
        return self._used_up or (self._limit_reached() is not None and self.records > 0)

    async def _check_for_loss(self, page: Page, service_time: datetime) -> None:
        """Record a gap before a page, or fail, if records may have expired there.

        Raises:
            CallFailed: The page lacks the rest of an aggregate, which can still be read.
        """
        if self._loss is None or (gap := self._loss.possible_gap(page, service_time, self.position)) is None:
            return
        number = self.position.sequence_number
        if number is not None and await self._is_available(number):
            if self.position.sub_sequence_number is not None:
                del page  # the traceback of the error must not keep it alive
                self._polls.end_unconfirmed = False  # an incomplete page confirms no end of the shard
                reason = f"the page lacks record {number}, which another one has"
                raise CallFailed(self._client.stream, "GetRecords", INCOMPLETE, reason)
            return
        if self._turns.stopped:  # the check may have ended without a response
            self.end = RangeEnd.BOUND
        elif self._loss.accept(gap):
            self.gaps.append(gap)

    async def _is_available(self, sequence_number: str) -> bool:
        """Whether a record can still be read; if so, all records after it can be read, too.

        The read keeps the turn while it waits. Other readings, which would otherwise start, would then wait
        for the memory that this reading's page holds.
        """
        at = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=sequence_number)
        range_ = ShardRange(
            self.range.shard_id,
            at,
            Bounds(max_records=1),
            self.range.hash_range,
            retry_seconds=self.range.retry_seconds,
            response_timeout=self.range.response_timeout,
        )
        probe = ShardReading(self._client, range_, turns=self._turns)
        probe._pause = self._turns.sleep
        probe._pacing.next_call = self._pacing.next_call  # both share the shard's five calls a second
        async with aclosing(probe.batches()) as batches:
            found = await anext(batches, None)
        self._pacing.next_call = probe._pacing.next_call
        return found is not None and found[0].sequence_number == sequence_number

    def _take(self, records: Records) -> int:
        """Return the number of leading records within the limits, and use the quotas for them."""
        count = count_before_end(records, self.range.bounds.until, self.range.up_to)
        self._first_rejected = None
        if self.range.max_bad_records is not None and records.errors is not None:
            allowed = self.range.max_bad_records - self.bad_records
            bad = (index for index, error in enumerate(records.errors[:count]) if is_damaged(error))
            self._first_rejected = next(islice(bad, allowed, None), None)
            count = count if self._first_rejected is None else self._first_rejected
        for quota in self._quotas:
            count = quota.take(records.first(count))
        return count

    def _advance(self, part: Records, *, inside: bool, service_time: datetime) -> None:
        last = part[-1]
        self.position = Position.after(last.sequence_number, last.sub_sequence_number if inside else None)
        self.last_arrival = last.arrival
        if self._loss is not None:
            self._loss.note_records(last.arrival, service_time, first=self.records == 0)
        if self._deadline is None and self.range.bounds.max_seconds is not None:
            self._deadline = self._clock.monotonic() + self.range.bounds.max_seconds
        if self.first_sequence_number is None:
            self.first_sequence_number, self.first_arrival = part.numbers[0], part[0].arrival
        self.records += len(part)
        self.bytes += part.payload_bytes
        self.checksum += checksums(part)
        if part.errors is not None:
            damaged = [is_damaged(error) for error in part.errors if error is not None]
            self.bad_records += sum(damaged)
            self.outside_hash_range += len(damaged) - sum(damaged)

    def _end_inside_page(self, page: Page, service_time: datetime, records: Records, taken: int) -> None:
        """End the range after the first `taken` records of a batch."""
        unread = records[taken]
        unread_ms = int(service_time.timestamp() * 1000) - unread.arrival_ms
        self.millis_behind_latest = max(page.millis_behind_latest, unread_ms)
        if taken == self._first_rejected and not self._limit_reached():
            maximum = self.range.max_bad_records
            raise TooManyBadRecords(
                self.range.shard_id,
                f"record {unread.sequence_number} is damaged ({unread.error}), and max_bad_records allows "
                f"{maximum} in a run. The records read before are kept; "
                + ("the next run continues with it" if maximum else "to read it, increase max_bad_records"),
            )
        self.end = RangeEnd.BOUND

    def _range_end(self, page: Page, service_time: datetime) -> RangeEnd | None:
        """Return the reason to end the range after a complete page, if there is one."""
        if self._polls.shard_ended:
            return RangeEnd.SHARD_END
        not_before = self.range.tip_not_before
        at_tip = self.millis_behind_latest == 0 and page.next_shard_iterator and not self.range.closed
        if at_tip and (not_before is None or service_time >= not_before):
            self.tip_time = service_time
            if self._pages.uses_shared_rates and not self.records and not self._has_news:
                self.tip_iterator = page.next_shard_iterator
            return RangeEnd.TIP
        if self.position == self.range.up_to:
            return RangeEnd.BOUND
        return RangeEnd.TIME_LIMIT if self._pages.exhausted else None

    async def _ask_at_tip(self, tip: TipIterator) -> None:
        """End the range if the shard is still idle, which an empty page at the tip shows.

        Whatever else the call returns, the range is read from its start. So what a wrong iterator skips is
        read as soon as the shard has another record, or no iterator is used.
        """
        if self._limit_reached() is not None:
            return
        sent = self._clock.monotonic()
        try:
            page, served = await self._client.getting_records(
                tip.iterator, 1, self._reservation, self._polls.seconds_left
            )
        except CallFailed as error:
            self.throttles += is_throttled(error)
            self._pacing.note_failure(error)
            if self._retries().is_silent(error) and not self._turns.stopped:
                raise self._failure(ShardSilent, error) from error
            return
        self._pacing.note_page(page.records, sent)
        is_at_tip = not page.records and not page.millis_behind_latest and page.next_shard_iterator
        is_idle = is_at_tip and agree(tip.issued, served, apart=ITERATOR_LIFETIME)
        self._has_news = not is_idle
        is_loss_possible = self._loss and self._loss.possible_gap(page, served, self.position)
        if is_idle and not is_loss_possible:
            self.millis_behind_latest = 0
            self.end = self._range_end(page, served)

    def _retries(self) -> PageRetries:
        return PageRetries(
            self._timing, self._stall_detector, silence_is_final=self.range.response_timeout is not None
        )

    def _failure(self, kind: type[ShardError], error: CallFailed) -> ShardError:
        return kind(
            self.range.shard_id,
            f"reading from {self.position} failed: {error.reason}. {error.advice}. The records read before "
            "are kept",
        )

    async def _next_page(self) -> tuple[Page, datetime] | None:
        """Read the page at `position`, with retries; None if the range ends during the retries."""
        retries = self._retries()
        response: tuple[Page, datetime] | None
        while True:
            try:
                await self._pages.connect(self.position)
                if self._turns.stopped:
                    return None
                sent, limit = self._clock.monotonic(), self._pacing.limit(self._quotas)
                response = await self._pages.page(limit, self.position, self._reservation)
                self._note_page(response[0].records, sent)
                await self._check_for_loss(*response)
            except CallFailed as error:
                response = None  # a refused page must not stay in memory
                self._reservation.release()
                self.throttles += is_throttled(error)
                self._pacing.note_failure(error)
                self._stall_detector.note_no_progress()
                if is_transient(error) and self._ends_after_failure(silent=retries.is_silent(error)):
                    return None
                if is_too_long(error) and self._pacing.page_limit.halve(limit):
                    await self._pause(self._pacing.seconds_left())
                    continue
                if not is_throttled(error):
                    self._pages.drop_iterator()  # a new one starts at `position`
                failure = retries.note_failure(error, never_answered=self.millis_behind_latest is None)
                if failure is not None:
                    raise self._failure(failure, error) from error
                await self._pause(max(retries.wait(), self._pacing.seconds_left()))
                if self._turns.stopped:
                    return None
            else:
                return response

    def _note_page(self, records: Records, sent: float) -> None:
        if self._pages.uses_shared_rates:
            self._pacing.note_page(records, sent)


def user_records(page: Records, start: Position, range_: ShardRange, sizes: PageSizes) -> Iterator[Records]:
    """Yield the records of a page in order, in batches, with each KPL aggregate replaced by its sub-records.

    Args:
        start: The position of the read. Inside an aggregate, its sub-records up to that position are omitted.
        sizes: The numbers of records in a batch, and of sub-records that are extracted at once.
    """
    if start.sub_sequence_number is None and not any_aggregate(page):
        yield page
        return
    page.drop_data_column()  # the sub-records have their own
    batch: list[Record] = []
    for record in page:
        read = start.sub_sequence_number if record.sequence_number == start.sequence_number else None
        last: Sequence[Record] = ()
        for parts in deaggregate_slices(record, range_.hash_range_for(record), sizes.sub_records):
            if last:
                yield Records.of([*batch, *last], continued=True)
                batch = []
            last = parts if read is None else [part for part in parts if part.sub_sequence_number > read]
        batch += last
        if len(batch) >= sizes.page:
            yield Records.of(batch)
            batch = []
    yield Records.of(batch)


def is_inside(records: Records, taken: int) -> bool:
    """Whether a position after the first `taken` records is inside an aggregate."""
    if taken == len(records):
        return records.continued
    return records.numbers[taken] == records.numbers[taken - 1]
