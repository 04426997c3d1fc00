"""The plan of a run: the range to read of each shard, from its position in the table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from kinesis_assets.errors import ShardUnknown, StreamRecreated, TableError, TableMissing
from kinesis_assets.ingest.shard_lists import (
    check_list,
    check_recent_parents,
    check_unlisted_parents,
    give_up,
    reason_to_keep,
)
from kinesis_assets.kinesis.data_loss import Expiry, OnDataLoss
from kinesis_assets.kinesis.listing_retries import confirm_mode, confirm_summary, retry_listing
from kinesis_assets.kinesis.reading.range import Allowance, Bounds, ShardRange
from kinesis_assets.kinesis.start_positions import StartPositions, checked_starts
from kinesis_assets.kinesis.stream import CLOCK_STEP
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.amendments import ranges_to_fill
from kinesis_assets.table.positions.positions import initial_positions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


OnRecreated = Literal["fail", "restart"]
"""The behavior if the stream was deleted and created again under the same name.

With `fail` the run fails, and nothing is read. With `restart` the new stream is read from its start into the
same table. The unread records of the old stream are given up and recorded as a gap.
"""


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """How a stream is read.

    Attributes:
        starts: The positions at which the stream's first plan starts.
        bounds: The bounds of each shard's range.
        allowance: The amount that all ranges of a run may read together.
        max_bad_records: Maximum number of damaged records in a shard's range. The range ends before a record
            that exceeds it, and the shard fails. None means no limit.
    """

    starts: StartPositions = field(default_factory=StartPositions)
    bounds: Bounds = field(default_factory=Bounds)
    allowance: Allowance = field(default_factory=Allowance)
    on_data_loss: OnDataLoss = "fail"
    on_recreated: OnRecreated = "fail"
    max_bad_records: int | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of a run: what it reads. The asset's body receives it, and runs it or outputs it.

    Attributes:
        batch_id: The id of this attempt, written to every row that it lands.
        expected: The positions at which the run starts, with every listed shard.
        ranges: By shard id, the ranges to read: those of the requested shards that are neither finished nor
            refused, in the order in which their unread records expire.
        refused: By shard id, why a requested shard cannot be read.
        given_up: The requested shards that have expired. They count as read to their end, with a gap.
        lowered: Unfinished shards with less retention than the table records; the run records it.
        to_fill: What catch-ups have skipped and are still to add, by shard id.
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
    to_fill: Mapping[str, Collection[Gap]]

    @property
    def identity(self) -> StreamIdentity:
        """The identity of the stream."""
        return self.listing.summary.identity

    def narrowed(self, bounds: Bounds) -> RunPlan:
        """Return this plan with tighter bounds. None keeps the plan's bound; no bound can be widened."""

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


def current_shards(
    listing: StreamListing,
    table: PositionedTable,
    on_recreated: OnRecreated = "fail",
    asked: Iterable[str] = (),
) -> tuple[TableSnapshot | None, dict[str, ShardPosition]]:
    """Return the table's snapshot, and the position of every listed or recorded shard, parents first.

    The snapshot is None if the table does not exist.

    Archived shards, which are finished and no longer listed, are included only if they are in `asked`. A
    shard that no run has planned yet is at TRIM_HORIZON. Parents that may have expired are not checked with
    the service; only a plan does that, see `shard_lists`.

    Raises what `plan_run` raises for the table, and for a list that contradicts it; see
    `listing_retries.retry_listing`.
    """
    snapshot, positions = stored_positions(table, listing, on_recreated, asked)
    if positions is None or positions.identity != listing.summary.identity:
        check_recent_parents(listing)
        return snapshot, initial_positions(listing, StartPositions().frozen(listing), wanted_from=None)
    check_list(listing, positions)
    return snapshot, positions.with_listing(listing).shards


def plan_run(
    client: StreamClient,
    table: PositionedTable,
    *,
    asked: Iterable[str],
    policy: ReadPolicy,
    listing: StreamListing | None = None,
    now: datetime | None = None,
) -> RunPlan:
    """Plan the next range of each requested shard.

    The first plan of a stream commits the start of every listed shard to the table before anything is read.

    Args:
        table: The stream's table; it is created if it does not exist.
        asked: Shard ids, parents before children.
        listing: A recent listing of the stream and its shards. By default, and if it contradicts the table,
            the shards are listed now.
        now: The service's time; by default that of the listing.

    Raises:
        InvalidInput: The starts do not fit the stream.
        StreamPaused: An operator has paused the stream.
        StreamError: The stream cannot be reached, was recreated, or its shard list is incomplete or
            contradicts the table after all retries.
        TableError: The table cannot be used, belongs to another stream, has rows but no positions, or was
            restored or overwritten.
    """
    asked = list(dict.fromkeys(asked))

    def read_positions(listing: StreamListing) -> tuple[StreamListing, StreamPositions, TableSnapshot | None]:
        snapshot, found = _read_or_freeze(client, table, listing, policy, asked)
        check_list(listing, found)
        check_unlisted_parents(client, listing, found.shards, found.listed_at)
        return listing, found, snapshot

    listing, recorded, snapshot = retry_listing(client, read_positions, listing)
    listing = confirm_mode(client, listing, provisioned=recorded.provisioned_since is not None)
    expected = recorded.with_listing(listing)
    provisioned = expected.provisioned(listing)
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
                    hash_range=None if provisioned is None else shard.hash_range,
                    provisioned=provisioned,
                    closed=present[shard_id].closed,
                    expiry=_expiry(shard, policy),
                    max_bad_records=policy.max_bad_records,
                    expected_bytes=_bytes_unread(shard, now),
                    retry_seconds=client.settings.timing.retry_seconds,
                )
            )
        elif error := reason_to_keep(
            client, expected, shard_id, now=now, on_data_loss=policy.on_data_loss, given_up=given_up
        ):
            refused[shard_id] = error
        else:
            given_up[shard_id] = give_up(shard, now)
    ranges.sort(key=lambda range_: expected.shards[range_.shard_id].safe_until or _LONG_AGO)
    return RunPlan(
        batch_id=new_id(table.clock),
        expected=expected,
        listing=listing,
        asked=asked,
        ranges={range_.shard_id: range_ for range_ in ranges},
        allowance=policy.allowance,
        refused=refused,
        given_up=given_up,
        lowered={
            shard_id: expected.shards[shard_id]
            for shard_id, shard in recorded.shards.items()
            if not shard.finished and shard.retention_hours != expected.shards[shard_id].retention_hours
        },
        to_fill=gaps_to_fill(snapshot, expected.identity, expected.shards),
    )


