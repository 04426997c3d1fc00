"""Export: the positions of a table in a lease table of the Kinesis Client Library, which continues there.

Each item is written on the condition that it has not changed since it was read, and the table must have the
same positions, and no run in progress, after the last write as before the first. So a consumer or a run that
is alive is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import (
    InvalidInput,
    KinesisAssetsError,
    LeasesRefused,
    LeaseTableFailed,
    TableUnreachable,
)
from kinesis_assets.ingest.shard_lists import check_list, check_unlisted_parents
from kinesis_assets.kinesis.listing_retries import retry_listing
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.start_positions import SHARD_END, try_sequence_numbers
from kinesis_assets.kinesis.stream import Shard
from kinesis_assets.operations.leases.lease import (
    WHOLE,
    Checkpoint,
    checkpoint_at,
    checkpoint_of,
    leases_of,
    signs_of_life,
    write_lease,
)
from kinesis_assets.operations.leases.starts import RecordReader, mismatch
from kinesis_assets.operations.seek.first_records import first_unread, of_each
from kinesis_assets.table.positions.amendments import ranges_to_fill
from kinesis_assets.table.rewrites import refuse_rewritten
from kinesis_assets.table.run_files.heartbeat import ENDED, INTERVAL, heartbeats
from kinesis_assets.table.run_files.pause import read_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.kinesis.transport.concurrency import Turns
    from kinesis_assets.operations.leases.lease import Lease, Leases
    from kinesis_assets.operations.leases.lease_table import LeaseTable
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable

_TO_BEAT = 2 * INTERVAL + 5
"""Seconds in which a run that is alive writes a heartbeat."""

_TO_BEGIN = 5
"""Seconds in which a run that has found the stream not paused writes its first heartbeat."""


_INCOMPLETE = (
    "Do not start the application: it would skip or repeat records of the other shards. Export again, until "
    "that succeeds"
)


_TO_FILL = (
    "a catch-up has skipped records that it has not yet added, and the application would not read them. Run "
    "`kinesis-assets catch-up --apply` until it has added them"
)


class ExportEffect(StrEnum):
    """What an export does with a lease."""

    NEW = "new"
    """The shard has no lease."""
    FORWARD = "forward"
    BACK = "back"
    SAME = "same"
    """The lease has this checkpoint already."""
    REPLACED = "replaced"
    """The lease is at LATEST or AT_TIMESTAMP, which cannot be compared."""
    KEPT = "kept"
    """The lease is left as it is: the table has no position of the shard, which is no longer listed."""


@dataclass(frozen=True, slots=True)
class ExportedShard:
    """The export of one shard.

    Attributes:
        lease: The lease in the table; None if there is none.
        checkpoint: What is written; None if nothing is.
    """

    lease: Lease | None
    checkpoint: Checkpoint | None
    effect: ExportEffect


def hand_over(
    client: StreamClient,
    table: PositionedTable,
    lease_table: LeaseTable,
    *,
    several_streams: bool,
    failover_seconds: float,
    sleep: Callable[[float], object],
    apply: bool,
) -> dict[str, ExportedShard]:
    """Write the positions of a table into a lease table, or only plan that. Returns its shards by id.

    Args:
        several_streams: The application has several streams, of which this one may have no lease yet.
        failover_seconds: The time in which a worker of the application renews its leases.

    Raises:
        InvalidInput: The stream is not paused, a run is in progress, or the table has no positions.
        LeasesRefused: A lease or a position cannot be used.
        LeaseTableFailed: A call failed, or a lease or the table changed during the export.
        ShardError: A shard could not be read.
        StreamError: The stream cannot be reached, or its list of shards contradicts the table.
        TableError: The table cannot be used, or belongs to another stream.
    """
    dead = _refuse_runs(client.stream, table, sleep) if apply else {}
    listing, positions = retry_listing(client, lambda listing: _recorded(client, table, listing))
    identity = listing.summary.identity
    items = lease_table.items_at_rest(
        client.stream, partial(signs_of_life, identity=identity), seconds=failover_seconds, sleep=sleep
    )
    leases = leases_of(items, identity, several_streams=several_streams)
    shards = _planned(client, listing, positions, leases)
    if not apply:
        return shards
    _write(lease_table, listing, leases, shards)
    if reason := _read_on(table, positions, dead):
        raise LeaseTableFailed(
            f"lease table {lease_table.name}: {client.stream} was exported, but {reason}",
            advice="Do not start the application: it may read records again. Pause the stream, wait until "
            "its runs have ended, and export again",
        )
    return shards


def _refuse_runs(stream: str, table: PositionedTable, sleep: Callable[[float], object]) -> Mapping[str, str]:
    """Check that no run goes on reading, and return the last heartbeats of those that have died."""
    if read_pause(table) is None:
        raise InvalidInput(
            f"stream {stream}: it is not paused, so its next run would read beside the application. Nothing "
            "was changed. Run `kinesis-assets pause`, wait until its runs have ended, and export again"
        )
    before = _alive(table)
    sleep(_TO_BEAT if before else _TO_BEGIN)
    after = _alive(table)
    if alive := _changed(before, after):
        raise InvalidInput(
            f"stream {stream}: the run {alive} is in progress and goes on reading. Nothing was "
            "changed. Wait until it has ended, or terminate it, and export again"
        )
    return after


def _read_on(table: PositionedTable, positions: StreamPositions, dead: Mapping[str, str]) -> str | None:
    """Return why records may have been read, or will be, since these positions; None if none are."""
    try:
        # First: a run that ends afterwards has committed by then.
        alive = _changed(dead, _alive(table))
        current = table.snapshot().positions(positions.identity)
    except KinesisAssetsError as error:
        return f"it is unknown whether its runs read on: {error.reason}"
    if alive:
        return f"the run {alive} is in progress and goes on reading"
    if current is None or current.commit_id != positions.commit_id:
        return "it was read on during the export"
    return None


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the runs that have written a heartbeat since."""
    return ", ".join(sorted(run for run, beat in after.items() if before.get(run) != beat))


