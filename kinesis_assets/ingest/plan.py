"""The plan of a run: what is read of which shard, from where the table says it stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import InvalidInput, ShardUnknown, StreamRecreated, TableMissing
from kinesis_assets.ingest.stale_list import check_first_list, check_list
from kinesis_assets.ingest.unlisted_parents import check_unlisted_parents
from kinesis_assets.ingest.vanished_shards import give_up, why_kept
from kinesis_assets.kinesis.data_loss import Expiry, OnDataLoss
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.relist import confirmed, relisted
from kinesis_assets.kinesis.start_positions import Starts, try_sequence_numbers
from kinesis_assets.kinesis.stream import CLOCK_STEP
from kinesis_assets.table.commit_ids import draw_token
from kinesis_assets.table.positions import initial_positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing
    from kinesis_assets.table.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.table import PositionedTable, TableSnapshot

_TRIM_HORIZON = Position(PositionKind.TRIM_HORIZON)
PATIENCE = 30.0
"""Seconds for which a shard may be asked in vain while the run's others wait for it with their commit."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class OnRecreated(StrEnum):
    """What a run does where the stream was deleted and created again under its name."""

    FAIL = "fail"
    """Nothing is read."""
    RESTART = "restart"
    """The new stream is read from its beginning, into the same table; the old one's unread rest is given up
    and recorded."""


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """How a stream is read.

    Attributes:
        starts: Where its first plan begins.
        bounds: For each shard's range.
        allowance: For all ranges of a run together.
        on_data_loss: What to do where records may have expired unread, or a shard vanished unread.
        on_recreated: What to do where the stream is another one under the same name.
        max_bad_records: A shard's range ends before the damaged record that would be one more, and the shard
            fails; None takes all.

    Raises:
        InvalidInput: A number is out of range.
    """

    starts: Starts = field(default_factory=Starts)
    bounds: Bounds = field(default_factory=Bounds)
    allowance: Allowance = field(default_factory=Allowance)
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    on_recreated: OnRecreated = OnRecreated.FAIL
    max_bad_records: int | None = None

    def __post_init__(self) -> None:
        for name in ("records", "bytes", "seconds"):
            value = getattr(self.allowance, name)
            if value is not None and value <= 0:
                raise InvalidInput(f"max_run_{name} must be above 0, not {value}")
        if self.max_bad_records is not None and self.max_bad_records < 0:
            raise InvalidInput(f"max_bad_records must not be below 0, as {self.max_bad_records} is")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run reads: the value that goes through the asset's body.

    Attributes:
        batch_id: Names this attempt; every row it lands carries it.
        expected: The positions it begins from, with every listed shard.
        listing: The stream and its shards.
        asked: The shards the run was asked for.
        ranges: By shard id, what is to be read: the asked shards that are neither finished nor refused. Those
            come first whose unread records would expire first.
        allowance: What all of them may read together.
        refused: The asked shards that cannot be read at all.
        given_up: The asked shards that are gone and count as read to their end from now on, with the gap.
        lowered: Unfinished shards whose retention was lowered since the table was told; it must be told.
    """

    batch_id: int
    expected: StreamPositions
    listing: StreamListing
    asked: Sequence[str]
    ranges: Mapping[str, ShardRange]
    allowance: Allowance
    refused: Mapping[str, ShardError]
    given_up: Mapping[str, ShardPosition]
    lowered: Mapping[str, ShardPosition]

    @property
    def identity(self) -> StreamIdentity:
        """Which stream."""
        return self.listing.summary.identity

    def narrowed(self, bounds: Bounds) -> RunPlan:
        """The same plan with tighter bounds. Fields that are None keep the plan's; none can be widened."""

        def tighter(planned: Bounds) -> Bounds:
            names = Bounds.__struct_fields__
            both = {name: (getattr(planned, name), getattr(bounds, name)) for name in names}
            return Bounds(
                **{
                    name: min((value for value in values if value is not None), default=None)
                    for name, values in both.items()
                }
            )

        ranges = {
            shard_id: msgspec.structs.replace(range_, bounds=tighter(range_.bounds))
            for shard_id, range_ in self.ranges.items()
        }
        return replace(self, ranges=ranges)


