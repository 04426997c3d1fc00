"""Reading one shard's range, page by page, and knowing at every moment how far it got.

A reading does not wait by itself: its steps are records, and what is to be waited for before it may go on
(`waits`). Who reads one shard waits that out; who reads many reads others meanwhile (`event_loop`).
"""

from __future__ import annotations

import random
import time
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kinesis_assets.errors import (
    CallFailed,
    DataLost,
    ReadFailed,
    ShardSilent,
    ShardStalled,
    ShardThrottled,
    TooManyBadRecords,
)
from kinesis_assets.kinesis.data_loss import Expiry, Gap, OnDataLoss
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.quota import Budget
from kinesis_assets.kinesis.reading.page_limit import LARGEST_PAGE_BYTES, PageLimit
from kinesis_assets.kinesis.reading.retry_policy import is_throttled, is_too_long, passes, timed_out
from kinesis_assets.kinesis.reading.shard_end import ShardEnd
from kinesis_assets.kinesis.reading.stall_detector import STALL_SECONDS, Progress
from kinesis_assets.kinesis.records.aggregation import any_aggregate, is_damaged, sliced
from kinesis_assets.kinesis.records.checksums import checksums
from kinesis_assets.kinesis.records.page_checks import check_follows
from kinesis_assets.kinesis.records.record import Records
from kinesis_assets.kinesis.service_time import ITERATOR_LIFETIME, UNCERTAIN, agree
from kinesis_assets.kinesis.stream import CLOCK_STEP
from kinesis_assets.kinesis.transport.awaitables import Pause, by_a_thread, in_time

if TYPE_CHECKING:
    import threading
    from collections.abc import Generator, Iterator, Sequence

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.records.record import Record
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.transport.awaitables import Wait, Waits
    from kinesis_assets.kinesis.transport.memory_limiter import Room

_T = TypeVar("_T")

PAGE_LIMIT = 10_000
"""Most records in one GetRecords answer (AWS API reference, GetRecords)."""

SECONDS_BETWEEN_CALLS = 0.2
"""Five GetRecords a second and shard (AWS, Kinesis quotas)."""

BYTES_PER_SECOND = 2_000_000
"""What a shard gives; after a page of more it refuses calls for as long (AWS API reference, GetRecords)."""

LEAST_LIMIT = 100
"""Records that are always asked for, unless fewer may be taken."""

HORIZON_MARGIN = timedelta(minutes=1)
"""Who began at the oldest record there is has drawn away from it when so far inside the retention."""

_ATTEMPTS = 6
"""Tries of one page, but for throttling, which is waited out for as long as there is patience."""

_LEAST_TRIES = 3
"""Of a throttled shard, however little the patience: where many wait for a task's calls, tries come late."""

_LONGEST_WAIT = 5.0


def _comes_after(part: Record, begin: Position) -> bool:
    """Whether a sub-record comes after the one up to which its aggregate was read."""
    return part.sub_sequence_number > (begin.sub_sequence_number or 0)


def _is_before(record: Record, position: Position) -> bool:
    """Whether a read that begins at a sequence number, or after it, leaves a record out."""
    own, number = int(record.sequence_number), int(position.sequence_number or 0)
    if own != number:
        return own < number
    if position.kind is PositionKind.AT_SEQUENCE_NUMBER:
        return False
    sub = position.sub_sequence_number
    return sub is None or record.sub_sequence_number <= sub


class ShardRange(msgspec.Struct, frozen=True):
    """What is to be read of one shard.

    Attributes:
        shard_id: The shard.
        start: Where to begin; see `Position` for which kinds include the record they name.
        bounds: Where to end at the latest; the tip and the shard's end always end it.
        hash_range: The shard's first and last hash key, both inclusive, decimal text; None where sub-records
            are not judged by them, see `aggregation`.
        closed: The shard takes no more records: it ends at its null iterator alone, never at the tip.
        tip_not_before: Take MillisBehindLatest 0 for the tip only in an answer given at or after this time
            (service's clock). None takes any. It makes reading up to a time repeatable.
        expiry: Tells when records may have expired unread; None does not look.
        max_bad_records: End before the damaged record that would be one more; None takes all of them.
        up_to: End before the record where a read from this position would begin. It is one of the two
            SEQUENCE_NUMBER kinds; None is no such end.
        expected: Payload bytes that are expected from `start` on, as a weight beside other shards; None is
            unknown.
        patience: For so many seconds it may be asked in vain while others wait for it with their commit; then
            it ends with what it has, or, throttled and never answered, fails. None, and where nothing but
            empty pages came, is `STALL_SECONDS`. Whatever else fails has some tries.
        answer_within: It fails when an answer does not come, or go on, for so many seconds; None is when that
            is so for as long as the client waits, some times. The SDK alone waits that long once.
    """

    shard_id: str
    start: Position
    bounds: Bounds
    hash_range: tuple[str, str] | None
    closed: bool = False
    tip_not_before: datetime | None = None
    expiry: Expiry | None = None
    max_bad_records: int | None = None
    up_to: Position | None = None
    expected: int | None = None
    patience: float | None = None
    answer_within: float | None = None


