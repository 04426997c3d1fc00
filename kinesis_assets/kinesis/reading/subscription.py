"""The subscriptions of a consumer with enhanced fan-out, which outlive the readings that use them.

A continuous run reads a shard again and again. Between two readings, nobody receives what the service sends:
it waits in the buffers of the connection. A subscription continues exactly where the previous reading ended,
or it is closed: it knows the position after what it has delivered.

A consumer may subscribe to a shard again five seconds after it has subscribed, which ends the older
subscription. After five minutes each subscription ends.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_SubscribeToShard.html
"""

from __future__ import annotations

import random
import resource
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.retries import is_transient
from kinesis_assets.kinesis.reading.shard_events import SUBSCRIBE, ShardEvents
from kinesis_assets.kinesis.records.records import Records
from kinesis_assets.kinesis.records.wire import REPEATED_PAGE, Page, check_follows
from kinesis_assets.kinesis.stream import UNCERTAIN, agree
from kinesis_assets.kinesis.transport.signed_call import MEMORY_PER_BODY_BYTE
from kinesis_assets.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.transport.concurrency import Reservation

_IN_USE = "ResourceInUseException"
"""The name of the exception if the consumer has subscribed to the shard too recently, or elsewhere since."""

_NO_EVENT = "NoEvent"
"""The code of the `CallFailed` for a subscription that has not had a single event."""

_TOO_MANY = "TooManySubscriptions"
"""The code of the `CallFailed` for a subscription that would be one too many."""

_MAY_BE_SHORT = frozenset({_IN_USE, _NO_EVENT})
"""Failures that are not reported the first time, as those that `is_transient`."""

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
"""The maximum size of what all subscriptions have received and no reading has used."""

_RECORD_BYTES = 200
"""The approximate memory of the Python objects of a record, besides its data, key and sequence number."""

_CONTINUES = "subscription"
"""What a page of a subscription has in place of its next iterator."""