def standing_shards(
    listing: StreamListing,
    table: PositionedTable,
    on_recreated: OnRecreated = OnRecreated.FAIL,
    asked: Iterable[str] = (),
) -> dict[str, ShardPosition]:
    """Every shard that is listed or recorded, with its position; parents before children.

    Those in the archive, which are finished and no longer listed, are left out, except for the asked ones.

    One that no run has planned yet is at TRIM_HORIZON. Only a plan asks the service for parents that may have
    expired, see `unlisted_parents`. Raises what `plan_run` raises of the table, and of a
    list that contradicts it; see `relist.relisted`.
    """
    _, standing = _standing(table, listing, on_recreated, asked)
    if standing is None or standing.identity != listing.summary.identity:
        check_first_list(listing)
        return initial_positions(listing, _all_at(_TRIM_HORIZON, listing), wanted_from=None)
    check_list(listing, standing, table.uri)
    return standing.with_listing(listing).shards


def plan_run(
    client: StreamClient,
    table: PositionedTable,
    *,
    asked: Iterable[str],
    policy: ReadPolicy,
    listing: StreamListing | None = None,
    now: datetime | None = None,
) -> RunPlan:
    """Plan the next range of each asked shard.

    The first plan of a stream freezes the start of every listed shard in the table, before anything is read.

    Args:
        client: The stream.
        table: Its table; created if missing.
        asked: Shard ids, parents before children.
        policy: How the stream is read.
        listing: The stream and its shards as they were listed shortly before; by default they are listed now,
            and so they are if it contradicts the table.
        now: The service's clock; by default that of the listing.

    Raises:
        InvalidInput: The starts do not fit the stream.
        StreamError: The stream cannot be reached, was recreated, or its list of shards is not whole or
            contradicts the table, after bounded tries.
        TableError: The table cannot be used, belongs to another stream, has rows but no positions, or was
            restored or overwritten.
    """
    from kinesis_assets.kinesis.reading.range import ShardRange  # noqa: PLC0415  # definitions plan nothing

    asked = list(dict.fromkeys(asked))

    def positions(listing: StreamListing) -> tuple[StreamListing, StreamPositions]:
        found = _positions_or_first(client, table, listing, policy, asked)
        check_list(listing, found, table.uri)
        check_unlisted_parents(client, listing, found.shards, found.listed_at)
        return listing, found

    listing, standing = relisted(client, positions, listing)
    expected = standing.with_listing(listing)
    now = now or listing.summary.service_time
    until = min(policy.bounds.until or now + CLOCK_STEP, now + CLOCK_STEP)
    present = {shard.shard_id: shard for shard in listing.shards}
    refused: dict[str, ShardError] = {}
    given_up: dict[str, ShardPosition] = {}
    ranges: list[ShardRange] = []
    for shard_id in asked:
        shard = expected.shards.get(shard_id)
        if shard is None:
            refused[shard_id] = ShardUnknown(
                shard_id, f"stream {client.stream} has no such shard; remove the partition"
            )
        elif shard.finished:
            continue
        elif shard_id in present:
            ranges.append(
                ShardRange(
                    shard_id=shard_id,
                    start=shard.position,
                    bounds=msgspec.structs.replace(policy.bounds, until=until),
                    hash_range=listing.judged_by(shard.hash_range),
                    closed=present[shard_id].closed,
                    expiry=_expiry(shard, policy),
                    max_bad_records=policy.max_bad_records,
                    expected=_bytes_unread(shard, now),
                    patience=PATIENCE,
                )
            )
        elif error := why_kept(
            client, expected, shard_id, now=now, on_data_loss=policy.on_data_loss, given_up=given_up
        ):
            refused[shard_id] = error
        else:
            given_up[shard_id] = give_up(shard, now)
    ranges.sort(key=lambda range_: expected.shards[range_.shard_id].safe_until or _LONG_AGO)
    return RunPlan(
        batch_id=draw_token(),
        expected=expected,
        listing=listing,
        asked=asked,
        ranges={range_.shard_id: range_ for range_ in ranges},
        allowance=policy.allowance,
        refused=refused,
        given_up=given_up,
        lowered={
            shard_id: expected.shards[shard_id]
            for shard_id, shard in standing.shards.items()
            if not shard.finished and shard.retention_hours != expected.shards[shard_id].retention_hours
        },
    )


