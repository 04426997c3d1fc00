"""The positions of a stream's shards, and how those of two runs are merged. Their files: `positions_file`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.shards import unfinished_parents
from kinesis_assets.kinesis.stream import StreamIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.stream import StreamListing

FORMAT = 6
"""Raised with any change that an older version must not read. Older files are read as they are: what they
lack is not known."""


class Seek(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A position that was set by hand.

    Attributes:
        at: When (service's clock).
        by: Who: a Dagster run's id, or a person.
        before: Where the shard stood.
        after: Where it was set to.
        rows_removed: Rows after that position that the same commit took out.
    """

    at: datetime
    by: str
    before: Position
    after: Position
    rows_removed: int = 0

    def __str__(self) -> str:
        removed = f", {self.rows_removed} rows taken out" if self.rows_removed else ""
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ} by {self.by}: from {self.before} to {self.after}{removed}"


class ShardPosition(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """How far one shard is in the table, and where it stands in the lineage.

    Attributes:
        parents: The shards it was split or merged from.
        hash_range: First and last hash key, both inclusive, decimal text.
        position: Where it is read from next. A record is in the table if and only if this has passed it.
        finished: Read to its end; never read again.
        tip_time: When it was last read to its tip (service's clock); as `last_arrival`, None if it was not
            since its position was set by hand.
        last_arrival: Arrival of the last record committed.
        bytes_per_second: Payload bytes of its last committed range for each second of arrivals, but no more
            than a shard gives; None if no range told.
        wanted_from: No record that arrived before is to be read: the time where it starts, or where it was
            set to by hand, or when it was not listed yet. For a first start at TRIM_HORIZON it is the time of
            the first plan: what expires soon after that cannot be told apart from what had expired before.
        retention_hours: The stream's lowest retention seen since the shard was last read.
        gaps: Where records may be missing, oldest first.
        seeks: When its position was set by hand, oldest first.
        listed_open: When a list first showed it open (service's clock): it stays listed for a retention after
            that at least. None if no list did, or if that is not known.
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
    def seen_until(self) -> datetime | None:
        """Every record that arrived before this was looked for; None if it was not read."""
        read = [time for time in (self.tip_time, self.last_arrival) if time is not None]
        return max(read, default=None)

    @property
    def complete_until(self) -> datetime | None:
        """Every record that arrived before this is in the table, or not wanted; None if that is not known."""
        return self.seen_until or self.wanted_from

    @property
    def safe_until(self) -> datetime | None:
        """Until then no unread record can be past its retention; None if that is not known."""
        if self.seen_until is None and self.position.kind is PositionKind.TRIM_HORIZON:
            return None  # its oldest record may be about to expire
        if self.complete_until is None or self.retention_hours is None:
            return None
        return self.complete_until + timedelta(hours=self.retention_hours)

    @property
    def listed_until(self) -> datetime | None:
        """Until then a list without it is not whole; None if that is not known."""
        if self.retention_hours is None:
            return self.safe_until
        opened = self.listed_open and self.listed_open + timedelta(hours=self.retention_hours)
        return max((time for time in (self.safe_until, opened) if time is not None), default=None)

    def same_place(self, other: ShardPosition) -> bool:
        """Whether both stand at the same record; when the tip was seen does not matter.

        One that was set by hand is elsewhere, even where it came back: its rows may have been taken out.
        """
        return self._place == other._place

    @property
    def _place(self) -> tuple[object, ...]:
        return self.position, self.finished, self.gaps, self.seeks


class Landed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one commit brought of one shard: enough to prove it from the rows, and to tell it again.

    The rows are those of the commit's `batch_id` and the shard, each once.

    Attributes:
        start: Where the range began, which is where the commit before had left the shard.
        through: Where it ended.
        first_sequence_number: Of its first row.
        last_sequence_number: Of its last row.
        rows: Records.
        bytes: Their payload bytes.
        checksum: Over all rows, see `checksums.checksum`.
    """

    start: Position
    through: Position
    first_sequence_number: str
    last_sequence_number: str
    rows: int
    bytes: int
    checksum: int


class Predecessor(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An older stream of the same name, whose unread rest was given up.

    Attributes:
        identity: Which stream.
        unfinished: Where each shard stood that was not read to its end.
        gaps: By shard, where records may be missing before that.
    """

    identity: StreamIdentity
    unfinished: dict[str, Position]
    gaps: dict[str, tuple[Gap, ...]] = {}


class StreamPositions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The positions of a stream's shards, as one commit left them.

    Shards that were read to their end and are no longer listed may be in the archive instead, see
    `positions_archive`.

    Attributes:
        format: `FORMAT` of the writer.
        identity: Which stream.
        token: Names this file; the table's log points at it.
        previous: The token before it; None for the first.
        generation: Commits since the first, which is 0.
        batch_id: The attempt that made the commit.
        shards: By shard id.
        landed: What the commit brought, by shard id; shards that brought no row are left out.
        by: Who made the commit: a Dagster run's id, or a person.
        listed_at: When the shards were last listed (service's clock): one that is not here was opened later.
        predecessors: Older streams of the same name that rows of this table came from, oldest first.
        examined: The table's version that the commit was based on: up to it, no restore or overwrite came
            between rows and positions, or it was accepted. None in files of older formats.
        adopted: They are the first, and were computed from rows that the table had before.
    """

    format: int
    identity: StreamIdentity
    token: int
    previous: int | None
    generation: int
    batch_id: int
    shards: dict[str, ShardPosition]
    landed: dict[str, Landed] = {}
    by: str | None = None
    listed_at: datetime | None = None
    predecessors: tuple[Predecessor, ...] = ()
    examined: int | None = None
    adopted: bool = False

    @property
    def header(self) -> Header:
        """What its file begins with."""
        return Header(self.format, self.identity, self.token, self.previous)

    @property
    def finished(self) -> frozenset[str]:
        """The shards that were read to their end."""
        return frozenset(shard_id for shard_id, shard in self.shards.items() if shard.finished)

    def waits_for(self, shard_id: str) -> tuple[str, ...]:
        """The parents of a shard that must be read to their end before it."""
        parents = self.shards[shard_id].parents
        return unfinished_parents(parents, known=self.shards, finished=self.finished)

    def as_predecessors(self) -> tuple[Predecessor, ...]:
        """What the positions of a newer stream of the same name keep of these."""
        unfinished = {
            shard_id: shard.position for shard_id, shard in self.shards.items() if not shard.finished
        }
        gaps = {shard_id: shard.gaps for shard_id, shard in self.shards.items() if shard.gaps}
        return (*self.predecessors, Predecessor(self.identity, unfinished, gaps))

    def with_listing(self, listing: StreamListing) -> StreamPositions:
        """With every listed shard that is new, and a retention that was lowered.

        A new shard is at TRIM_HORIZON: nothing of a later one was ever seen.
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
        known = {
            shard_id: shard
            if (lowest, opened) == (shard.retention_hours, shard.listed_open)
            # Most are as they were, and there may be thousands.
            else msgspec.structs.replace(shard, retention_hours=lowest, listed_open=opened)
            for shard_id, shard in self.shards.items()
            for lowest in (min(shard.retention_hours or hours, hours),)
            for opened in (shard.listed_open or (now if shard_id in listed_open else None),)
        }
        return msgspec.structs.replace(self, shards=known | new, listed_at=_later(self.listed_at, listing))


def _later(listed_at: datetime | None, listing: StreamListing) -> datetime:
    return max(listed_at or listing.summary.service_time, listing.summary.service_time)


def initial_positions(
    listing: StreamListing, starts: Mapping[str, Position], *, wanted_from: datetime | None
) -> dict[str, ShardPosition]:
    """Unread shards, each at its start.

    Args:
        listing: The stream.
        starts: By shard id; listed shards that it does not name are left out.
        wanted_from: See `ShardPosition`; for those at TRIM_HORIZON. A start at a time means that time.
    """

    def wanted(start: Position) -> datetime | None:
        # Nothing can have arrived before there was a stream; when a record arrived, its number does not tell.
        created = listing.summary.identity.created
        if start.kind is PositionKind.TRIM_HORIZON:
            return wanted_from
        return max(created, start.timestamp or created)

    return {
        shard.shard_id: ShardPosition(
            parents=shard.parents,
            hash_range=shard.hash_range,
            position=starts[shard.shard_id],
            wanted_from=wanted(starts[shard.shard_id]),
            retention_hours=listing.summary.retention_hours,
            listed_open=None if shard.closed else listing.summary.service_time,
        )
        for shard in listing.shards
        if shard.shard_id in starts
    }


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a positions file begins with, see `StreamPositions`.

    Attributes:
        format: `FORMAT` of the writer.
        identity: Which stream.
        token: Names the file.
        previous: The token before it; None for the first.
        base: The token of the file that this one holds the changes since; None if it holds everything.
    """

    format: int
    identity: StreamIdentity
    token: int
    previous: int | None
    base: int | None = None
