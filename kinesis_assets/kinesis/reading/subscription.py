"""The subscriptions of a consumer with enhanced fan-out, which outlive the readings of what they receive.

A continuous run reads a shard again and again. For each reading, a subscription receives what the service
has sent; in between, that waits in the buffers of the connection. It keeps the events until a later position
shows that their records were read. So it continues exactly where the reading ended, or it is closed.

A consumer may subscribe to a shard again five seconds after it has subscribed, which ends the older
subscription. After five minutes each subscription ends.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_SubscribeToShard.html
"""

from __future__ import annotations

import random
import resource
from collections import deque
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.consumers import NOT_FOUND, REGISTER_IT
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.calls import StallDetector, is_transient
from kinesis_assets.kinesis.reading.received_pages import Received
from kinesis_assets.kinesis.reading.subscription_events import SUBSCRIBE, ShardEvents
from kinesis_assets.kinesis.settings import CONNECTIONS
from kinesis_assets.kinesis.stream import UNCERTAIN, agree
from kinesis_assets.kinesis.transport.concurrency import Turns
from kinesis_assets.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.kinesis.reading.subscription_events import Event

_IN_USE = "ResourceInUseException"
"""The name of the exception if the consumer has subscribed to the shard too recently, or elsewhere since."""

# The codes of the `CallFailed` for a subscription that
_NO_EVENT = "NoEvent"  # has not had a single event
_TIMEOUT = "ReadTimeoutError"  # has not had an event or a record for too long
_INVALID = "InvalidEvent"  # had an event that the reading of its records has refused
_TOO_MANY = "TooManySubscriptions"  # would be one too many
_OTHER_POSITION = "OtherPosition"  # has not received what is read next
_ENDED = "EndedEarly"  # the service has ended before its time

_LONGEST_REASON = 1000
"""The number of characters of a reason that are kept: they go into the log."""

_MAY_BE_SHORT = frozenset({_IN_USE, _NO_EVENT})
"""Failures that are not reported the first time, as those that `is_transient`."""

_REPEATED = 3
"""The number of subscriptions to a shard, one after the other, that have ended before their time, from which
on that is reported, however briefly GetRecords reads each time. The cause may never go away."""

_RENEWED_AFTER = (200.0, 280.0)
"""The age in seconds at which a subscription is renewed: a random one, so that those of many shards are not
renewed together. At 300 s the service ends it."""

_INTERVAL = 5.0
"""The minimum time in seconds between two subscriptions of a consumer to a shard."""

UNAVAILABLE = Backoff(_INTERVAL, 300.0)
"""How long GetRecords is used after failures in a row."""

_FIRST_EVENT = 1.0
"""Seconds to wait for the first event of a subscription, and for the rest of one that has begun."""

_PATIENCE = 5.0
"""Seconds to wait for the response, and for an event before the tip: other shards wait too."""

_SILENCE = 30.0
"""Seconds without an event after which a subscription counts as lost. The service sends one every few
seconds, even if there are no records."""

_MOST_OPEN = 512
"""The maximum number of subscriptions of a run. Each has a connection, of which the system may buffer
`http2.WINDOW`."""

_KEPT_BYTES = 64 << 20
"""The size of the events from which on nothing more is received. Each event of a shard can exceed it once."""

_JSON_BYTES = 4 / 3
"""The bytes of JSON, at least, in which an event has a byte of data."""


