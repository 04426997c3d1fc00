"""Which stream it is, and what the service tells of it."""

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
"""The service's clock is known in whole seconds, rounded down: what has happened by now happened before the
next one."""


class StreamIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which stream it is; a stream created again under its name is another one.

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
    """What DescribeStreamSummary tells.

    Attributes:
        identity: Which stream it is.
        service_time: The service's clock at the answer, UTC, whole seconds, rounded down.
        retention_hours: Records are there for so long.
        on_demand: Its capacity mode is ON_DEMAND. Such a stream can be switched at any time to the record
            distribution strategy AUTO and back: under it the service ignores partition keys and explicit
            hash keys, and producers may leave partition keys out.
    """

    identity: StreamIdentity
    service_time: datetime
    retention_hours: int
    on_demand: bool = False

    def timed_by(self, date: datetime) -> StreamSummary:
        """The same, at the earlier time of its own and that of the next response.

        Raises:
            ServiceTimeUncertain: The two do not agree.
        """
        if not agree(self.service_time, date):
            raise self._uncertain(date)
        return replace(self, service_time=min(self.service_time, date))

    def confirmed_by(self, later: StreamSummary) -> StreamSummary:
        """The later description of both.

        Raises:
            ServiceTimeUncertain: It is from before this one.
        """
        if later.service_time < self.service_time - TOLERANCE:
            raise self._uncertain(later.service_time)
        return later

    def _uncertain(self, date: datetime) -> ServiceTimeUncertain:
        return ServiceTimeUncertain(
            self.identity.name,
            f"one response has the Date {self.service_time}, and the next one {date}; nothing was changed. "
            "Run again; if it stays so, check what answers at the endpoint",
        )


@dataclass(frozen=True, slots=True)
class StreamListing:
    """A stream and all its shards, as one look found them.

    Attributes:
        summary: Requested before the shards, whose response agrees with its time: one that is not listed was
            opened after its `service_time`.
        shards: Every listed shard, parents before children.
    """

    summary: StreamSummary
    shards: Sequence[Shard]

    def judged_by(self, hash_range: tuple[str, str]) -> tuple[str, str] | None:
        """The hash keys by which a shard's sub-records are judged; None if none are, see `aggregation`."""
        return None if self.summary.on_demand else hash_range

    def with_retention(self, hours: int) -> StreamListing:
        """The same with another retention."""
        return replace(self, summary=replace(self.summary, retention_hours=hours))
