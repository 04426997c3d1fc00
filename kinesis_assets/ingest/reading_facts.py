"""The facts about reading one shard, from the task that read it to the event that reports it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

import msgspec

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.table.positions.range_stats import Count

Time = Annotated[datetime, msgspec.Meta(tz=True)]


class ReadingFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts about reading one shard. `RangeStats` has those that are stored with the rows.

    Attributes:
        bad_records: Number of rows that are damaged aggregates, kept as they were received.
        outside_hash_range: Number of rows whose hash key belongs to another shard.
        first_arrival: Approximate arrival timestamp of the first row; None if there are no rows.
        last_arrival: Approximate arrival timestamp of the last row; None if there are no rows.
        millis_behind_latest: Milliseconds from the end of the range to the tip, as the last response reported
            them; None if there was none. See `ShardOutcome` for the lag.
        gaps: Ranges in which records may be missing and which the policy allowed to be skipped.
        throttles: Number of calls that the service throttled.
    """

    bad_records: Count
    outside_hash_range: Count
    first_arrival: Time | None
    last_arrival: Time | None
    millis_behind_latest: Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)] | None
    gaps: tuple[Gap, ...]
    throttles: Count

    @classmethod
    def unread(cls, *, gaps: tuple[Gap, ...] = (), throttles: int = 0) -> Self:
        """Return the facts of a shard of which nothing was read or committed."""
        return cls(
            bad_records=0,
            outside_hash_range=0,
            first_arrival=None,
            last_arrival=None,
            millis_behind_latest=None,
            gaps=gaps,
            throttles=throttles,
        )