class RangeEnd(StrEnum):
    """What ended a range."""

    BOUND = "bound"
    """One of its bounds but that of time, an allowance that is used up, or a stop."""
    LATE = "late"
    """Its time, or that of all shards together, was over, or the patience with it."""
    TIP = "tip"
    SHARD_END = "shard_end"


class ShardReading:
    """One pass over a shard's range.

    Iterate it for its records, some at a time, in order. KPL aggregates come as their sub-records. Its
    attributes tell the truth about what the iteration has handed out, at any moment and after any error.
    `steps` is the same without the waiting.

    Args:
        client: The stream.
        range_: What to read.
        budget: What it shares with other readings.
        stop: Begins no further page once it is set.
        room: Where each page has a seat from when its body is read until the step after its last records.

    Attributes:
        range: What is read.
        position: Where the next read begins. Moves only past records that were handed out.
        end: What ended the range; None before that, and after an error.
        records: Records handed out.
        bytes: Their payload bytes.
        checksum: Over them all, see `checksums.checksum`.
        first_sequence_number: Of the first of them; None before it.
        bad_records: Those of them that are damaged aggregates, as they came.
        outside_hash_range: Those of them that belong to another shard.
        first_arrival: Arrival of the first record handed out.
        last_arrival: Of the last one.
        millis_behind_latest: How far `position` is behind the tip, as of the last answer; None before it.
        tip_time: The service's clock when the tip was last seen.
        gaps: Where records may be missing, if that was to be recorded and gone past.

    Raises (while iterating):
        ReadFailed: A call failed after bounded tries.
        ShardSilent: An answer took longer than the range's `answer_within`.
        ShardThrottled: It is throttled, and nothing came for `STALL_SECONDS`; or, where no call was ever
            answered, for the range's patience.
        ShardStalled: Neither a record nor any nearer to the tip within `STALL_SECONDS`.
        DataLost: Records may have expired unread, and `expiry` says that this fails.
        TooManyBadRecords: The next record is one more damaged one than allowed.
    """

    def __init__(
        self,
        client: StreamClient,
        range_: ShardRange,
        budget: Budget | None = None,
        stop: threading.Event | None = None,
        room: Room | None = None,
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
        self.first_arrival: datetime | None = None
        self.last_arrival: datetime | None = None
        self.millis_behind_latest: int | None = None
        self.tip_time: datetime | None = None
        self.gaps: list[Gap] = []
        bounds = range_.bounds
        own = Budget(Allowance(records=bounds.max_records, bytes=bounds.max_bytes))
        self._budgets = [own] if budget is None else [own, budget]
        self._complete_until = None if range_.expiry is None else range_.expiry.complete_until
        self._client = client
        self._stop = stop
        self._seat = None if room is None else room.seat()
        self._progress = Progress(range_.patience)
        self._mean_bytes = 0.0
        self._page_limit = PageLimit(PAGE_LIMIT)
        self._begun = False
        self._shard_end = ShardEnd(client, range_.shard_id)
        self._iterator: str | None = None
        self._issued: datetime | None = None
        self._next_call = 0.0
        self._deadline: float | None = None
        self._refused: int | None = None

    def __iter__(self) -> Iterator[Records]:
        """Hand out the range's records, at most a page at a time; wait where that is needed."""
        for step in self.steps():
            if isinstance(step, Records):
                yield step
            else:
                step.wait_out()

    def steps(self) -> Generator[Wait | Records]:
        """Hand out the range's records, at most a page at a time, and what is to be waited for between them.

        Pauses may be shorter than they say for who is told to stop. Close it if it is not taken to its end.
        """
        try:
            while self.end is None:
                self._leave()
                yield Pause(self._until_next_call())
                self.end = self._spent()
                if self.end is not None:
                    break
                self._begun = True
                answer = yield from self._next_page()
                if answer is None:
                    self.end = self._spent() or RangeEnd.LATE
                    break
                yield from self._hand_out(*answer)
                del answer
        finally:
            self._leave()

    def _hand_out(self, page: Page, served: datetime) -> Generator[Wait | Records]:
        yield from self._look_for_loss(page, served)
        if self.end is not None:
            return
        before = self.records
        for records in self._user_records(page):
            taken = self._take(records)
            if taken:
                part = records.first(taken)
                self._advance(part, inside=self._is_inside(records, taken), served=served)
                yield part
            if taken < len(records):
                self._cut(page, served, records, taken)
                break
        if self.end is None:
            self.millis_behind_latest = page.millis_behind_latest
            self.end = self._range_end(page, served)
        self._progress.note_answer(page.millis_behind_latest, any_records=self.records > before)
        if self.end is None and self._progress.stalled:
            raise ShardStalled(
                self.range.shard_id,
                f"neither a record nor the tip in {STALL_SECONDS:.0f} s from {self.position}, and still "
                f"{self.millis_behind_latest} ms behind it. What was read before is kept; run again",
            )

    def _leave(self) -> None:
        if self._seat is not None:
            self._seat.leave()

    def _told_to_stop(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    @property
    def _used_up(self) -> bool:
        return any(budget.used_up for budget in self._budgets)

    def _spent(self) -> RangeEnd | None:
        """What ends the range before its next page, if anything does."""
        if self._told_to_stop() or self._used_up:
            return RangeEnd.BOUND
        late = self._deadline is not None and time.monotonic() >= self._deadline
        # Who has begun goes on to a record or the tip, or the next run would meet the same empty pages again.
        before_first = self._begun and not self.records
        others_wait = self._progress.out_of_patience or any(budget.late for budget in self._budgets)
        return RangeEnd.LATE if late or (others_wait and not before_first) else None

    def _impatient(self, throttled: int) -> bool:
        """Whether a throttled shard that was never answered has had its time, and tries enough.

        Who has seen empty pages goes on, or the next run would meet the same ones again.
        """
        never_answered = self.millis_behind_latest is None
        return never_answered and throttled >= _LEAST_TRIES and self._progress.out_of_patience

    def _ends_in_vain(self, *, silent: bool) -> bool:
        """Whether a call in vain ends the range without an error; not where that would hide a failure.

        Of a shard that is refused nothing could be taken where others took what was allowed.
        """
        if self._told_to_stop():
            return True
        if silent:
            return False
        return self._used_up or (self._spent() is not None and self.records > 0)

    def _in_time(self, call: Waits[_T]) -> Waits[_T]:
        """A call, which gives up as early as the range says."""
        within = self.range.answer_within
        return call if within is None else in_time(call, within)

    def _look_for_loss(self, page: Page, served: datetime) -> Waits[None]:
        """Tell of records that may have expired before this page, once it is seen what comes next."""
        expiry, since, number = self.range.expiry, self._complete_until, self.position.sequence_number
        first = page.records[0] if page.records else None
        if expiry is None or since is None or (first is not None and first.sequence_number == number):
            return  # the record itself is still there, and so is all after it
        if first is None and page.next_shard_iterator is not None and page.millis_behind_latest > 0:
            return  # not known yet
        broken = self.position.sub_sequence_number is not None  # and the rest of the aggregate is not there
        if not broken and served + CLOCK_STEP < since + expiry.retention:
            return
        gap = Gap(
            after=self.position,
            since=since,
            next_sequence_number=None if first is None else first.sequence_number,
            until=served if first is None else first.arrival,
        )
        if not broken and number is not None and (yield from self._is_there(number)):
            return
        if self._told_to_stop():  # the look may have ended without an answer
            self.end = RangeEnd.BOUND
            return
        self._complete_until = None
        if gap.is_again(expiry.last_gap):
            return
        if expiry.on_data_loss is OnDataLoss.FAIL:
            raise DataLost(
                self.range.shard_id,
                f"records may have expired unread: {gap}. To go on from there with this gap recorded, run "
                f"with on_data_loss: {OnDataLoss.CONTINUE}",
            )
        self.gaps.append(gap)

    def _is_there(self, sequence_number: str) -> Waits[bool]:
        """Whether a record can still be read; then so can all after it.

        By a thread: with its pauses others would come to be under way meanwhile, and wait for the room that
        this one's page has.
        """
        at = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=sequence_number)
        range_ = ShardRange(
            self.range.shard_id,
            at,
            Bounds(max_records=1),
            self.range.hash_range,
            patience=self.range.patience,
            answer_within=self.range.answer_within,
        )
        look = ShardReading(self._client, range_, stop=self._stop)
        look._next_call = self._next_call  # the shard's five calls a second are one's own
        found = yield from by_a_thread(lambda: next(iter(look), None))
        self._next_call = look._next_call
        return found is not None and found[0].sequence_number == sequence_number

    def _user_records(self, page: Page) -> Iterator[Records]:
        """The page's records, aggregates as their sub-records, about `PAGE_LIMIT` at a time."""
        begin, wire = self.position, page.records
        if begin.sub_sequence_number is None and not any_aggregate(wire):
            yield wire
            return
        wire.drop_data_column()  # the sub-records have their own
        records: list[Record] = []
        for record in wire:
            broken = begin.sub_sequence_number is not None and record.sequence_number == begin.sequence_number
            held: Sequence[Record] = ()
            for parts in sliced(record, self.range.hash_range):
                if held:
                    yield Records.of([*records, *held], continued=True)
                    records = []
                held = [part for part in parts if _comes_after(part, begin)] if broken else parts
            records += held
            if len(records) >= PAGE_LIMIT:
                yield Records.of(records)
                records = []
        yield Records.of(records)

    @staticmethod
    def _is_inside(records: Records, taken: int) -> bool:
        """Whether the aggregate of the last taken one goes on."""
        if taken == len(records):
            return records.continued
        return records.numbers[taken] == records.numbers[taken - 1]

    def _take(self, records: Records) -> int:
        """How many of the leading records are within the bounds and budgets; they count as taken."""
        count = len(records)
        until = self.range.bounds.until
        if until is not None and count:
            seconds = until.timestamp()
            if max(records.arrivals) >= seconds:
                late = (i for i, arrival in enumerate(records.arrivals) if arrival >= seconds)
                count = next(late, count)
        if self.range.up_to is not None:
            end = self.range.up_to
            rest = (i for i, record in enumerate(islice(records, count)) if not _is_before(record, end))
            count = next(rest, count)
        self._refused = None
        if self.range.max_bad_records is not None and records.errors is not None:
            room = self.range.max_bad_records - self.bad_records
            bad = (index for index, error in enumerate(records.errors[:count]) if is_damaged(error))
            self._refused = next(islice(bad, room, None), None)
            count = count if self._refused is None else self._refused
        for budget in self._budgets:
            count = budget.take(records.first(count))
        return count

    def _advance(self, taken: Records, *, inside: bool, served: datetime) -> None:
        last = taken[-1]
        self.position = Position.after(last.sequence_number, last.sub_sequence_number if inside else None)
        self.last_arrival = last.arrival
        expiry = self.range.expiry
        if expiry is not None:
            # Whoever begins at the oldest record there is may see some expire until it has drawn away.
            drawn_away = last.arrival + expiry.retention > served + HORIZON_MARGIN
            horizon = self.records == 0 and self.range.start.kind is PositionKind.TRIM_HORIZON
            watched = drawn_away or not (horizon or self._complete_until is None)
            self._complete_until = last.arrival if watched else None
        if self._deadline is None and self.range.bounds.max_seconds is not None:
            self._deadline = time.monotonic() + self.range.bounds.max_seconds
        if self.first_sequence_number is None:
            self.first_sequence_number, self.first_arrival = taken.numbers[0], taken[0].arrival
        self.records += len(taken)
        self.bytes += taken.payload_bytes
        self.checksum += checksums(taken)
        if taken.errors is not None:
            damaged = [is_damaged(error) for error in taken.errors if error is not None]
            self.bad_records += sum(damaged)
            self.outside_hash_range += len(damaged) - sum(damaged)

    def _cut(self, page: Page, served: datetime, records: Records, taken: int) -> None:
        """End the range after the taken ones of a page's records."""
        unread = records[taken]
        unread_ms = int(served.timestamp() * 1000) - unread.arrival_ms
        self.millis_behind_latest = max(page.millis_behind_latest, unread_ms)
        if taken == self._refused and not self._spent():
            most = self.range.max_bad_records
            raise TooManyBadRecords(
                self.range.shard_id,
                f"record {unread.sequence_number} is damaged ({unread.error}), and max_bad_records takes "
                f"{most} in a run. What was read before is kept; "
                + ("the next run goes on with it" if most else "to go on past it, raise max_bad_records"),
            )
        self.end = RangeEnd.BOUND

    def _range_end(self, page: Page, served: datetime) -> RangeEnd | None:
        """What ends the range after a page that was taken whole."""
        if self._shard_end.reached:
            return RangeEnd.SHARD_END
        not_before = self.range.tip_not_before
        at_tip = page.millis_behind_latest == 0 and page.next_shard_iterator and not self.range.closed
        if at_tip and (not_before is None or served >= not_before):
            self.tip_time = served
            return RangeEnd.TIP
        return RangeEnd.BOUND if self.position == self.range.up_to else None

    def _next_page(self) -> Waits[tuple[Page, datetime] | None]:
        """The page after `position`, tried again within bounds; None if these end while it is tried."""
        throttled = failed = 0
        while True:
            try:
                iterator = yield from self._iterator_here()
                if self._told_to_stop():
                    return None
                sent, limit = time.monotonic(), self._limit()
                page, served = yield from self._in_time(self._checked_page(iterator, limit))
            except CallFailed as error:
                self._leave()
                too_long = is_too_long(error)
                seconds = LARGEST_PAGE_BYTES / BYTES_PER_SECOND if too_long else SECONDS_BETWEEN_CALLS
                self._next_call = time.monotonic() + seconds
                self._progress.note_in_vain()
                silent = timed_out(error) and self.range.answer_within is not None
                if passes(error) and self._ends_in_vain(silent=silent):
                    return None
                if too_long and self._page_limit.halve(limit):
                    yield Pause(self._until_next_call())
                    continue
                if is_throttled(error):
                    throttled += 1
                    kind: type[ReadFailed] = ShardThrottled
                    lasting = self._progress.stalled or self._impatient(throttled)
                else:
                    kind = ShardSilent if silent else ReadFailed
                    self._iterator = None  # a fresh one begins exactly after the last record handed out
                    failed += 1
                    lasting = failed == _ATTEMPTS or not passes(error) or silent
                if lasting:
                    raise kind(
                        self.range.shard_id,
                        f"reading from {self.position} failed: {error}. What was read before is kept; "
                        "run again when the cause is gone",
                    ) from error
                longest = min(_LONGEST_WAIT, 0.1 * 2 ** min(throttled + failed, 10))
                jitter = random.uniform(0, longest)  # noqa: S311
                yield Pause(max(jitter, self._until_next_call()))
                if self._told_to_stop():
                    return None
            else:
                self._iterator, self._issued = page.next_shard_iterator, served
                self._page_limit.note_received()
                self._note_size(page.records, sent)
                return page, served

    def _iterator_here(self) -> Waits[str]:
        """The iterator that the page before came with, or a fresh one at `position`."""
        if self._iterator is None:
            self._iterator, self._issued = yield from self._in_time(
                self._client.getting_iterator(self.range.shard_id, self.position)
            )
        return self._iterator

    def _checked_page(self, iterator: str, limit: int) -> Waits[tuple[Page, datetime]]:
        """A page that can follow `position`, whose time agrees with the response before it, and whose end of
        the shard is proven.
        """
        page, served = yield from self._client.getting_records(iterator, limit, self._seat)
        try:
            first = page.records.numbers[0] if page.records else None
            check_follows(self._client.stream, first, self.position)
            if self._issued is not None and not agree(self._issued, served, apart=ITERATOR_LIFETIME):
                raise CallFailed(
                    self._client.stream,
                    "GetRecords",
                    UNCERTAIN,
                    f"its Date is {served}, and that of the response before it {self._issued}",
                )
            yield from self._shard_end.check(
                null_iterator=page.next_shard_iterator is None,
                children=page.names_children_of(self.range.shard_id),
                records=bool(page.records),
            )
            return page, served
        finally:
            del page  # an error keeps what is in its frames

    def _note_size(self, records: Records, sent: float) -> None:
        """What a page's bytes mean for when the next one is asked for, and for how many records.

        The pace is that of the calls: an answer that takes long on its way slows nothing down.
        """
        size = records.payload_bytes + records.key_bytes
        self._next_call = sent + max(SECONDS_BETWEEN_CALLS, size / BYTES_PER_SECOND)
        if records:
            self._mean_bytes = records.payload_bytes / len(records)

    def _limit(self) -> int:
        """Records to ask for: no more than may be taken, as far as that is known."""
        left = [budget.records for budget in self._budgets if budget.records is not None]
        sizes = [budget.bytes for budget in self._budgets if budget.bytes is not None]
        if self._mean_bytes and sizes:
            left.append(max(LEAST_LIMIT, int(1.25 * min(sizes) / self._mean_bytes)))
        return max(1, min([self._page_limit.records, *left]))

    def _until_next_call(self) -> float:
        return max(0.0, self._next_call - time.monotonic())