def _standing(
    table: PositionedTable, listing: StreamListing, on_recreated: OnRecreated, asked: Iterable[str]
) -> tuple[TableSnapshot | None, StreamPositions | None]:
    """The table, and its positions: of the list's shards, their parents and the asked ones too."""
    try:
        snapshot = table.snapshot()
    except TableMissing:
        return None, None
    identity = listing.summary.identity
    standing = snapshot.positions(identity, or_older=on_recreated is OnRecreated.RESTART)
    if standing is None or standing.identity != identity:
        return snapshot, standing
    unknown = [shard for shard in listing.shards if shard.shard_id not in standing.shards]
    parents = [parent for shard in unknown for parent in shard.parents]
    return snapshot, snapshot.recall(standing, [*(shard.shard_id for shard in unknown), *parents, *asked])


def _positions_or_first(
    client: StreamClient,
    table: PositionedTable,
    listing: StreamListing,
    policy: ReadPolicy,
    asked: Iterable[str],
) -> StreamPositions:
    """The stream's positions; its first plan makes them."""
    from kinesis_assets.table.claims import claim  # noqa: PLC0415  # as above
    from kinesis_assets.table.commit import freeze  # noqa: PLC0415  # as above
    from kinesis_assets.table.rewrites import refuse_rewritten  # noqa: PLC0415  # as above

    snapshot, standing = _standing(table, listing, policy.on_recreated, asked)
    if snapshot is not None and standing is not None:
        refuse_rewritten(table, snapshot, standing)
        if snapshot.owner is None:
            claim(table, listing.summary.identity)  # an older version made the table
        if standing.identity == listing.summary.identity:
            return standing
    check_first_list(listing)
    # What is frozen stays, so it must not rest on one response.
    summary = confirmed(client, listing.summary)
    if summary.identity != listing.summary.identity:
        raise StreamRecreated(client.stream, "deleted and created again meanwhile; nothing was changed")
    listing = listing.with_retention(max(listing.summary.retention_hours, summary.retention_hours))
    check_unlisted_parents(client, listing)
    if standing is None:
        starts = policy.starts.frozen(listing)
        try_sequence_numbers(client, starts)
        return freeze(table, listing, starts)
    # The old stream was being read, so everything in the new one is new, wherever the first one began.
    return freeze(table, listing, _all_at(_TRIM_HORIZON, listing), replacing_older=True)


def _all_at(position: Position, listing: StreamListing) -> dict[str, Position]:
    return {shard.shard_id: position for shard in listing.shards}


def _expiry(shard: ShardPosition, policy: ReadPolicy) -> Expiry | None:
    if shard.complete_until is None or shard.retention_hours is None:
        return None
    return Expiry(
        complete_until=shard.complete_until,
        retention_hours=shard.retention_hours,
        on_data_loss=policy.on_data_loss,
        last_gap=shard.gaps[-1] if shard.gaps else None,
    )


def _bytes_unread(shard: ShardPosition, now: datetime) -> int | None:
    """Payload bytes that are unread if they went on to arrive as they did; None if that is not known."""
    if shard.seen_until is None or shard.bytes_per_second is None:
        return None
    return round(shard.bytes_per_second * max(0.0, (now - shard.seen_until).total_seconds()))
