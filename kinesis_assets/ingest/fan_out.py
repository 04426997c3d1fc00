"""The landing of a continuous run that reads by subscriptions: in the process of the run, without Spark.

A subscription outlives a landing, but Spark gives a task no process that it would find again. So the process
of the run subscribes, and does what a task does. Until the consumer is found, the run lands in Spark as all
others do.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import CallFailed
from kinesis_assets.ingest.manifest import check_landing
from kinesis_assets.ingest.task import client_of, land_group
from kinesis_assets.kinesis.reading.subscription import UNAVAILABLE, Subscriptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.ingest.run import Land
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.limits import Allowance
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.stream import StreamSummary

_NOT_FOUND = "ResourceNotFoundException"


@contextmanager
def landing_by_subscriptions(
    client: StreamClient,
    consumer: str,
    summary: StreamSummary,
    *,
    otherwise: Land,
    warn: Callable[[str], object],
) -> Iterator[Land]:
    """Yield the function that lands ranges by the subscriptions of a consumer, and close them afterwards.

    Args:
        consumer: The name or ARN of the consumer.
        summary: A recent description of the stream.
        otherwise: The function to land ranges with until the consumer is found.
        warn: Called with a sentence, once for each reason, if ranges are read with GetRecords instead.

    Raises:
        InvalidInput: The consumer is that of another stream.
    """
    search = ConsumerSearch(client, consumer, summary, warn)
    search.attempt(client)

    def land(job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        if search.due:
            search.attempt(client_of(job.stream, job.settings))  # which does not retry: shards wait
        if search.found is None:
            return otherwise(job, ranges, allowance)
        landing = land_group(job, ranges, allowance, search.found)
        check_landing(job.stream, job.batch_id, ranges, landing)
        return landing

    try:
        yield land
    finally:
        if search.found is not None:
            search.found.close()


class ConsumerSearch:
    """The search for a consumer, which goes on during the run.

    Args:
        summary: A description of the stream as of now.

    Attributes:
        found: The subscriptions of the consumer; None until it is found.
    """

    def __init__(
        self, client: StreamClient, consumer: str, summary: StreamSummary, warn: Callable[[str], object]
    ) -> None:
        self.found: Subscriptions | None = None
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
        return self.found is None and self._clock.monotonic() >= self._due_at

    def attempt(self, client: StreamClient) -> None:
        """Describe the consumer, and report why that fails.

        Raises:
            InvalidInput: The consumer is that of another stream.
        """
        try:
            arn = client.describe_consumer(self._consumer, self._summary.identity.arn).arn
        except CallFailed as error:
            self._failures += 1
            self._due_at = self._clock.monotonic() + UNAVAILABLE.wait(self._failures)
            self._report(error)
        else:
            passed = timedelta(seconds=self._clock.monotonic() - self._began)
            self.found = Subscriptions(self._client, arn, self._summary.service_time + passed, self._warn)

    def _report(self, error: CallFailed) -> None:
        if error.code in self._reported:
            return
        self._reported.add(error.code)
        reason, advice = f"cannot be described: {error.reason}", ""
        if error.code == _NOT_FOUND:
            reason = f"is not there: {error.reason}"
            advice = "Register it with `kinesis-assets consumer register`. "
        self._warn(
            f"stream {self._client.stream}: GetRecords reads all shards, because consumer {self._consumer} "
            f"{reason}. {advice}The run tries again at least every {UNAVAILABLE.longest:.0f} s"
        )
