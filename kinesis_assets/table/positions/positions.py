"""The positions of a stream's shards. See `positions_file` for the files that store them."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.stream import CLOCK_STEP, StreamIdentity, unfinished_parents
from kinesis_assets.table.positions.range_stats import RangeStats, with_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.stream import StreamListing, StreamSummary

FORMAT = 6
"""The format number that this release writes. It is raised with every change that an older release must not
read. Older files stay readable: a field that they lack is unknown."""

_MODE_SEEN = timedelta(hours=2)
"""The longest time between two lists for which the capacity mode that both show is taken to have lasted. The
service does not return when it was changed, and permits two changes a day."""


class Seek(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A change of a shard's position by an operator.

    Attributes:
        at: Time of the change (service's clock).
        by: The Dagster run id or the person that made it.
        rows_removed: Rows after the new position that the same commit deleted.
    """

    at: datetime
    by: str
    before: Position
    after: Position
    rows_removed: int = 0

    def __str__(self) -> str:
        removed = f", {self.rows_removed} rows deleted" if self.rows_removed else ""
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} by {self.by}: from {self.before} to {self.after}{removed}"


class ShardPosition(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The position of one shard, and its place in the lineage.

    Attributes:
        parents: The ids of the shards that it was split or merged from.
        hash_range: First and last hash key, both inclusive, as decimal text.
        position: Where the next read starts. No record after it is in the table. Each record before it is,
            unless it was not wanted, is in a gap, or was deleted by the table's retention.
        finished: Whether the shard was read to its end. A finished shard is never read again.
        tip_time: When it was last read to its tip (service's clock). None if it was not since an operator
            last set its position; the same applies to `last_arrival`.
        last_arrival: Arrival time of the last record committed.
        bytes_per_second: Payload bytes of the last committed range per second of arrival time, at most a
            shard's read limit. None if it could not be measured yet.
        wanted_from: Records that arrived earlier are not to be read. It is the time of the start position, or
            of the position that an operator set, or of the last list without the shard. For a first start at
            TRIM_HORIZON it is the time of the first plan: records that expire soon after it cannot be
            distinguished from records that had expired before it.
        retention_hours: The lowest retention of the stream observed since the shard was last read.
        gaps: Ranges where records may be missing, oldest first.
        seeks: The changes of its position by operators, oldest first.
        listed_open: When ListShards first returned it as open (service's clock). The shard stays listed for
            at least one retention period after that. None if it was never listed as open or if that is
            unknown.
    """

    parents: tuple[str, ...]
    hash_range: tuple[str, str]
    position: Position
    finished: bool = False
    tip_time: datetime | None = None
    last_arrival: datetime | None = None
    bytes_per_second: int | None = None
    wanted_from: datetime | None = None
    retention_hours: int | None = None
    gaps: tuple[Gap, ...] = ()
    seeks: tuple[Seek, ...] = ()
    listed_open: datetime | None = None

    @property
    def is_unread(self) -> bool:
        """Whether it is at the start of its first read, which is TRIM_HORIZON."""
        return self.position.kind is PositionKind.TRIM_HORIZON and self.tip_time is None

    @property
    def seen_until(self) -> datetime | None:
        """Records that arrived before this time have been polled for; None if the shard was never read."""
        read = [time for time in (self.tip_time, self.last_arrival) if time is not None]
        return max(read, default=None)

    @property
    def complete_until(self) -> datetime | None:
        """Each record that arrived before this time is in the table or not wanted; None if unknown."""
        return self.seen_until or self.wanted_from

    @property
    def safe_until(self) -> datetime | None:
        """No unread record can expire before this time; None if unknown."""
        if self.seen_until is None and self.position.kind is PositionKind.TRIM_HORIZON:
            return None  # its oldest record may be about to expire
        if self.complete_until is None or self.retention_hours is None:
            return None
        return self.complete_until + timedelta(hours=self.retention_hours)

    @property
    def listed_until(self) -> datetime | None:
        """A list of shards without this one is incomplete before this time; None if unknown."""
        if self.retention_hours is None:
            return self.safe_until
        opened = self.listed_open and self.listed_open + timedelta(hours=self.retention_hours)
        return max((time for time in (self.safe_until, opened) if time is not None), default=None)

    def same_place(self, other: ShardPosition) -> bool:
        """Return whether both positions are at the same record, whatever their tip times.

        They differ once an operator has set the position, even to the same value, since rows may have been
        deleted.
        """
        return self._place == other._place

    @property
    def _place(self) -> tuple[object, ...]:
        return self.position, self.finished, self.gaps, self.seeks


class Predecessor(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A deleted stream of the same name, whose unread records were given up.

    Attributes:
        unfinished: The last position of each shard that was not read to its end, by shard id.
        gaps: Ranges before these positions where records may be missing, by shard id.
    """

    identity: StreamIdentity
    unfinished: dict[str, Position]
    gaps: dict[str, tuple[Gap, ...]] = {}


class StreamPositions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The positions of a stream's shards after one commit.

    Finished shards that are no longer listed may be in the archive instead, see `positions_chain`.

    Attributes:
        format: `FORMAT` of the writer.
        commit_id: The commit id, which names the file. The table's log points at it. Stored as `token`.
        previous: The commit id of the previous positions; None for the first.
        generation: Number of the commit, from 0.
        batch_id: The attempt that made the commit.
        added: The ranges whose rows the commit added, by shard id; shards without new rows are left out.
            Stored as `landed`.
        by: The Dagster run id or the person that made the commit.
        listed_at: When the shards were last listed (service's clock). A shard that is missing here was opened
            later.
        predecessors: Deleted streams of the same name with rows in this table, oldest first.
        examined: The version of the table that the commit was based on. Up to this version there was no
            restore and no overwrite, or an operator accepted it. None in files of older formats.
        adopted: Whether these are the first positions, computed from rows that were in the table before.
        provisioned_since: Each list from this time on (service's clock) showed the stream to be provisioned,
            and they were at most `_MODE_SEEN` apart. None if the last one did not.
    """

    format: int
    identity: StreamIdentity
    commit_id: int = msgspec.field(name="token")
    previous: int | None
    generation: int
    batch_id: int
    shards: dict[str, ShardPosition]
    added: dict[str, RangeStats] = msgspec.field(default_factory=dict, name="landed")
    by: str | None = None
    listed_at: datetime | None = None
    predecessors: tuple[Predecessor, ...] = ()
    examined: int | None = None
    adopted: bool = False
    provisioned_since: datetime | None = None

    @property
    def arn(self) -> str:
        """The ARN of the stream."""
        return self.identity.arn

    @property
    def header(self) -> Header:
        """The header of their file."""
        return Header(self.format, self.identity, self.commit_id, self.previous)

    @property
    def finished(self) -> frozenset[str]:
        """The ids of the shards that were read to their end."""
        return frozenset(shard_id for shard_id, shard in self.shards.items() if shard.finished)

    def waits_for(self, shard_id: str) -> tuple[str, ...]:
        """Return the parents of a shard that must be finished before the shard is read."""
        parents = self.shards[shard_id].parents
        return unfinished_parents(parents, known=self.shards, finished=self.finished)

    def as_predecessors(self) -> tuple[Predecessor, ...]:
        """Return the `predecessors` that the positions of a newer stream of the same name have."""
        unfinished = {
            shard_id: shard.position for shard_id, shard in self.shards.items() if not shard.finished
        }
        gaps = {shard_id: shard.gaps for shard_id, shard in self.shards.items() if shard.gaps}
        return (*self.predecessors, Predecessor(self.identity, unfinished, gaps))

    def with_listing(self, listing: StreamListing) -> StreamPositions:
        """Return the positions with the new shards of a list, and with its retention if that is lower.

        New shards start at TRIM_HORIZON, since none of their records has been read.
        """
        new = initial_positions(
            listing,
            {
                shard.shard_id: Position(PositionKind.TRIM_HORIZON)
                for shard in listing.shards
                if shard.shard_id not in self.shards
            },
            wanted_from=self.listed_at,
        )
        hours, now = listing.summary.retention_hours, listing.summary.service_time
        listed_open = {shard.shard_id for shard in listing.shards if not shard.closed}

        def listed(shard_id: str, shard: ShardPosition) -> ShardPosition:
            lowest = min(shard.retention_hours or hours, hours)
            opened = shard.listed_open or (now if shard_id in listed_open else None)
            if (lowest, opened) == (shard.retention_hours, shard.listed_open):
                return shard  # as most of them, of which there may be thousands
            return msgspec.structs.replace(shard, retention_hours=lowest, listed_open=opened)

        known = {shard_id: listed(shard_id, shard) for shard_id, shard in self.shards.items()}
        return msgspec.structs.replace(
            self,
            shards=known | new,
            listed_at=max(self.listed_at or now, now),
            provisioned_since=self._provisioned_since(listing.summary),
        )

    def provisioned(self, listing: StreamListing) -> tuple[datetime, datetime] | None:
        """Return the time in which the stream was provisioned, up to a list that these positions include.

        None if it may have been on-demand.
        """
        if self.provisioned_since is None or listing.summary.on_demand is not False:
            return None
        return self.provisioned_since, listing.summary.service_time + CLOCK_STEP

    def _provisioned_since(self, summary: StreamSummary) -> datetime | None:
        """Return `provisioned_since` with another description of the stream."""
        if summary.on_demand is not False:
            return None
        since, listed_at, now = self.provisioned_since, self.listed_at, summary.service_time
        if listed_at is not None and now < listed_at:
            return since  # another run has listed the stream later
        if since is None or listed_at is None or now - listed_at > _MODE_SEEN:
            return now + CLOCK_STEP
        return since


def next_positions(
    before: StreamPositions | None,
    shards: dict[str, ShardPosition],
    *,
    identity: StreamIdentity,
    commit_id: int,
    batch_id: int,
    examined: int,
    listed_at: datetime | None,
    added: Mapping[str, RangeStats] = MappingProxyType({}),
    by: str | None = None,
    adopted: bool = False,
) -> StreamPositions:
    """Return new positions, which follow others.

    Args:
        before: The table's newest positions; None if it has none. Those of an older stream with the same name
            have every archived shard.
        added: See `StreamPositions`, as for the other arguments. Ranges without rows are left out.
    """
    predecessors: tuple[Predecessor, ...] = ()
    provisioned_since = None
    if before is not None and before.identity == identity:
        predecessors, provisioned_since = before.predecessors, before.provisioned_since
    elif before is not None:
        predecessors = before.as_predecessors()
    return StreamPositions(
        format=FORMAT,
        identity=identity,
        commit_id=commit_id,
        previous=None if before is None else before.commit_id,
        generation=0 if before is None else before.generation + 1,
        batch_id=batch_id,
        shards=shards,
        added=with_rows(added),
        by=by,
        listed_at=listed_at,
        predecessors=predecessors,
        examined=examined,
        adopted=adopted,
        provisioned_since=provisioned_since,
    )


def initial_positions(
    listing: StreamListing, starts: Mapping[str, Position], *, wanted_from: datetime | None
) -> dict[str, ShardPosition]:
    """Return the positions of unread shards, by shard id.

    Args:
        starts: The start positions by shard id; listed shards without one are left out.
        wanted_from: `ShardPosition.wanted_from` of the shards at TRIM_HORIZON. Shards that start at a
            timestamp get that timestamp.
    """

    def wanted(start: Position) -> datetime | None:
        # No record arrived before the stream was created. A sequence number does not reveal an arrival time.
        created = listing.summary.identity.created
        if start.kind is PositionKind.TRIM_HORIZON:
            return wanted_from
        return max(created, start.timestamp or created)

    return {
        shard.shard_id: ShardPosition(
            parents=shard.parents,
            hash_range=shard.hash_range,
            position=starts[shard.shard_id],
            finished=shard.ends_at(starts[shard.shard_id]),
            wanted_from=wanted(starts[shard.shard_id]),
            retention_hours=listing.summary.retention_hours,
            listed_open=None if shard.closed else listing.summary.service_time,
        )
        for shard in listing.shards
        if shard.shard_id in starts
    }


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first fields of a positions file, see `StreamPositions`.

    Attributes:
        base: The commit id of the base, if the file holds only the changes since it; None if it holds every
            shard.
    """

    format: int
    identity: StreamIdentity
    commit_id: int = msgspec.field(name="token")
    previous: int | None
    base: int | None = None

    @property
    def arn(self) -> str:
        """The ARN of the stream."""
        return self.identity.arn
