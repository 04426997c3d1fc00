"""The landing of a continuous run that reads by subscriptions.

A subscription outlives a landing, but Spark gives a task no process that it would find again. So the process
of the run subscribes. What has arrived goes to the landing's tasks as it came, and they read it as they read
what GetRecords returns. Shards of which nothing has arrived need no task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import structs

from kinesis_assets.errors import CallFailed
from kinesis_assets.ingest.manifest import Landing, ShardLanding
from kinesis_assets.ingest.task import LandingJob, client_of
from kinesis_assets.kinesis.consumers import NOT_FOUND, REGISTER_IT
from kinesis_assets.kinesis.reading.range import Allowance, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.received_pages import Received
from kinesis_assets.kinesis.reading.subscription import UNAVAILABLE, Subscriptions
from kinesis_assets.table.positions.range_stats import RangeStats, ReadingFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.ingest.run import Land
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamSummary

LandReceived = Callable[[LandingJob, Sequence[ShardRange], Allowance, Mapping[str, Received]], Landing]
"""A function that lands ranges, and what was received of them, as `ingest/land.py` does in Spark."""


@contextmanager
def landing_by_subscriptions(
    client: StreamClient,
    consumer: str,
    summary: StreamSummary,
    *,
    land: LandReceived,
    warn: Callable[[str], object],
    note: Callable[[Mapping[str, str | None]], object] = lambda _: None,
) -> Iterator[Land]:
    """Yield the function that lands ranges by the subscriptions of a consumer, and close them afterwards.

    Args:
        consumer: Its name or ARN.
        summary: A recent description of the stream.
        warn: Called with a sentence, once for each reason, if ranges are read with GetRecords instead.
        note: Called after each landing with the reasons why GetRecords reads shards, by shard id; None for
            those that are read by the consumer.

    Raises:
        InvalidInput: The consumer is that of another stream.
    """
    search = ConsumerSearch(client, consumer, summary, warn)
    search.attempt(client)

    def land_ranges(job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        if search.due:
            search.attempt(client_of(job.stream, job.settings))  # which does not retry: shards wait
        if search.found is None:
            landing = land(job, ranges, allowance, {})
            note({range_.shard_id: search.failure for range_ in ranges})
        else:
            landing = land_received(search.found, land, job, ranges, allowance)
            note(search.found.reasons())
        return landing

    try:
        yield land_ranges
    finally:
        if search.found is not None:
            search.found.close()


def land_received(
    subscriptions: Subscriptions,
    land: LandReceived,
    job: LandingJob,
    ranges: Sequence[ShardRange],
    allowance: Allowance,
) -> Landing:
    """Land what subscriptions have received of ranges, and the others by GetRecords."""
    received = subscriptions.receive(ranges, allowance)
    unread, landing = list[ShardRange](), Landing()
    for range_ in ranges:
        found = received.get(range_.shard_id)
        if found is not None and _is_without_records(range_, found):
            landing += Landing(shards=(_without_records(range_, found),))
        else:
            unread.append(range_)
    if unread:
        landing += land(job, unread, allowance, received)
    for shard in landing.shards:
        subscriptions.note_read(shard.shard_id, shard.refused, shard.tip_time)
        if shard.end is RangeEnd.SHARD_END:
            subscriptions.end(shard.shard_id)
    return landing


def _is_without_records(range_: ShardRange, received: Received) -> bool:
    """Return whether a range needs no reading: no record has arrived, and none can be lost or left."""
    if received.events or range_.closed or range_.start.sub_sequence_number is not None:
        return False
    not_before, expiry = range_.tip_not_before, range_.expiry
    return (not_before is None or received.seen >= not_before) and (
        expiry is None or not expiry.is_possible(received.seen)
    )


def _without_records(range_: ShardRange, received: Received) -> ShardLanding:
    at_tip = received.millis_behind_latest == 0
    return ShardLanding(
        shard_id=range_.shard_id,
        stats=RangeStats.unread(range_.start),
        end=RangeEnd.TIP if at_tip else RangeEnd.TIME_LIMIT,
        error=None,
        facts=structs.replace(ReadingFacts.unread(), millis_behind_latest=received.millis_behind_latest),
        tip_time=received.seen if at_tip else None,
    )


class ConsumerSearch:
    """The search for a consumer, which goes on during the run.

    Args:
        summary: A description of the stream as of now.

    Attributes:
        found: The subscriptions of the consumer; None until it is found.
        failure: Why the last attempt did not find it.
    """

    def __init__(
        self, client: StreamClient, consumer: str, summary: StreamSummary, warn: Callable[[str], object]
    ) -> None:
        self.found: Subscriptions | None = None
        self.failure = ""
        self._client = client
        self._consumer = consumer
        self._summary = summary
        self._warn = warn
        self._clock = client.settings.timing.clock
        self._began = self._due_at = self._clock.monotonic()
        self._failures = 0
        self._reported: set[str] = set()

    @property
    def due(self) -> bool:
        """Whether it is time for the next attempt."""
        is_sought = self.found is None or self.found.is_missing
        return is_sought and self._clock.monotonic() >= self._due_at

    def attempt(self, client: StreamClient) -> None:
        """Describe the consumer, and report why that fails. Raises `InvalidInput` for another stream's."""
        try:
            arn = client.describe_consumer(self._consumer, self._summary.identity.arn).arn
        except CallFailed as error:
            self._failures += 1
            self._due_at = self._clock.monotonic() + UNAVAILABLE.wait(self._failures)
            self._report(error)
        else:
            self._failures, self._due_at = 0, self._clock.monotonic() + UNAVAILABLE.wait(1)
            if self.found is not None:
                self.found.consumer_arn, self.found.is_missing = arn, False
                return
            passed = timedelta(seconds=self._clock.monotonic() - self._began)
            self.found = Subscriptions(self._client, arn, self._summary.service_time + passed, self._warn)

    def _report(self, error: CallFailed) -> None:
        if error.code == NOT_FOUND:
            reason = f"is not there: {error.reason}. {REGISTER_IT}"
        else:
            reason = f"cannot be described: {error.reason}"
        self.failure = f"consumer {self._consumer} {reason}"
        known = error.code == NOT_FOUND and self.found is not None  # a subscription has reported it
        if known or error.code in self._reported:
            return
        self._reported.add(error.code)
        self._warn(
            f"stream {self._client.stream}: GetRecords reads all shards, because {self.failure}. The run "
            f"tries again at least every {UNAVAILABLE.longest:.0f} s"
        )