def stored_positions(
    table: PositionedTable, listing: StreamListing, on_recreated: OnRecreated, asked: Iterable[str]
) -> tuple[TableSnapshot | None, StreamPositions | None]:
    """Return the table's snapshot and positions, with those archived shards that a list or `asked` names.

    Either is None if it does not exist. Raises what `PositionedTable.snapshot` and `TableSnapshot.positions`
    raise, except `TableMissing`.
    """
    try:
        snapshot = table.snapshot()
    except TableMissing:
        return None, None
    identity = listing.summary.identity
    positions = snapshot.positions(identity, or_older=on_recreated == "restart")
    if positions is None or positions.identity != identity:
        return snapshot, positions
    unknown = [shard for shard in listing.shards if shard.shard_id not in positions.shards]
    parents = [parent for shard in unknown for parent in shard.parents]
    wanted = [*(shard.shard_id for shard in unknown), *parents, *asked]
    return snapshot, table.chain.with_archived(positions, wanted)


def _read_or_freeze(
    client: StreamClient,
    table: PositionedTable,
    listing: StreamListing,
    policy: ReadPolicy,
    asked: Iterable[str],
) -> tuple[TableSnapshot | None, StreamPositions]:
    """Return the table's snapshot and the stream's positions; commit its first ones if it has none.

    The snapshot is None if they were committed.
    """
    from kinesis_assets.table.commits.commit import claim, freeze  # noqa: PLC0415  # definitions do not need it
    from kinesis_assets.table.rewrites import refuse_rewritten  # noqa: PLC0415  # as in `plan_run`
    from kinesis_assets.table.run_files.pause import refuse_paused  # noqa: PLC0415  # likewise

    snapshot, positions = stored_positions(table, listing, policy.on_recreated, asked)
    if snapshot is not None:
        refuse_paused(client.stream, table)
    if snapshot is not None and positions is not None:
        refuse_rewritten(table, snapshot, positions)
        if snapshot.owner is None:
            claim(table, listing.summary.identity)  # an older version created the table
        if positions.identity == listing.summary.identity:
            return snapshot, positions
    check_recent_parents(listing)
    # The committed starts are final, so they must not depend on one response.
    summary = confirm_summary(client, listing.summary)
    if summary.identity != listing.summary.identity:
        raise StreamRecreated(
            client.stream, "deleted and created again during this run; nothing was changed. Run again"
        )
    listing = listing.with_retention(max(listing.summary.retention_hours, summary.retention_hours))
    check_unlisted_parents(client, listing)
    if positions is None:
        return None, freeze(table, listing, checked_starts(client, policy.starts, listing))
    # The old stream was being read, so every record of the new one is new, whatever the configured start is.
    return None, freeze(table, listing, StartPositions().frozen(listing), replacing_older=True)


def gaps_to_fill(
    snapshot: TableSnapshot | None, identity: StreamIdentity, shards: Mapping[str, ShardPosition]
) -> dict[str, Collection[Gap]]:
    """Return what catch-ups have skipped and are still to add, by shard id.

    If the amendment cannot be read, which the checks report, nothing counts as added: no run depends on it.

    Args:
        snapshot: The newest version of the table; None if its first positions were just committed.
    """
    if snapshot is None or not any(gap.to_fill for shard in shards.values() for gap in shard.gaps):
        return {}
    try:
        amendment = snapshot.amendment(identity)
    except TableError:
        amendment = None
    left = ranges_to_fill(amendment, shards)
    return {shard_id: gaps.values() for shard_id, gaps in left.items()}


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
    """Estimate a shard's unread payload bytes from its recent arrival rate; None if that is not known."""
    if shard.seen_until is None or shard.bytes_per_second is None:
        return None
    return round(shard.bytes_per_second * max(0.0, (now - shard.seen_until).total_seconds()))