def _alive(table: PositionedTable) -> dict[str, str]:
    try:
        return {run: beat for run, beat in heartbeats(table).items() if beat != ENDED}
    except OSError as error:
        raise TableUnreachable(table.uri, f"its heartbeats cannot be listed: {error}") from None


def _recorded(
    client: StreamClient, table: PositionedTable, listing: StreamListing
) -> tuple[StreamListing, StreamPositions]:
    """Return a list that does not contradict the table, and the positions with every listed shard."""
    snapshot = table.snapshot()
    positions = snapshot.positions(listing.summary.identity)
    if positions is None:
        raise InvalidInput(
            f"stream {client.stream}: table {table.uri} has no positions, so there is nothing to export"
        )
    refuse_rewritten(table, snapshot, positions)
    positions = snapshot.with_all_archived(positions)
    if to_fill := ranges_to_fill(snapshot.amendment(positions.identity), positions.shards):
        raise LeasesRefused(client.stream, dict.fromkeys(to_fill, _TO_FILL))
    check_list(listing, positions)
    check_unlisted_parents(client, listing, positions.shards, positions.listed_at)
    return listing, positions.with_listing(listing)


def _planned(
    client: StreamClient, listing: StreamListing, positions: StreamPositions, leases: Leases
) -> dict[str, ExportedShard]:
    """Plan the leases of the listed shards, and of those that have a lease; parents first."""
    reader, refused, planned = RecordReader(client), {}, {}
    listed = {shard.shard_id: shard for shard in listing.shards}
    for shard_id in [*sorted(leases.by_shard.keys() - listed.keys()), *listed]:
        lease, recorded = leases.by_shard.get(shard_id), positions.shards.get(shard_id)
        if shard_id not in listed and (recorded is None or not recorded.finished):
            planned[shard_id] = ExportedShard(lease, None, ExportEffect.KEPT)
            continue
        recorded = positions.shards[shard_id]
        checkpoint = _checkpoint(client, reader, listed.get(shard_id), recorded)
        shard = listed.get(shard_id) or Shard(
            shard_id, recorded.parents, recorded.hash_range, starting_sequence_number="0", closed=True
        )
        if lease is not None and (reason := _of_another(client, shard, lease, listed=shard_id in listed)):
            refused[shard_id] = reason
        elif isinstance(checkpoint, str):
            refused[shard_id] = checkpoint
        else:
            planned[shard_id] = ExportedShard(lease, checkpoint, _effect(lease, checkpoint))
    if refused:
        raise LeasesRefused(client.stream, refused)
    return planned


