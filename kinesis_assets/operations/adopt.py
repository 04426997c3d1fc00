"""Adoption: an operator accepts the rows of a table as they are, and runs continue from there.

If a table has rows and no positions, such as a copy, the positions are computed from the rows. If a table
with positions was restored or overwritten, the restore is accepted. Either is one commit, which records who
did it. No row is changed.

Rows that the positions have not passed are refused: the next run would add them again. A seek that goes back
removes the rows after the new position, and a restore of an older version adds them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from kinesis_assets.errors import (
    CommitFailed,
    InvalidInput,
    ShardListIncomplete,
    TableUnsuitable,
)
from kinesis_assets.ingest.shard_lists import confirmed_listing, refuse_readable
from kinesis_assets.kinesis.clock import utc_now
from kinesis_assets.kinesis.listing_retries import list_shards, retry_listing
from kinesis_assets.kinesis.position import Position, PositionKind, at
from kinesis_assets.kinesis.stream import ALL_HASH_KEYS
from kinesis_assets.operations.seek.first_records import first_unread, of_each
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import commit_first
from kinesis_assets.table.commits.commit_loop import Try, commit_amendment
from kinesis_assets.table.positions.amendments import next_amendment
from kinesis_assets.table.positions.positions import ShardPosition, initial_positions
from kinesis_assets.table.rewrites import unaccepted_rewrites

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import Shard, StreamIdentity, StreamListing
    from kinesis_assets.kinesis.transport.concurrency import Turns
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import NewestRow, TableSnapshot
    from kinesis_assets.table.stored_table import Rewrite


@dataclass(frozen=True, slots=True)
class AdoptedShard:
    """A shard of an adoption.

    Attributes:
        position: The position where its first run starts; None if the stream no longer lists the shard.
    """

    rows: int
    position: Position | None


@dataclass(frozen=True, slots=True)
class AdoptResult:
    """The result of an adoption, or of its plan.

    Attributes:
        shards: The shards whose positions are computed from rows, by shard id.
        accepted: The restores and overwrites that are accepted, oldest first.
    """

    shards: Mapping[str, AdoptedShard] = field(default_factory=dict)
    accepted: Sequence[Rewrite] = ()


def adopt(client: StreamClient, table: PositionedTable, *, by: str, apply: bool) -> AdoptResult:
    """Accept the rows of a table as they are, or only plan that.

    Raises:
        InvalidInput: There is nothing to adopt.
        TableUnsuitable: The table has rows of another stream, or rows that the positions have not passed.
        CommitFailed: The table changed in the meantime; nothing was committed.
        ShardError: A shard could not be read, so it is unknown whether its last record is complete.
        StreamError: The stream cannot be reached, was recreated, or its list of shards is incomplete.
        TableError: The table cannot be used, or belongs to another stream.
    """
    identity = client.describe().identity
    snapshot = table.snapshot()
    # A restored table of an older stream must be accepted before runs of a recreated stream can start.
    positions = snapshot.positions(identity, or_older=True)
    if positions is not None:
        rewrites = unaccepted_rewrites(table, snapshot, positions)
        if not rewrites:
            snapshot.positions(identity)  # raises if they belong to an older stream
            raise InvalidInput(
                f"table {table.uri} has positions of {client.stream}, and was neither restored nor "
                "overwritten since they were committed, so there is nothing to adopt; the next run continues "
                "from them"
            )
        result = AdoptResult(accepted=sorted(rewrites, key=lambda rewrite: rewrite.version))
        if positions.identity == identity:  # an older stream is never read again
            _refuse_rows_ahead(client, table, snapshot, positions, result.accepted)
        if apply:
            _accept(table, identity, result.accepted[-1].version, by)
        return result
    rows = _rows(table, snapshot, client.stream)
    listing = retry_listing(client, lambda listing: _with_all_unexpired(client, listing, rows))
    shards = _adopted(client, listing, rows)
    expired = _expired(listing, rows)
    # Checked after reading, so that every record was read from the stream that adopts the rows.
    for summary in (listing.summary, client.describe()):
        summary.require(
            identity, "during the adoption; nothing was changed. Use a new table for the new stream"
        )
    if apply:
        check = _unchanged(table, snapshot, rows, client.stream)
        commit_first(table, listing, {**expired, **shards}, check, by=by, adopted=True)
    gone = {shard_id: AdoptedShard(rows[shard_id].rows, None) for shard_id in expired}
    counted = {
        shard_id: AdoptedShard(rows[shard_id].rows if shard_id in rows else 0, shard.position)
        for shard_id, shard in shards.items()
    }
    return AdoptResult(gone | counted)


def _accept(table: PositionedTable, identity: StreamIdentity, version: int, by: str) -> None:
    batch_id = new_id(table.clock)

    def prepare(snapshot: TableSnapshot, current: Amendment | None) -> Try[None]:
        if current is not None and current.accepted is not None and current.accepted >= version:
            return Try(None)
        # Whether the rows that filled a gap are still there is unknown.
        change = next_amendment(
            current,
            batch_id=batch_id,
            at=utc_now(table.clock),
            by=by,
            cleared={},
            accepted=version,
            clock=table.clock,
        )
        return Try(None, change.commit_id, partial(snapshot.commit, [], identity=identity, amendment=change))

    commit_amendment(table, identity, table.snapshot().amendment(identity), batch_id, prepare)


def _rows(table: PositionedTable, snapshot: TableSnapshot, stream: str) -> Mapping[str, NewestRow]:
    found = snapshot.newest_rows()
    if not found:
        raise InvalidInput(
            f"table {table.uri} has no rows, so there is nothing to adopt; the first run creates positions"
        )
    return _of_stream(table, found, stream)


def _of_stream(
    table: PositionedTable, rows: Mapping[str, Mapping[str, NewestRow]], stream: str
) -> Mapping[str, NewestRow]:
    """Return the rows of a stream, and refuse those of others."""
    if others := sorted(rows.keys() - {stream}):
        names = ", ".join(repr(name[:200]) for name in others)
        raise TableUnsuitable(
            table.uri,
            f"has rows of the streams {names}, and a table belongs to one stream; nothing was changed. Copy "
            f"the rows of {stream} to a table of their own",
        )
    return rows.get(stream, {})


def _adopted(
    client: StreamClient, listing: StreamListing, rows: Mapping[str, NewestRow]
) -> dict[str, ShardPosition]:
    """Return the listed shards, each after its newest row, or at its oldest record if it has no rows."""
    with_rows = [shard for shard in listing.shards if shard.shard_id in rows]
    after = of_each(
        client, with_rows, lambda shard, turns: _after(client, shard, rows[shard.shard_id], turns)
    )
    beginning = Position(PositionKind.TRIM_HORIZON)
    starts = {shard.shard_id: after.get(shard.shard_id, beginning) for shard in listing.shards}
    unread = initial_positions(listing, starts, wanted_from=listing.summary.service_time)
    return {
        shard_id: structs.replace(shard, last_arrival=rows[shard_id].last_arrival, wanted_from=None)
        if shard_id in rows
        else shard
        for shard_id, shard in unread.items()
    }


def _with_all_unexpired(
    client: StreamClient, listing: StreamListing, rows: Mapping[str, NewestRow]
) -> StreamListing:
    """Return the list with the confirmed retention, if it contains every shard that can still be read.

    Raises:
        ShardListIncomplete: It lacks a shard. Without a position, its rows would be added again; as a
            finished shard, its later records would never be read.
    """
    listing, missing = confirmed_listing(client, listing, rows)
    summary = listing.summary
    if unexpired := [shard_id for shard_id in missing if rows[shard_id].last_arrival > summary.oldest_kept]:
        raise ShardListIncomplete(
            client.stream,
            f"ListShards left out {', '.join(unexpired)}, of which the table has rows of the last "
            f"{summary.retention_hours} h, "
            "the stream's retention; nothing was changed. Try again later. If the retention was raised after "
            "the shard had expired, try again once these rows are older",
        )
    refuse_readable(client, missing)
    return listing


def _expired(listing: StreamListing, rows: Mapping[str, NewestRow]) -> dict[str, ShardPosition]:
    """Return the shards with rows that are no longer listed, as finished: no later list can restart them."""
    listed = {shard.shard_id for shard in listing.shards}
    return {
        shard_id: ShardPosition(
            parents=(),
            hash_range=ALL_HASH_KEYS,
            position=Position.after(row.sequence_number, row.sub_sequence_number),
            finished=True,
            last_arrival=row.last_arrival,
            retention_hours=listing.summary.retention_hours,
        )
        for shard_id, row in rows.items()
        if shard_id not in listed
    }


async def _after(client: StreamClient, shard: Shard, row: NewestRow, turns: Turns) -> Position:
    """Return the position after a shard's newest row.

    The row may be part of an aggregated record, of which the table lacks the rest. Unless a read finds the
    rest, a run will never look for it.
    """
    inside = Position.after(row.sequence_number, row.sub_sequence_number)
    first = await first_unread(client, shard, inside, turns)
    if first is not None and first.sequence_number == row.sequence_number:
        return inside
    return Position.after(row.sequence_number)


def _unchanged(
    table: PositionedTable, before: TableSnapshot, rows: Mapping[str, NewestRow], stream: str
) -> Callable[[TableSnapshot, StreamPositions | None], None]:
    """Return the check that a table still has no positions and these rows."""
    files = {file.path for file in before.data_files()}

    def check(snapshot: TableSnapshot, positions: StreamPositions | None) -> None:
        nonlocal files
        found = {file.path for file in snapshot.data_files()}
        # The same files contain the same rows, and reading them takes long.
        if positions is not None or (found != files and _rows(table, snapshot, stream) != rows):
            raise CommitFailed(
                table.uri, "it changed in the meantime; nothing was committed. Run the command again"
            )
        files = found

    return check


def facts_of_adoption(result: AdoptResult, *, applied: bool) -> list[dict[str, Any]]:
    """Return the rows that the command prints, one for each shard and one for each accepted version."""
    columns = ("shard", "version", "state", "rows", "position")
    rows: list[tuple[object, ...]] = [
        (shard_id, None, "gone", shard.rows, None)
        if shard.position is None
        else (shard_id, None, "adopted" if shard.rows else "unread", shard.rows, str(shard.position))
        for shard_id, shard in result.shards.items()
    ]
    rows += [(None, rewrite.version, str(rewrite), None, None) for rewrite in result.accepted]
    return [{**dict(zip(columns, row, strict=True)), "applied": applied} for row in rows]


_NAMED = 5
"""Maximum number of shards that an error names; the others are counted."""


def _refuse_rows_ahead(
    client: StreamClient,
    table: PositionedTable,
    snapshot: TableSnapshot,
    positions: StreamPositions,
    rewrites: Sequence[Rewrite],
) -> None:
    """Check that the next run reads no record that is already in the table.

    Args:
        rewrites: The restores and overwrites since these positions, oldest first; at least one.
    """
    listing = list_shards(client)
    starts = {shard.shard_id: at(shard.starting_sequence_number) for shard in listing.shards}
    rows = _of_stream(table, snapshot.newest_rows(), client.stream)
    shards = snapshot.with_all_archived(positions).with_listing(listing).shards
    ahead = {
        shard_id: row.sequence_number
        for shard_id, row in rows.items()
        if (shard := shards.get(shard_id)) is not None
        and not shard.finished
        and row.is_read_again(shard.position, starts.get(shard_id))
    }
    if ahead:
        named = ", ".join(f"{shard_id} up to {number}" for shard_id, number in sorted(ahead.items())[:_NAMED])
        more = f" and {len(ahead) - _NAMED} more shards" if len(ahead) > _NAMED else ""
        raise TableUnsuitable(
            table.uri,
            f"{rewrites[-1]} left rows that the positions have not passed, of {named}{more}: the next run "
            "would add them again. Nothing was changed. Restore the version before it, in which rows and "
            "positions agree, or delete these rows; then run `kinesis-assets adopt` again",
        )
