"""Reading one shard's range, page by page, and knowing at every moment how far it got.

A reading does not wait by itself: its steps are records, and what is to be waited for before it may go on
(`waits`). Who reads one shard waits that out; who reads many reads others meanwhile (`event_loop`).
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.errors import CallFailed, ShardStalled, TooManyBadRecords
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.quota import Budget
from kinesis_assets.kinesis.reading.call_pacing import CallPacing
from kinesis_assets.kinesis.reading.loss_detector import LossDetector
from kinesis_assets.kinesis.reading.page_source import PageSource
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange, count_before_end
from kinesis_assets.kinesis.reading.retry_policy import PageRetries, is_throttled, is_too_long, passes
from kinesis_assets.kinesis.reading.stall_detector import STALL_SECONDS, Progress
from kinesis_assets.kinesis.reading.user_records import is_inside, user_records
from kinesis_assets.kinesis.records.aggregation import is_damaged
from kinesis_assets.kinesis.records.checksums import checksums
from kinesis_assets.kinesis.records.wire import Records
from kinesis_assets.kinesis.transport.awaitables import Pause, by_a_thread

if TYPE_CHECKING:
    import threading
    from collections.abc import Generator, Iterator
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.transport.awaitables import Wait, Waits
    from kinesis_assets.kinesis.transport.memory_limiter import Room


PAGE_LIMIT = 10_000
"""Most records in one GetRecords answer (AWS API reference, GetRecords)."""


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
        self._loss = (
            None if range_.expiry is None else LossDetector(range_.shard_id, range_.expiry, range_.start)
        )
        self._client = client
        self._stop = stop
        self._seat = None if room is None else room.seat()
        self._progress = Progress(range_.patience)
        self._pacing = CallPacing(PAGE_LIMIT)
        self._begun = False
        self._pages = PageSource(client, range_.shard_id, range_.answer_within)
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
                yield Pause(self._pacing.seconds_left())
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
        for records in user_records(page.records, self.position, self.range.hash_range, PAGE_LIMIT):
            taken = self._take(records)
            if taken:
                part = records.first(taken)
                self._advance(part, inside=is_inside(records, taken), served=served)
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

    def _ends_in_vain(self, *, silent: bool) -> bool:
        """Whether a call in vain ends the range without an error; not where that would hide a failure.

        Of a shard that is refused nothing could be taken where others took what was allowed.
        """
        if self._told_to_stop():
            return True
        if silent:
            return False
        return self._used_up or (self._spent() is not None and self.records > 0)

    def _look_for_loss(self, page: Page, served: datetime) -> Waits[None]:
        """Tell of records that may have expired before this page, once it is seen what comes next."""
        gap = None if self._loss is None else self._loss.possible_gap(page, served, self.position)
        if self._loss is None or gap is None:
            return
        number = None if self.position.sub_sequence_number is not None else self.position.sequence_number
        if number is not None and (yield from self._is_there(number)):
            return
        if self._told_to_stop():  # the look may have ended without an answer
            self.end = RangeEnd.BOUND
        elif self._loss.accept(gap):
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
        look._pacing.next_call = self._pacing.next_call  # the shard's five calls a second are one's own
        found = yield from by_a_thread(lambda: next(iter(look), None))
        self._pacing.next_call = look._pacing.next_call
        return found is not None and found[0].sequence_number == sequence_number

    def _take(self, records: Records) -> int:
        """How many of the leading records are within the bounds and budgets; they count as taken."""
        count = count_before_end(records, self.range.bounds.until, self.range.up_to)
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
        if self._loss is not None:
            self._loss.note_handed_out(last.arrival, served, first=self.records == 0)
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
        if self._pages.shard_ended:
            return RangeEnd.SHARD_END
        not_before = self.range.tip_not_before
        at_tip = page.millis_behind_latest == 0 and page.next_shard_iterator and not self.range.closed
        if at_tip and (not_before is None or served >= not_before):
            self.tip_time = served
            return RangeEnd.TIP
        return RangeEnd.BOUND if self.position == self.range.up_to else None

    def _next_page(self) -> Waits[tuple[Page, datetime] | None]:
        """The page after `position`, tried again within bounds; None if these end while it is tried."""
        retries = PageRetries(self._progress, answer_within=self.range.answer_within is not None)
        while True:
            try:
                iterator = yield from self._pages.iterator(self.position)
                if self._told_to_stop():
                    return None
                sent, limit = time.monotonic(), self._pacing.limit(self._budgets)
                page, served = yield from self._pages.page(iterator, limit, self.position, self._seat)
            except CallFailed as error:
                self._leave()
                too_long = is_too_long(error)
                self._pacing.note_failed(too_long=too_long)
                self._progress.note_in_vain()
                if passes(error) and self._ends_in_vain(silent=retries.is_silent(error)):
                    return None
                if too_long and self._pacing.halve(limit):
                    yield Pause(self._pacing.seconds_left())
                    continue
                if not is_throttled(error):
                    self._pages.drop_iterator()  # a fresh one begins exactly after the last record handed out
                failure = retries.note_failed(error, never_answered=self.millis_behind_latest is None)
                if failure is not None:
                    raise failure(
                        self.range.shard_id,
                        f"reading from {self.position} failed: {error}. What was read before is kept; "
                        "run again when the cause is gone",
                    ) from error
                yield Pause(max(retries.draw_wait(), self._pacing.seconds_left()))
                if self._told_to_stop():
                    return None
            else:
                self._pages.accept(page, served)
                self._pacing.note_page(page.records, sent)
                return page, served
