"""Check that an executor can read the stream of a run: it reads a shard, as the tasks of the run will."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kinesis_assets.errors import CallFailed, RoleNotAssumed
from kinesis_assets.ingest.task import client_of
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.retry_policy import is_throttled
from kinesis_assets.kinesis.reading.unread_records import Probe, Prober
from kinesis_assets.kinesis.relist import retry_listing
from kinesis_assets.retry import Backoff, RetryPolicy, retry

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.settings import ClientSettings

_SECONDS = 10.0
"""The time for the calls of an attempt."""

_ATTEMPTS = RetryPolicy(3, Backoff(0.5, 1.0))
"""One wrong response must not refuse an executor."""


@dataclass(frozen=True, slots=True)
class ShardCheck:
    """The shard of a stream that an executor reads. It can be pickled and holds no secrets.

    Attributes:
        stream: The stream's name or ARN.
        settings: The client's settings.
        shard_id: A shard to read; None if the stream has no open one.
        since: Where to read it from.
    """

    stream: str
    settings: ClientSettings
    shard_id: str | None
    since: datetime

    @classmethod
    def of(cls, client: StreamClient) -> Self:
        """Return the check of a client's stream.

        Raises:
            StreamError: The shards cannot be listed.
        """
        listing = retry_listing(client, lambda each: each)
        shard_id = next((shard.shard_id for shard in listing.shards if not shard.closed), None)
        return cls(str(client.address), client.settings, shard_id, listing.summary.service_time)

    def __call__(self) -> str | None:
        """Return what failed; None if nothing did."""
        try:
            client = client_of(self.stream, self.settings)
        except RoleNotAssumed as refused:
            return str(refused)
        if self.shard_id is None:
            return None
        probe = Probe(self.shard_id, Position.at_timestamp(self.since), self.since, None)

        def attempt() -> None:
            prober = Prober(client, _SECONDS)
            prober.probe([probe])
            if isinstance(prober.error, CallFailed) and not is_throttled(prober.error):
                raise prober.error

        try:
            retry(attempt, on=CallFailed, policy=_ATTEMPTS, sleep=self.settings.timing.clock.sleep)
        except CallFailed as failed:
            return failed.reason
        return None