class Subscriptions:
    """The subscriptions of one consumer, by shard. Not thread-safe.

    Args:
        service_time: The service's clock now, see `note_time`.
        warn: Called with a sentence, once for each reason, if GetRecords reads shards instead.

    Attributes:
        consumer_arn: The ARN, which changes if the consumer is registered again.
        is_missing: Whether there is no consumer with that ARN.
        kept_bytes: The size of the events that they keep.
        most_open: How many may be open; half of the files that the process may open remain for the others.
        patience: Seconds to wait for a response, and for an event before the tip.
    """

    def __init__(
        self, client: StreamClient, consumer_arn: str, service_time: datetime, warn: Callable[[str], object]
    ) -> None:
        self.client = client
        self.consumer_arn = consumer_arn
        self.is_missing = False
        self.kept_bytes = 0
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most_open = _MOST_OPEN if files == resource.RLIM_INFINITY else min(_MOST_OPEN, files // 2)
        self.patience = min(_PATIENCE, client.settings.timing.read_timeout)
        self._warn = warn
        self._clock = client.settings.timing.clock
        self.note_time(service_time)
        self._shards: dict[str, Subscription] = {}
        self._ended: set[str] = set()
        self._reported: set[str] = set()

    def of(self, shard_id: str) -> Subscription:
        """Return the subscription to a shard, which may not be open."""
        if shard_id not in self._shards:
            self._shards[shard_id] = Subscription(self, shard_id)
        return self._shards[shard_id]

    def receive(self, ranges: Sequence[ShardRange], allowance: Allowance) -> dict[str, Received]:
        """Return what has arrived for ranges of different shards, after subscribing to them if necessary.

        Args:
            allowance: What the ranges may read together.

        Returns:
            By shard id, what was received from the start of its range on. GetRecords has to read the others:
            a subscription has ended or failed, or its first event has not arrived.
        """
        found: dict[str, Received] = {}
        turns = Turns(CONNECTIONS, self._clock)

        async def receive(range_: ShardRange) -> None:
            async with turns:
                limits = Limits.of(range_, allowance, _KEPT_BYTES // len(ranges))
                received = await self.of(range_.shard_id).receive(range_.start, limits)
            if received is not None:
                found[range_.shard_id] = received

        turns.run(map(receive, ranges))
        return found

    def note_read(self, shard_id: str, refused: str | None, tip_time: datetime | None) -> None:
        """Record that a shard was read, see `Subscription.note_read`."""
        if tip_time is not None:
            self.note_time(tip_time)
        self.of(shard_id).note_read(refused, tip_time)

    def reasons(self) -> dict[str, str | None]:
        """Return why GetRecords reads shards, by shard id; None for those that it does not read.

        Shards that GetRecords may read only briefly are left out.
        """
        return {
            shard_id: each.unavailable
            for shard_id, each in self._shards.items()
            if each.is_heard or each.unavailable or shard_id in self._ended
        }

    def end(self, shard_id: str) -> None:
        """Close the subscription to a shard that was read to its end, and forget why GetRecords read it."""
        self.of(shard_id).close()
        self.of(shard_id).unavailable = None
        self._ended.add(shard_id)

    def close(self) -> None:
        """Close all subscriptions."""
        for subscription in self._shards.values():
            subscription.close()

    def note_time(self, service_time: datetime) -> None:
        """Record the service's clock now, by an accepted response. The next subscription must agree with it.

        The time at the start is not enough: a monotonic clock stands still while the machine is suspended.
        """
        self._service_time, self._since = service_time, self._clock.monotonic()

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be received, because of the memory of what was."""
        return self.kept_bytes >= _KEPT_BYTES

    async def events(self, shard_id: str, position: Position) -> ShardEvents:
        """Subscribe to a shard.

        Raises:
            CallFailed: Too many others are open, the call failed, or the time of the response does not agree
                with the service's clock.
        """
        others = (shard for other, shard in self._shards.items() if other != shard_id)
        if sum(shard.has_connection for shard in others) >= self.most_open:
            reason = (
                f"{self.most_open} subscriptions are open. A run may have {_MOST_OPEN}, and at most half as "
                "many as the files that its process may open (ulimit -n)"
            )
            raise CallFailed(self.client.stream, SUBSCRIBE, _TOO_MANY, reason)
        response, date = await self.client.subscribing(self.consumer_arn, shard_id, position, self.patience)
        expected = self._service_time + timedelta(seconds=self._clock.monotonic() - self._since)
        if not agree(expected, date):
            response.close()
            reason = f"the response has the Date {date}, but the service's clock should be {expected}"
            raise CallFailed(self.client.stream, SUBSCRIBE, UNCERTAIN, reason)
        self.note_time(date)
        return ShardEvents(self.client, response, date)

    def report(self, shard_id: str, error: CallFailed) -> None:
        """Warn that GetRecords reads shards, once for each reason."""
        self.is_missing = self.is_missing or error.code == NOT_FOUND
        if error.code in self._reported:
            return
        self._reported.add(error.code)
        advice = f" {REGISTER_IT}." if error.code == NOT_FOUND else ""
        self._warn(
            f"stream {self.client.stream}: GetRecords reads shard {shard_id}, and maybe others, instead of "
            f"consumer {self.consumer_arn}: {error.reason}.{advice} The run subscribes again as soon as it "
            f"can, and tries at least every {UNAVAILABLE.longest:.0f} s"
        )


class Limits(NamedTuple):
    """How much is received for a range, approximately.

    Attributes:
        bytes: The size of the events.
        records: The number of their records.
        seconds: The time in which they arrive.
    """

    bytes: float
    records: float
    seconds: float

    @classmethod
    def of(cls, range_: ShardRange, allowance: Allowance, most: int) -> Limits:
        """Return the limits of a range that shares an allowance, and of at most `most` bytes of events."""
        bounds = range_.bounds
        data = _least(bounds.max_bytes, allowance.bytes)
        return cls(
            min(most, _JSON_BYTES * data),
            _least(bounds.max_records, allowance.records),
            _least(bounds.max_seconds),
        )


def _least(*limits: float | None) -> float:
    return min((limit for limit in limits if limit is not None), default=inf)


class _Kept(NamedTuple):
    """An event that is kept.

    Attributes:
        first: The number of its first record or, without any, that of the last one before it.
        last: The number of its last record, likewise.
    """

    event: Event
    first: int
    last: int


class Subscription:
    """The subscription to a shard, which is opened, renewed and closed as needed.

    Attributes:
        unavailable: Why GetRecords reads the shard; None if it does not, or maybe briefly.
    """

    def __init__(self, owner: Subscriptions, shard_id: str) -> None:
        self.unavailable: str | None = None
        self._owner = owner
        self._shard_id = shard_id
        self._timing = owner.client.settings.timing
        self._clock = self._timing.clock
        self._events: ShardEvents | None = None
        self._connecting = False
        self._heard = False  # whether it had an event
        self._awaited = False  # whether its first event was waited for
        self._kept: deque[_Kept] = deque()
        self._bytes = self._records = self._accounted = 0
        self._start: Position | None = None  # of what is kept
        self._end: Position | None = None  # after it
        self._tip: tuple[int, datetime] | None = None  # how far the end is from it, and when
        self._stall_detector = StallDetector(None, self._timing)
        self._renewal = self._next_attempt = 0.0
        self._failures = 0
        self._early_ends = 0  # of the last subscriptions

    @property
    def has_connection(self) -> bool:
        """Whether it is open or being opened."""
        return self._connecting or self._events is not None

    @property
    def is_heard(self) -> bool:
        """Whether it is open, and had an event."""
        return self._events is not None and self._heard

    async def receive(self, position: Position, limits: Limits) -> Received | None:
        """Return what has arrived after a position, after subscribing there if necessary and possible.

        If the last event was at the tip, it does not wait for more. What it returns, it returns again unless
        the next position is after it.

        Returns:
            What was received; None to request it with GetRecords.
        """
        self._forget(position)
        due = self._next_attempt if self._events is None else self._renewal
        if not self._kept and self._clock.monotonic() >= due:
            await self._subscribe(position)
        if self._events is not None:
            try:
                await self._receive(self._events, limits)
            except Exception as error:  # noqa: BLE001  # GetRecords can still read
                self._fail(error)
            except BaseException:
                self.close()  # it may have lost events
                raise
        if self._tip is None or not (self._kept or self._events):
            return None
        return Received(self._start or position, [each.event for each in self._kept], *self._tip)

    def note_read(self, refused: str | None, tip_time: datetime | None) -> None:
        """Record that the shard was read after `receive`.

        Args:
            refused: Why GetRecords has read instead of what was received; None if it has not.
            tip_time: The service's clock when the tip was reached; None if it was not.
        """
        if refused is not None:
            self.close()
            self._note_failure(self._failure(_INVALID, refused[:_LONGEST_REASON]))
            return
        if self.is_heard:
            self._failures, self.unavailable = 0, None
        if self._tip is not None and self._tip[0] == 0 and tip_time is not None:
            self._tip = 0, max(self._tip[1], tip_time)

    def close(self) -> None:
        """Close the subscription, if it is open, and forget what it has received."""
        self._disconnect()
        self._clear()
        self._start = self._end = self._tip = None

    def _disconnect(self) -> None:
        if self._events is not None:
            self._events.close()
        self._events = None
        self._account()

    def _forget(self, position: Position) -> None:
        """Forget the events up to a position. If the others do not continue there, close the subscription."""
        if position == self._end:
            self._clear()
            self._start = position
        elif position != self._start and self._has(position):
            number, inside = int(position.sequence_number or 0), position.sub_sequence_number is not None
            while self._kept[0].last < number + (not inside):
                read = self._kept.popleft()
                self._start = Position.after(str(read.last))
                self._bytes -= len(read.event.payload)
                self._records -= read.event.records
            self._account()
        elif position != self._start:
            if self._events is not None and not self._heard:
                self._fail(self._failure(_NO_EVENT, "records were read before the first event"))
            elif self._events is not None:
                self._note_end(_OTHER_POSITION, f"it has not received what is read from {position} on")
            self.close()

    def _has(self, position: Position) -> bool:
        """Return whether the record at a position is one of those that were received."""
        if position.kind is not PositionKind.AFTER_SEQUENCE_NUMBER or not self._kept:
            return False
        return self._kept[0].first <= int(position.sequence_number or 0) <= self._kept[-1].last

    def _clear(self) -> None:
        self._kept.clear()
        self._bytes = self._records = 0
        self._account()

    def _account(self) -> None:
        """Account for the memory of what is kept."""
        size = self._bytes + (0 if self._events is None else self._events.buffered)
        self._owner.kept_bytes += size - self._accounted
        self._accounted = size

    async def _subscribe(self, position: Position) -> None:
        """Subscribe at a position. If that fails, a subscription that is to be renewed stays open."""
        self._next_attempt = self._renewal = self._clock.monotonic() + _INTERVAL
        self._connecting = True
        try:
            events = await self._owner.events(self._shard_id, position)
        except Exception as error:  # noqa: BLE001  # GetRecords can still read
            self._note_failure(error)
            return
        finally:
            self._connecting = False
        if self._events is None:
            self._tip = None
        else:
            self._early_ends = 0
        self._disconnect()
        self._events, self._start, self._end = events, position, position
        self._heard = self._awaited = False
        self._stall_detector = StallDetector(None, self._timing)
        self._next_attempt = events.opened_at + _INTERVAL
        self._renewal = events.opened_at + random.uniform(*_RENEWED_AFTER)  # noqa: S311

    async def _receive(self, events: ShardEvents, limits: Limits) -> None:
        """Receive events until the tip or a limit."""
        began, left = self._clock.monotonic(), limits.seconds
        while (
            left > 0
            and self._bytes < limits.bytes
            and self._records < limits.records
            and not (events.ended or self._owner.is_full)
        ):
            found = await events.receive(self._wait(events, left), limits.bytes - self._bytes)
            for event in found:
                self._keep(event)
            self._account()
            if not found:
                self._check_progress(events)
                break
            left = limits.seconds - (self._clock.monotonic() - began)
        if events.ended:  # the shard, or the five minutes of the subscription
            age = self._clock.monotonic() - events.opened_at
            if age < _RENEWED_AFTER[0]:
                self._note_end(_ENDED, f"it ended {age:.0f} s after it was opened")
            else:
                self._early_ends = 0
            self._disconnect()
        elif not self._kept and self._clock.monotonic() - events.heard_at > _SILENCE:
            raise self._failure(_TIMEOUT, f"no event in {_SILENCE:.0f} s")
        elif self._stall_detector.stalled:
            reason = f"no record in {self._timing.stall_seconds:.0f} s, although it is behind"
            raise self._failure(_TIMEOUT, reason)

    def _wait(self, events: ShardEvents, left: float) -> float:
        """Return the maximum time in seconds to wait for an event."""
        at_tip = self._tip is not None and self._tip[0] == 0
        if at_tip or self._tip is None:
            waits = events.buffered if at_tip else not self._awaited
            self._awaited = True
            return min(_FIRST_EVENT, self._owner.patience) if waits else 0.0
        return min(left, self._owner.patience) if self._kept else self._owner.patience

    def _keep(self, event: Event) -> None:
        self._heard = True
        if event.ends_shard:
            self._wait_after(failures=1)  # GetRecords reads the end of the shard
        behind = event.millis_behind_latest
        self._tip = behind, event.emptied if behind == 0 else event.received
        if behind == 0:
            self._stall_detector = StallDetector(None, self._timing)
        else:
            self._stall_detector.note_response(behind, any_records=event.records > 0)
        if event.numbers is not None:
            first, last = map(int, event.numbers)
            self._end = Position.after(event.numbers[1])
        elif self._kept:
            first = last = self._kept[-1].last
        else:
            return
        self._kept.append(_Kept(event, first, last))
        self._bytes += len(event.payload)
        self._records += event.records

    def _check_progress(self, events: ShardEvents) -> None:
        """Check that there may be no event now.

        Raises:
            CallFailed: The response has ended before the first one, or one before the tip does not arrive.
        """
        if events.ended and not self._heard:
            raise self._failure(_NO_EVENT, "the response ended before the first event")
        if not (events.ended or self._kept) and self._tip is not None and self._tip[0] > 0:
            raise self._failure(_TIMEOUT, f"no event in {self._owner.patience:.0f} s")

    def _failure(self, code: str, reason: str) -> CallFailed:
        return CallFailed(self._owner.client.stream, SUBSCRIBE, code, reason)

    def _fail(self, error: Exception) -> None:
        self._disconnect()
        self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        """Wait longer before the next attempt, and report the failure, unless it may be a short one."""
        if not isinstance(error, CallFailed):
            error = self._failure(type(error).__name__, str(error))
        self._failures += 1
        self._wait_after(self._failures)
        may_be_short = error.code in _MAY_BE_SHORT or is_transient(error)
        self._early_ends += 1
        if self._early_ends >= _REPEATED or self._failures > 1 or not may_be_short:
            self._report(error)

    def _note_end(self, code: str, message: str) -> None:
        """Report that the subscription has ended before its time, if several in a row have."""
        self._early_ends += 1
        if self._early_ends >= _REPEATED:
            self._report(self._failure(code, message))

    def _report(self, error: CallFailed) -> None:
        self.unavailable = error.reason
        self._owner.report(self._shard_id, error)

    def _wait_after(self, failures: int) -> None:
        due = self._clock.monotonic() + UNAVAILABLE.wait(failures)
        self._next_attempt, self._renewal = max(self._next_attempt, due), max(self._renewal, due)