def _of_another(client: StreamClient, shard: Shard, lease: Lease, *, listed: bool) -> str | None:
    """Return why a lease is not one of a shard; None if it may be."""
    if (reason := mismatch(shard, lease)) or not listed or lease.position is None:
        return reason
    try:
        try_sequence_numbers(client, {shard.shard_id: lease.position})
    except InvalidInput:
        return (
            f"{lease.source} is at {lease.stored}, which Kinesis rejects for the shard: it is that of "
            "another stream. Correct the stream or the name of the lease table"
        )
    return None


def _checkpoint(
    client: StreamClient, reader: RecordReader, shard: Shard | None, recorded: ShardPosition
) -> Checkpoint | str:
    """Return the checkpoint from which the KCL reads what the table lacks, or why there is none."""
    if recorded.finished or shard is None:
        return Checkpoint(SHARD_END)
    if recorded.position.timestamp is not None:
        found = of_each(client, [shard], partial(_of_time, client, recorded.position))
        return found[shard.shard_id]
    checkpoint = checkpoint_of(recorded)
    record = reader.at(shard, checkpoint.sequence_number) if checkpoint.sub == WHOLE else None
    return checkpoint if record is None else Checkpoint(checkpoint.sequence_number, record.last_sub)


async def _of_time(client: StreamClient, position: Position, shard: Shard, turns: Turns) -> Checkpoint | str:
    """Return the checkpoint from which the KCL reads all records from a time on, or why there is none."""
    trim_horizon = Position(PositionKind.TRIM_HORIZON)
    oldest = await first_unread(client, shard, trim_horizon, turns)
    first = await first_unread(client, shard, position, turns)
    if first == oldest:  # every record of the shard is after the time
        return Checkpoint(str(trim_horizon))
    if first is not None:
        return checkpoint_at(first.sequence_number)
    return (
        f"the table is at {position}, and the shard has older records but no newer one, so no lease "
        "can say where to go on. Resume the stream until a run has read a record of the shard, or set a "
        "position after its last record with `kinesis-assets seek`"
    )


def _effect(lease: Lease | None, checkpoint: Checkpoint) -> ExportEffect:
    if lease is None:
        return ExportEffect.NEW
    if lease.stored == str(checkpoint):
        return ExportEffect.SAME
    old = _order(lease.stored)
    if old is None:
        return ExportEffect.REPLACED
    return ExportEffect.FORWARD if old < (_order(str(checkpoint)) or old) else ExportEffect.BACK


def _order(checkpoint: str) -> tuple[int, int, int] | None:
    """Return a value that is greater for later checkpoints; None for LATEST and AT_TIMESTAMP."""
    if checkpoint == SHARD_END:
        return (2, 0, 0)
    if checkpoint == PositionKind.TRIM_HORIZON:
        return (0, 0, 0)
    number, colon, sub = checkpoint.partition(":")
    return (1, int(number), int(sub)) if colon else None


def _write(
    lease_table: LeaseTable, listing: StreamListing, leases: Leases, shards: Mapping[str, ExportedShard]
) -> None:
    listed = {shard.shard_id: shard for shard in listing.shards}
    to_write = {key: each.checkpoint for key, each in shards.items() if each.checkpoint is not None}
    for written, (shard_id, checkpoint) in enumerate(to_write.items()):
        done = f"after {written} of {len(to_write)} leases were written"
        try:
            _, unchanged = write_lease(
                lease_table,
                leases.stream_name,
                shard_id,
                leases.by_shard.get(shard_id),
                shards=listed,
                checkpoint=checkpoint,
            )
        except LeaseTableFailed as error:
            raise LeaseTableFailed(
                f"{error.reason}, {done}", advice=f"{_INCOMPLETE}. {error.advice}", code=error.code
            ) from error
        if not unchanged:
            raise LeaseTableFailed(
                f"lease table {lease_table.name}: the lease of {shard_id} changed during the export, {done}: "
                "a worker of the application is alive, or a response was lost",
                advice=f"Make sure that no worker is alive. {_INCOMPLETE}",
            )


def facts_of_export(shards: Mapping[str, ExportedShard], *, applied: bool) -> list[dict[str, Any]]:
    """Return the rows that the command prints, one for each shard."""
    return [
        {
            "shard": shard_id,
            "lease": None if each.lease is None else each.lease.stored,
            "checkpoint": None if each.checkpoint is None else str(each.checkpoint),
            "effect": str(each.effect),
            "applied": applied and each.checkpoint is not None,
        }
        for shard_id, each in shards.items()
    ]
