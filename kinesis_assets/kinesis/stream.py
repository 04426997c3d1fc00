"""A stream's identity, description and list of shards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import ServiceTimeUncertain
from kinesis_assets.kinesis.service_time import TOLERANCE, agree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.kinesis.shards import Shard


CLOCK_STEP = timedelta(seconds=1)
"""The resolution of the service's clock: `Date` headers are in whole seconds, rounded down, so an event up to
now happened before the next second."""


class StreamIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identity of a stream; a stream that is deleted and created again has another identity.

    Attributes:
        arn: The stream's ARN.
        created: StreamCreationTimestamp, UTC.
    """

    arn: str
    created: datetime

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.arn.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """The description of a stream by DescribeStreamSummary.

    Attributes:
        identity: The stream's identity.
        service_time: The service's clock at the response, UTC, in whole seconds, rounded down.
        retention_hours: The time for which records are kept.
        on_demand: Whether the capacity mode is ON_DEMAND; None if the service does not name the mode. An
            on-demand stream can be switched to the record distribution strategy AUTO and back at any time.
            Under AUTO the service ignores partition keys and explicit hash keys, and producers may omit
            partition keys.
        record_distribution: The record distribution strategy; None if the service does not name one.
    """

    identity: StreamIdentity
    service_time: datetime
    retention_hours: int
    on_demand: bool | None = None
    record_distribution: str | None = None

    def with_earlier_time(self, date: datetime) -> StreamSummary:
        """Return this summary with the earlier one of its own time and the time of the next response.

        Raises:
            ServiceTimeUncertain: The two times do not agree.
        """
        if not agree(self.service_time, date):
            raise self._uncertain(date)
        return replace(self, service_time=min(self.service_time, date))

    def confirm_with(self, later: StreamSummary) -> StreamSummary:
        """Return the later one of this description and the next one.

        Raises:
            ServiceTimeUncertain: The next description is older than this one.
        """
        if later.service_time < self.service_time - TOLERANCE:
            raise self._uncertain(later.service_time)
        return later

    def _uncertain(self, date: datetime) -> ServiceTimeUncertain:
        return ServiceTimeUncertain(
            self.identity.name,
            f"one response has the Date {self.service_time}, and the next one {date}; nothing was changed. "
            "Run again; if the error persists, check the service at the endpoint",
        )


@dataclass(frozen=True, slots=True)
class StreamListing:
    """A stream and all its shards at one time.

    Attributes:
        summary: The description, requested before the shards. The time of their response agrees with it, so a
            shard that is not listed was opened after `service_time`.
        shards: Every listed shard, parents before children.
    """

    summary: StreamSummary
    shards: Sequence[Shard]

    def with_retention(self, hours: int) -> StreamListing:
        """Return this listing with another retention."""
        return replace(self, summary=replace(self.summary, retention_hours=hours))
