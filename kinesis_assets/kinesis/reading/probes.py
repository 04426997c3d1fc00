"""Find out with a few calls whether shards have unread records. Nothing is kept, and no position moves.

A probe requests a single record. It starts shortly before the time up to which the shard was read: from an
old position, the service may return many empty pages before it reaches the tip.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import StreamError
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, may_return
from kinesis_assets.kinesis.settings import CONNECTIONS
from kinesis_assets.kinesis.transport.concurrency import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

SHARD_END = "end"
"""The finding of a probe in a closed shard that has no further records."""

_MARGIN = timedelta(minutes=5)
"""How long before the time of the last read a probe starts, because arrival times are approximate."""

_MAX_PAGES = 3
"""The maximum number of GetRecords calls of a probe, if the pages are empty and before the tip."""

_CONNECT_TIMEOUT, _READ_TIMEOUT = 2.0, 5.0


@dataclass(frozen=True, slots=True)
class Probe:
    """The request to probe a shard.

    Attributes:
        read_until: When it was last read to its tip (service's clock).
        last_arrival: Arrival time of its last record that was read; None if there was none or it is unknown.
    """

    shard_id: str
    position: Position
    read_until: datetime
    last_arrival: datetime | None

    @property
    def start(self) -> Position:
        """Where the probe starts: no record from there on has been read."""
        start = self.read_until - _MARGIN
        if self.last_arrival is None:
            known = self.position.sequence_number is None and (self.position.timestamp or start) <= start
        else:
            known = self.last_arrival < start
        return Position.at_timestamp(start) if known else self.position


@dataclass
class Prober:
    """Probes shards until its time is over.

    Attributes:
        client: The client of the stream. Probes use one of their own, which does not retry and waits briefly.
        seconds: The time for all probes. A shard that is probed later has no result.
        error: The last error of a call, if any.
    """

    client: StreamClient
    seconds: float
    error: StreamError | None = field(default=None, init=False)
    _own: StreamClient | None = field(default=None, init=False)
    _end: float = field(default=0.0, init=False)

    def probe(self, probes: Iterable[Probe]) -> dict[str, str | None]:
        """Return by shard id the sequence number of its first unread record, `SHARD_END`, or None for none.

        Shards without a clear response are left out.
        """
        found: dict[str, str | None] = {}
        if self._own is None:
            self._end = self.client.settings.timing.clock.monotonic() + self.seconds
            timing = replace(
                self.client.settings.timing, connect_timeout=_CONNECT_TIMEOUT, read_timeout=_READ_TIMEOUT
            )
            settings = replace(self.client.settings, timing=timing)
            self._own = StreamClient(str(self.client.address), settings, attempts=1)
        client = self._own
        turns = Turns(CONNECTIONS, client.settings.timing.clock)
        turns.run(self._probe(client, probe, found, turns) for probe in probes)
        return found

    def _seconds_left(self) -> float:
        return self._end - self.client.settings.timing.clock.monotonic()

    async def _probe(
        self, client: StreamClient, probe: Probe, found: dict[str, str | None], turns: Turns
    ) -> None:
        async with turns:
            if self._seconds_left() <= 0:
                return
            try:
                iterator, _ = await client.getting_iterator(probe.shard_id, probe.start, self._seconds_left)
                for _ in range(_MAX_PAGES):
                    # It fails at the end of the time, even if the response arrives byte by byte.
                    page, _ = await client.getting_records(iterator, 1, seconds_left=self._seconds_left)
                    if page.records:
                        number = page.records[0].sequence_number
                        # A stale response may contain a record that was read before.
                        if may_return(probe.position, number):
                            found[probe.shard_id] = number
                        return
                    if page.next_shard_iterator is None:
                        found[probe.shard_id] = SHARD_END
                        return
                    if not page.millis_behind_latest:
                        found[probe.shard_id] = None
                        return
                    iterator = page.next_shard_iterator
                    await turns.pause(client.settings.timing.seconds_between_calls)
            except StreamError as error:
                self.error = error
