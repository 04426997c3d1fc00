"""Seek: move the positions of shards, forward with the gap recorded, or back with their rows removed.

The moves are planned from the positions, the target in each shard and the rows in the table, and planned
again for each attempt to commit. Rows, positions and the record of who did it are one commit. Delta refuses
it if a run, another seek or another change of old rows was committed first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.errors import AttemptExpired, InvalidInput, PositionConflict, SeekRefused
from kinesis_assets.ingest.shard_lists import check_for_seek
from kinesis_assets.kinesis.clock import utc_now
from kinesis_assets.kinesis.listing_retries import confirm_summary, list_shards
from kinesis_assets.kinesis.position import at, passed
from kinesis_assets.kinesis.start_positions import try_sequence_numbers, without_latest
from kinesis_assets.operations.seek.first_records import (
    TIME_TO_READ,
    first_unread,
    newest_target,
    of_each,
    read_target,
)
from kinesis_assets.operations.seek.plan import Direction, going_back, moving, plan_moves
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.commits.commit_loop import Try, commit_positions
from kinesis_assets.table.ownership import WAY_OUT_OF_RECREATION
from kinesis_assets.table.positions.amendments import ClearedGap, next_amendment
from kinesis_assets.table.positions.positions import Seek, next_positions
from kinesis_assets.table.rewrites import refuse_rewritten
from kinesis_assets.table.row_predicates import RowsAfter

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.position import PassedRecord, Position
    from kinesis_assets.kinesis.stream import Shard, StreamListing
    from kinesis_assets.kinesis.transport.concurrency import Turns
    from kinesis_assets.operations.seek.first_records import Target
    from kinesis_assets.operations.seek.plan import Move
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class SeekResult:
    """The result of a seek, or of its plan.

    Attributes:
        moves: One move for each chosen shard, by shard id.
        version: Version of the table that holds the moves; None if nothing was committed, or if it is no
            longer among the newest hundred versions of the log.
        applied: The moves were committed.
    """

    moves: Mapping[str, Move]
    version: int | None = None
    applied: bool = False


@dataclass(frozen=True, slots=True)
class _Request:
    """A validated request, with the stream's response to it.

    Attributes:
        targets: The targets of the listed shards among the chosen ones, by shard id.
        all_shards: The shards were not named.
    """

    listing: StreamListing
    targets: Mapping[str, Target]
    chosen: Sequence[str]
    all_shards: bool
    to_fill: bool


def seek(
    client: StreamClient,
    table: PositionedTable,
    *,
    to: Position,
    shard_ids: Collection[str] | None,
    by: str,
    apply: bool,
    to_fill: bool = False,
) -> SeekResult:
    """Move the positions of some shards, all in one commit or none.

    Args:
        to: The new position. LATEST becomes the current time or, with `to_fill`, the first record since
            `SETTLED`; TRIM_HORIZON becomes the oldest record that does not expire before a run can read it.
        shard_ids: The shards; None for all shards that can be moved there.
        by: Id of the Dagster run or name of the person, recorded with the positions.
        apply: Commit the moves; otherwise only plan them.
        to_fill: Mark the gaps of the skipped records as `Gap.to_fill`. Shards that are finished stay, and
            none goes back.

    Raises:
        InvalidInput: There is no such shard or position, or no run has committed yet.
        SeekRefused: A shard cannot be moved there.
        AttemptExpired: The targets are too old; nothing was changed.
        PositionConflict: A run moved a shard in the meantime, so that the direction changed.
        StreamError: The stream cannot be reached or was recreated, or its list of shards is stale.
        TableError: The table cannot be used, belongs to another stream, or was restored or
            overwritten; or (`CommitUnknown`) the result of the commit is unknown.
    """
    listing = list_shards(client)
    identity = listing.summary.identity
    snapshot = table.snapshot()
    expected = snapshot.positions(identity)
    if expected is None:
        raise InvalidInput(
            f"stream {client.stream}: no run has committed yet, so there is no position to move; "
            "`start` sets where the first run starts"
        )
    refuse_rewritten(table, snapshot, expected)
    recorded = snapshot.with_all_archived(expected)
    check_for_seek(listing, recorded)
    batch_id = new_id(table.clock)
    hours = sorted(
        (listing.summary.retention_hours, confirm_summary(client, listing.summary).retention_hours)
    )
    # The targets use the shorter retention, to be safe; the longer one is what both responses confirm.
    request = _request(client, listing.with_retention(hours[0]), recorded, to, shard_ids, to_fill=to_fill)
    listing = listing.with_retention(hours[1])
    client.describe().require(identity, "during the seek; nothing was changed", WAY_OUT_OF_RECREATION)
    planned = _plan(snapshot, recorded.with_listing(listing), request)
    if not apply or not moving(planned):
        return SeekResult(planned)

    def prepare(snapshot: TableSnapshot, current: StreamPositions) -> Try[SeekResult]:
        _refuse_late(table, batch_id)
        moves = _plan(snapshot, snapshot.with_all_archived(current).with_listing(listing), request)
        listed = [shard.shard_id for shard in listing.shards]
        current = table.chain.with_archived(current, listed).with_listing(listing)
        _refuse_changed_direction(planned, moves)
        if not moving(moves):
            return Try(SeekResult(moves))
        following = next_positions(
            current,
            current.shards | _moved(moves, by=by, now=listing.summary.service_time),
            identity=identity,
            commit_id=new_id(table.clock),
            batch_id=batch_id,
            examined=snapshot.version,
            listed_at=current.listed_at,
            by=by,
        )
        return Try(
            SeekResult(moves, applied=True),
            following.commit_id,
            partial(_commit, snapshot, following, moves, table.clock),
        )

    result, version = commit_positions(table, expected, batch_id, prepare)
    return replace(result, version=version)


def _request(
    client: StreamClient,
    listing: StreamListing,
    positions: StreamPositions,
    to: Position,
    shard_ids: Collection[str] | None,
    *,
    to_fill: bool,
) -> _Request:
    """Validate the arguments and read the targets. Nothing is written."""
    known = positions.with_listing(listing).shards
    listed = {shard.shard_id: shard for shard in listing.shards}
    chosen = list(known) if shard_ids is None else list(dict.fromkeys(shard_ids))
    if not chosen:
        raise InvalidInput("no shard was named; name shards, or select all shards")
    if unknown := [shard_id for shard_id in chosen if shard_id not in known]:
        names = ", ".join(repr(shard_id[:200]) for shard_id in unknown)
        raise InvalidInput(
            f"stream {client.stream} has no shard {names}; list its shards with `kinesis-assets positions`"
        )
    if to.sequence_number is not None and len(chosen) > 1:
        raise InvalidInput(
            f"{to} belongs to one shard, but {len(chosen)} shards are selected; move each shard separately"
        )
    if shard_ids is not None:
        for shard_id in chosen:
            if shard_id not in listed and not (to_fill and known[shard_id].finished):
                raise SeekRefused(
                    shard_id,
                    "the stream no longer lists this shard, so none of its records can be read; name other "
                    "shards",
                )
    readable = [listed[shard_id] for shard_id in chosen if shard_id in listed]
    if to_fill:
        unfinished = [shard for shard in readable if not known[shard.shard_id].finished]
        targets = of_each(
            client,
            unfinished,
            lambda shard, turns: newest_target(client, shard, listing.summary, known[shard.shard_id], turns),
        )
        return _Request(listing, targets, chosen, all_shards=shard_ids is None, to_fill=True)
    position = without_latest(to, listing, chosen[0])
    try_sequence_numbers(client, dict.fromkeys((shard.shard_id for shard in readable), position))

    async def target_in(shard: Shard, turns: Turns) -> Target:
        before = known[shard.shard_id]
        target = await read_target(client, shard, listing.summary, position, turns)
        if not before.is_unread or target.position == before.position:
            return target
        return replace(target, unread=await first_unread(client, shard, before.position, turns))

    targets = of_each(client, readable, target_in)
    return _Request(listing, targets, chosen, all_shards=shard_ids is None, to_fill=False)


def _plan(snapshot: TableSnapshot, positions: StreamPositions, request: _Request) -> dict[str, Move]:
    """Plan the moves, with the numbers of rows that they remove from one version of the table."""
    moves = plan_moves(
        positions,
        request.targets,
        request.chosen,
        listed_open={shard.shard_id for shard in request.listing.shards if not shard.closed},
        now=request.listing.summary.service_time,
        all_shards=request.all_shards,
        to_fill=request.to_fill,
    )
    back = going_back(moves)
    places = _places(back)
    stream = positions.identity.name
    rows = snapshot.count(RowsAfter(stream, places)) if places else {}
    amendment = snapshot.amendment(positions.identity)
    _refuse_read_rows(snapshot, stream, request.listing, back.keys() - places.keys(), moves)
    for shard_id, move in back.items():
        _refuse_expired(shard_id, request.targets[shard_id], rows.get(shard_id, 0), amendment)
        moves[shard_id] = replace(move, rows_removed=rows.get(shard_id, 0))
    _refuse_before_children(snapshot, positions, request.listing, moves)
    return moves


def _places(moves: Mapping[str, Move]) -> dict[str, PassedRecord]:
    """Return the last record that each shard has passed after its move, for shards that have passed one."""
    return {
        shard_id: place
        for shard_id, move in moves.items()
        if (place := passed(move.after.position)) is not None
    }


def _refuse_late(table: PositionedTable, batch_id: int) -> None:
    """Refuse targets that are too old: rows that are removed later might no longer be in the stream."""
    age = timedelta(seconds=table.clock.time() - time_of_id(batch_id))
    if age > TIME_TO_READ / 4:
        raise AttemptExpired(
            table.uri,
            f"the records that the stream still has were read {age} ago, and may have expired since; nothing "
            "was changed, try again with fewer shards at a time",
        )


def _refuse_changed_direction(planned: Mapping[str, Move], moves: Mapping[str, Move]) -> None:
    """Refuse moves whose direction a concurrent run changed: a request to skip must not remove rows."""
    for shard_id, move in moves.items():
        if move.direction not in {planned[shard_id].direction, Direction.STAYS}:
            raise PositionConflict(
                shard_id,
                f"another run moved it to {move.before.position}, so the direction would be {move.direction} "
                f"instead of {planned[shard_id].direction}; nothing was changed. Check its position first",
            )


def _refuse_expired(shard_id: str, target: Target, rows: int, amendment: Amendment | None) -> None:
    """Refuse to go back if removed rows could not be read again, or expired rows would be added again."""
    if rows and target.first is None:
        raise SeekRefused(
            shard_id,
            f"{rows} rows after {target.position} would be removed, but the stream has no record from there "
            "on, so they could not be added again; nothing was changed. Choose another position",
        )
    floor = None if amendment is None else amendment.floor
    if target.first is not None and floor is not None and target.first.arrival.date() < floor:
        raise SeekRefused(
            shard_id,
            f"the first record from {target.position} on is {target.first}, but the table keeps rows from "
            f"{floor} on: rows that its retention deleted would be added again; nothing was changed. Choose "
            f"AT_TIMESTAMP:{floor}T00:00:00Z or later",
        )


def _refuse_read_rows(
    snapshot: TableSnapshot,
    stream: str,
    listing: StreamListing,
    shard_ids: Collection[str],
    moves: Mapping[str, Move],
) -> None:
    """Refuse to go back to a time after which the table has rows, although a read found no record.

    A move to a time removes no rows, and a response that leaves out records looks the same.
    """
    if not shard_ids:
        return
    rows = snapshot.newest_rows().get(stream, {})
    starts = {shard.shard_id: at(shard.starting_sequence_number) for shard in listing.shards}
    for shard_id in sorted(shard_ids & rows.keys()):
        row, position = rows[shard_id], moves[shard_id].after.position
        has_expired = row.last_arrival <= listing.summary.oldest_kept
        if not has_expired and row.is_read_again(position, starts.get(shard_id)):
            raise SeekRefused(
                shard_id,
                f"the stream returned no record from {position} on, but the table has {row.sequence_number}, "
                "which the next run might add again; nothing was changed. Try again, or choose another "
                "position",
            )


def _refuse_before_children(
    snapshot: TableSnapshot, positions: StreamPositions, listing: StreamListing, moves: Mapping[str, Move]
) -> None:
    """Refuse to reopen a shard whose descendants were already read: parents are read first."""
    opened = {shard_id for shard_id, move in going_back(moves).items() if move.before.finished}
    descendants: set[str] = set()
    while more := {
        shard_id
        for shard_id, shard in positions.shards.items()
        if shard_id not in descendants and not (opened | descendants).isdisjoint(shard.parents)
    }:
        descendants |= more
    starts = {
        shard.shard_id: at(shard.starting_sequence_number)
        for shard in listing.shards
        if shard.shard_id in descendants
    }
    rows = snapshot.count(RowsAfter(positions.identity.name, starts)) if starts else {}
    blocking = []
    for shard_id in sorted(descendants):
        move = moves.get(shard_id)
        left = rows.get(shard_id, 0) - (0 if move is None else move.rows_removed)
        finished = (positions.shards[shard_id] if move is None else move.after).finished
        if finished or left or shard_id not in starts:
            blocking.append(shard_id)
    if blocking:
        raise SeekRefused(
            ", ".join(sorted(opened)),
            f"would be read again, but its descendants {', '.join(blocking)} were already read, and parents "
            "are read first; nothing was changed. Move them to their start in the same command: name them "
            "too, or select all shards",
        )


def facts_of_moves(result: SeekResult) -> list[dict[str, Any]]:
    """Return the facts about each shard that the command prints."""
    return [
        {
            "shard": shard_id,
            "direction": str(move.direction),
            "from": str(move.before.position),
            "to": str(move.after.position),
            "rows_removed": move.rows_removed,
            "gap": None if move.gap is None else str(move.gap),
            "applied": result.applied and move.direction is not Direction.STAYS,
        }
        for shard_id, move in result.moves.items()
    ]


def _moved(moves: Mapping[str, Move], *, by: str, now: datetime) -> dict[str, ShardPosition]:
    """Return the positions of the shards that a seek moves, with the record of it."""
    return {
        shard_id: msgspec.structs.replace(
            move.after,
            seeks=(
                *move.before.seeks,
                Seek(
                    at=now,
                    by=by,
                    before=move.before.position,
                    after=move.after.position,
                    rows_removed=move.rows_removed,
                ),
            ),
        )
        for shard_id, move in moving(moves).items()
    }


def _commit(
    snapshot: TableSnapshot, following: StreamPositions, moves: Mapping[str, Move], clock: Clock
) -> None:
    """Try once to commit moves.

    Args:
        snapshot: The version of the table that the moves were planned with.
    """
    identity, back = following.identity, going_back(moves)
    amendment = _amendment(snapshot, following, tuple(back), clock) if back else None
    if places := _places({shard_id: move for shard_id, move in back.items() if move.rows_removed}):
        predicate = RowsAfter(identity.name, places)
        snapshot.remove(predicate, identity=identity, positions=following, amendment=amendment)
    else:  # deleting no row would commit nothing
        snapshot.commit([], identity=identity, positions=following, amendment=amendment)


def _amendment(
    snapshot: TableSnapshot, following: StreamPositions, shard_ids: tuple[str, ...], clock: Clock
) -> Amendment:
    """Return the amendment of shards that go back.

    It is needed even if no row is removed: a replay that fills in rows at the same time must restart.
    """
    before = snapshot.amendment(following.identity)
    return next_amendment(
        before,
        batch_id=following.batch_id,
        at=utc_now(clock),
        by=following.by,
        rewound=shard_ids,
        cleared={} if before is None else _still_cleared(before, following),
        clock=clock,
    )


def _still_cleared(before: Amendment, following: StreamPositions) -> dict[str, tuple[ClearedGap, ...]]:
    """Return the filled gaps that the positions still have: rows of the other gaps are removed."""
    still: dict[str, tuple[ClearedGap, ...]] = {}
    for shard_id, cleared in before.cleared.items():
        shard = following.shards.get(shard_id)
        if shard is None:  # in the archive, so it was not moved
            still[shard_id] = cleared
        elif kept := tuple(gap for gap in cleared if gap in map(ClearedGap.of, shard.gaps)):
            still[shard_id] = kept
    return still
