"""The landing of a continuous run that reads by subscriptions: in the process of the run, without Spark.

A subscription outlives a landing, but Spark gives a task no process that it would find again. So the process
of the run subscribes, and does what a task does. Without a consumer, runs land in Spark as all others do.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kinesis_assets.errors import StreamError
from kinesis_assets.ingest.manifest import check_landing
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.reading.subscription import Subscriptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.ingest.run import Land
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.limits import Allowance
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.stream import StreamSummary


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
        consumer: The name or ARN of the consumer. It must be registered.
        summary: A recent description of the stream.
        otherwise: The function to land ranges with if there is no such consumer.
        warn: Called with a sentence if ranges are read with GetRecords instead.

    Raises:
        InvalidInput: The consumer is that of another stream.
    """
    try:
        arn = client.describe_consumer(consumer, summary.identity.arn).arn
    except StreamError as error:
        warn(
            f"stream {client.stream}: GetRecords reads all shards, because consumer {consumer} is not there: "
            f"{error.reason}. Register it with `kinesis-assets consumer register`; the next run looks for it"
        )
        yield otherwise
        return
    subscriptions = Subscriptions(client, arn, summary.service_time, warn)

    def land(job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        landing = land_group(job, ranges, allowance, subscriptions)
        check_landing(job.stream, job.batch_id, ranges, landing)
        return landing

    try:
        yield land
    finally:
        subscriptions.close()