class Subscriptions:
    """The subscriptions of one consumer, by shard. Not thread-safe.

    Args:
        consumer_arn: The ARN of the consumer.
        service_time: The service's clock now, see `note_time`.
        warn: Called with a sentence, once for each reason, if GetRecords reads shards instead.

    Attributes:
        kept_bytes: The size of what they have received and no reading has used.
        most_open: How many may be open; half of the files that the process may open remain for the others.
        patience: Seconds to wait for a response, and for an event before the tip.
    """

    def __init__(
        self,
        client: StreamClient,
        consumer_arn: str,
        service_time: datetime,
        warn: Callable[[str], object],
    ) -> None:
        self.client = client
        self.consumer_arn = consumer_arn
        self.kept_bytes = 0
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most_open = _MOST_OPEN if files == resource.RLIM_INFINITY else min(_MOST_OPEN, files // 2)
        self.patience = min(_PATIENCE, client.settings.timing.read_timeout)
        self._warn = warn
        self._clock = client.settings.timing.clock
        self.note_time(service_time)
        self._shards: dict[str, Subscription] = {}
        self._reported: set[str] = set()

    def of(self, shard_id: str) -> Subscription:
        """Return the subscription to a shard, which may not be open."""
        if shard_id not in self._shards:
            self._shards[shard_id] = Subscription(self, shard_id)
        return self._shards[shard_id]

    def close(self) -> None:
        """Close all subscriptions."""
        for subscription in self._shards.values():
            subscription.close()

    def note_time(self, service_time: datetime) -> None:
        """Record the service's clock now, by an accepted response. The next subscription must agree with it.

        The time at the start is not enough: a monotonic clock stands still while the machine is suspended.
        """
        self._service_time, self._since = service_time, self._clock.monotonic()

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
        if error.code in self._reported:
            return
        self._reported.add(error.code)
        self._warn(
            f"stream {self.client.stream}: GetRecords reads shard {shard_id}, and maybe others, instead of "
            f"consumer {self.consumer_arn}: {error.reason}. The run subscribes again as soon as it can, and "
            f"tries at least every {UNAVAILABLE.longest:.0f} s"
        )


class Subscription:
    """The subscription to a shard, which is opened, renewed and closed as needed."""

    def __init__(self, owner: Subscriptions, shard_id: str) -> None:
        self._owner = owner
        self._shard_id = shard_id
        self._clock = owner.client.settings.timing.clock
        self._events: ShardEvents | None = None
        self._connecting = False
        self._heard = False  # whether it had an event
        self._position: Position | None = None  # after what was read
        self._delivered_at: Position | None = None  # where the last page was read from
        self._unread: Records | None = None
        self._tip: tuple[int, datetime] | None = None  # how far the position is from it, and when
        self._kept = 0
        self._renewal = self._next_attempt = 0.0
        self._failures = 0

    @property
    def has_connection(self) -> bool:
        """Whether it is open or being opened."""
        return self._connecting or self._events is not None

    async def connect(self, position: Position) -> bool:
        """Subscribe at a position, if necessary and possible, and return whether there is a subscription."""
        if position != self._position:
            self.close()
            self._position = position
        due = self._next_attempt if self._events is None else self._renewal
        if self._clock.monotonic() >= due:
            await self._subscribe(position)
        return self._events is not None

    async def page(self, position: Position, reservation: Reservation | None) -> tuple[Page, datetime] | None:
        """Return the records that have arrived after a position, and the service's clock.

        If the last page was read to the tip, it does not wait for more.

        Args:
            position: Where `connect` has found a subscription.
            reservation: The memory reservation for the page.

        Returns:
            The page; None to request it with GetRecords, because the subscription has ended or failed, or its
            first event has not arrived.
        """
        try:
            found = await self._kept_page(reservation) or await self._new_page(position, reservation)
        except Exception as error:  # noqa: BLE001  # GetRecords can still read
            self._fail(error)
            return None
        except BaseException:
            self.close()  # it may have lost events
            raise
        if found is not None:
            self._delivered_at = position
            records = found[0].records
            self._position = Position.after(records.numbers[-1]) if records else position
        return found

    def note_polled(self, page: Page, served: datetime) -> None:
        """Record that GetRecords has returned a page at the position."""
        self._owner.note_time(served)
        if not page.records:
            self._tip = page.millis_behind_latest, served
        elif self._events is not None and not self._heard:
            self._fail(self._without_event("GetRecords has read records before the first event"))

    def keep_unread(self, records: Records, position: Position) -> None:
        """Keep the records of the last page that are after a position."""
        if self._events is None:
            return
        if position != self._delivered_at:
            index = records.numbers.index(position.sequence_number or "")
            records = records[index + (position.sub_sequence_number is None) :]
        self._unread, self._position = records, position
        self._keep(_size_of(records) + self._events.buffered)

    def close(self) -> None:
        """Close the subscription, if it is open."""
        if self._events is not None:
            self._events.close()
        self._events = self._unread = self._tip = None
        self._keep(0)

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
        tip = self._tip
        self.close()
        self._events, self._position, self._tip = events, position, tip
        self._heard = False
        self._next_attempt = events.opened_at + _INTERVAL
        self._renewal = events.opened_at + random.uniform(*_RENEWED_AFTER)  # noqa: S311

    async def _kept_page(self, reservation: Reservation | None) -> tuple[Page, datetime] | None:
        if self._unread is None or self._tip is None:
            return None
        if reservation is not None:
            await reservation.acquire(int(MEMORY_PER_BODY_BYTE * self._kept))
        records, self._unread = self._unread, None
        self._keep(0)
        behind, seen = self._tip
        return Page(records, max(behind, 1), _CONTINUES), seen  # more may have arrived meanwhile

    async def _new_page(
        self, position: Position, reservation: Reservation | None
    ) -> tuple[Page, datetime] | None:
        events = self._events
        if events is None:
            return None
        at_tip = self._tip is not None and self._tip[0] == 0
        wait = self._owner.patience
        if at_tip or self._tip is None:
            wait = 0.0 if at_tip and not events.buffered else min(_FIRST_EVENT, wait)
        found = await events.page(wait, reservation)
        self._keep(events.buffered)
        if found is None:
            return self._page_without_events(events)
        self._heard = True
        first = found[0].records.numbers[0] if found[0].records else None
        check_follows(self._owner.client.stream, first, position, SUBSCRIBE)
        self._failures = 0
        self._tip = found[0].millis_behind_latest, found[1]
        if not events.ended:
            return found
        self.close()
        self._wait_after(failures=1)  # GetRecords reads the end of the shard
        return found if found[0].records else None

    def _page_without_events(self, events: ShardEvents) -> tuple[Page, datetime] | None:
        stream = self._owner.client.stream
        if events.ended and not self._heard:
            raise self._without_event("the response ended before the first event")
        if events.ended:  # after five minutes
            self.close()
        elif self._clock.monotonic() - events.heard_at > _SILENCE:
            raise CallFailed(stream, SUBSCRIBE, "ReadTimeoutError", f"no event in {_SILENCE:.0f} s")
        elif self._tip is not None and self._tip[0] == 0:
            return Page(Records([], [], [], []), 0, _CONTINUES), self._tip[1]
        elif self._tip is not None:
            raise CallFailed(
                stream, SUBSCRIBE, "ReadTimeoutError", f"no event in {self._owner.patience:.0f} s"
            )
        return None

    def _without_event(self, message: str) -> CallFailed:
        return CallFailed(self._owner.client.stream, SUBSCRIBE, _NO_EVENT, message)

    def _keep(self, size: int) -> None:
        """Account for bytes that no reading has used, and close the subscription if they are too many."""
        self._owner.kept_bytes += size - self._kept
        self._kept = size
        if size and self._owner.kept_bytes > _KEPT_BYTES:
            self.close()

    def _fail(self, error: Exception) -> None:
        self.close()
        self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        """Wait longer before the next attempt, and report the failure, unless it may be a short one.

        A record that comes after later ones may be one that a page before it lacked, so it is reported too.
        """
        if not isinstance(error, CallFailed):
            error = CallFailed(self._owner.client.stream, SUBSCRIBE, type(error).__name__, str(error))
        self._failures += 1
        self._wait_after(self._failures)
        may_be_short = error.code in _MAY_BE_SHORT or is_transient(error)
        if self._failures > 1 or not may_be_short or error.code == REPEATED_PAGE:
            self._owner.report(self._shard_id, error)

    def _wait_after(self, failures: int) -> None:
        due = self._clock.monotonic() + UNAVAILABLE.wait(failures)
        self._next_attempt, self._renewal = max(self._next_attempt, due), max(self._renewal, due)


def _size_of(records: Records) -> int:
    """Return the approximate memory of records in bytes."""
    texts = (records.payloads, records.numbers, filter(None, records.keys))
    return sum(sum(map(len, each)) for each in texts) + _RECORD_BYTES * len(records)
