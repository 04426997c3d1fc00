"""Positions by hand: a shard skips forward, with the gap recorded, or goes back, with its rows taken out.

What a move is, is planned from the positions, from what the stream shows and from the rows there are, and
planned anew for each try of the commit. Rows, positions and the record of who did it are one commit, which
Delta refuses if a run, another move, or whoever changes old rows, was first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import AttemptExpired, InvalidInput, PositionConflict, SeekRefused, StreamRecreated
from kinesis_assets.ingest.stale_list import check_for_seek
from kinesis_assets.kinesis.relist import confirmed, relisted
from kinesis_assets.kinesis.start_positions import Starts, try_sequence_numbers
from kinesis_assets.seek.commit import commit_moves, following_positions
from kinesis_assets.seek.plan import Direction, Move, going_back, moving, plan_moves
from kinesis_assets.seek.probe import TIME_TO_READ, look_at
from kinesis_assets.table.commit import landed_since, until_told
from kinesis_assets.table.commit_ids import draw_token, drawn_at
from kinesis_assets.table.rewrites import refuse_rewritten
from kinesis_assets.table.row_predicates import at, passed, rows_after

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.seek.probe import Sight
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable, TableSnapshot


@dataclass(frozen=True, slots=True)
class SeekResult:
    """What a seek did, or would do.

    Attributes:
        moves: By shard id, one for each chosen shard.
        version: The table's version that holds it; None if nothing was committed, or it has since left the
            log's newest hundred.
        applied: It is in the table.
    """

    moves: Mapping[str, Move]
    version: int | None = None
    applied: bool = False


@dataclass(frozen=True, slots=True)
class _Request:
    """What was asked for, and all that the stream says to it."""

    listing: StreamListing
    sights: Mapping[str, Sight]
    chosen: Sequence[str]
    all_shards: bool


def seek(
    client: StreamClient,
    table: PositionedTable,
    *,
    to: Position,
    shard_ids: Collection[str] | None,
    by: str,
    apply: bool,
) -> SeekResult:
    """Set the positions of some shards by hand, all in one commit, or none.

    Args:
        client: The stream.
        table: Its table.
        to: Where to. LATEST becomes the time it is, TRIM_HORIZON the oldest record that does not expire
            before a run can read it.
        shard_ids: Which; None for all that can be moved that way.
        by: Who asks, kept with the positions.
        apply: Do it; else only tell what would be done.

    Raises:
        InvalidInput: There is no such shard or position, or no run was there before.
        SeekRefused: A shard cannot be set there.
        AttemptExpired: The look at the stream is too long ago; nothing was changed.
        PositionConflict: A run moved a shard meanwhile, so that it would go the other way.
        StreamError: The stream cannot be reached or was recreated, or its list of shards is stale.
        TableError: The table cannot be used, belongs to another stream, or was restored or
            overwritten; or (`CommitUnknown`) what became of the commit is not known.
    """
    listing = relisted(client, lambda listing: listing)
    identity = listing.summary.identity
    snapshot = table.snapshot()
    expected = snapshot.positions(identity)
    if expected is None:
        raise InvalidInput(
            f"stream {client.stream}: no run has been there yet, so there is no position to set; "
            "`start` says where the first run begins"
        )
    refuse_rewritten(table, snapshot, expected)
    recorded = snapshot.with_archive(expected)
    check_for_seek(listing, recorded)
    batch_id = draw_token()
    hours = sorted((listing.summary.retention_hours, confirmed(client, listing.summary).retention_hours))
    # What may expire soon is judged by the shorter one; the longer one is what both responses confirm.
    request = _request(client, listing.with_retention(hours[0]), recorded, to, shard_ids)
    listing = listing.with_retention(hours[1])
    if client.describe().identity != identity:
        raise StreamRecreated(client.stream, "deleted and created again meanwhile; nothing was changed")
    planned = _plan(snapshot, recorded.with_listing(listing), request)
    if not apply or not moving(planned):
        return SeekResult(planned)
    tried: dict[int, SeekResult] = {}

    def look(*, and_try: bool) -> SeekResult | None:
        snapshot = table.snapshot()
        current = snapshot.positions(identity)
        if current is None:
            raise InvalidInput(f"the positions of {client.stream} are gone; was the table replaced?")
        token = landed_since(table, current, expected, batch_id)
        if token is not None:
            return replace(tried[token], version=snapshot.version_of(token), applied=True)
        if not and_try:
            return None
        _refuse_late(table, batch_id)
        refuse_rewritten(table, snapshot, current)
        moves = _plan(snapshot, snapshot.with_archive(current).with_listing(listing), request)
        listed = [shard.shard_id for shard in listing.shards]
        current = snapshot.recall(current, listed).with_listing(listing)
        _refuse_turned(planned, moves)
        if not moving(moves):
            return SeekResult(moves)
        following = following_positions(
            current, moves, batch_id, by=by, now=listing.summary.service_time, examined=snapshot.version
        )
        tried[following.token] = SeekResult(moves)
        commit_moves(snapshot, following, moves)
        return None

    return until_told(table, look)


def _request(
    client: StreamClient,
    listing: StreamListing,
    positions: StreamPositions,
    to: Position,
    shard_ids: Collection[str] | None,
) -> _Request:
    """Everything that is asked of the stream; nothing is written."""
    known = positions.with_listing(listing).shards
    listed = {shard.shard_id: shard for shard in listing.shards}
    chosen = list(known) if shard_ids is None else list(dict.fromkeys(shard_ids))
    if not chosen:
        raise InvalidInput("name the shards to set, or all of them")
    if unknown := [shard_id for shard_id in chosen if shard_id not in known]:
        names = ", ".join(repr(shard_id[:200]) for shard_id in unknown)
        raise InvalidInput(f"stream {client.stream} has no shard {names}")
    if to.sequence_number is not None and len(chosen) > 1:
        raise InvalidInput(f"{to} means one shard, but is for {len(chosen)}; set each by itself")
    target = Starts(to).frozen(replace(listing, shards=listing.shards[:1]))[listing.shards[0].shard_id]
    if shard_ids is not None:
        for shard_id in chosen:
            if shard_id not in listed:
                raise SeekRefused(
                    shard_id, "the stream no longer lists it: there is nothing to read from there"
                )
    readable = [shard_id for shard_id in chosen if shard_id in listed]
    try_sequence_numbers(client, dict.fromkeys(readable, target))
    sights = {shard_id: look_at(client, listed[shard_id], listing.summary, target) for shard_id in readable}
    return _Request(listing, sights, chosen, all_shards=shard_ids is None)


# The table's side


def _plan(snapshot: TableSnapshot, positions: StreamPositions, request: _Request) -> dict[str, Move]:
    """The moves with the rows they take out, as one version of the table has them."""
    moves = plan_moves(
        positions,
        request.sights,
        request.chosen,
        listed_open={shard.shard_id for shard in request.listing.shards if not shard.closed},
        now=request.listing.summary.service_time,
        all_shards=request.all_shards,
    )
    back = going_back(moves)
    places = {
        shard_id: place
        for shard_id, move in back.items()
        if (place := passed(move.after.position)) is not None
    }
    stream = positions.identity.name
    rows = snapshot.count(rows_after(stream, places)) if places else {}
    past = snapshot.past(positions.identity)
    for shard_id, move in back.items():
        _refuse_what_is_gone(shard_id, request.sights[shard_id], rows.get(shard_id, 0), past)
        moves[shard_id] = replace(move, rows_removed=rows.get(shard_id, 0))
    _refuse_before_children(snapshot, positions, request.listing, moves)
    return moves


def _refuse_late(table: PositionedTable, batch_id: int) -> None:
    """What the stream was seen to have counts for a while only; rows taken out later might not come back."""
    age = timedelta(seconds=time.time() - drawn_at(batch_id))
    if age > TIME_TO_READ / 4:
        raise AttemptExpired(
            table.uri, f"what the stream still has was looked at {age} ago; nothing was changed, try again"
        )


def _refuse_turned(planned: Mapping[str, Move], moves: Mapping[str, Move]) -> None:
    """Who asked to skip must not find rows taken out, since a run was faster; nor the other way round."""
    for shard_id, move in moves.items():
        if move.direction not in {planned[shard_id].direction, Direction.STAYS}:
            raise PositionConflict(
                shard_id,
                f"another run moved it to {move.before.position} meanwhile, so that it would go "
                f"{move.direction} now, not {planned[shard_id].direction}; nothing was changed, look again",
            )


def _refuse_what_is_gone(shard_id: str, sight: Sight, rows: int, past: Past | None) -> None:
    if rows and sight.first is None:
        raise SeekRefused(
            shard_id,
            f"{rows} rows after {sight.target} would be taken out, and the stream has no record from there "
            "on: they could not come back",
        )
    floor: date | None = None if past is None else past.floor
    if sight.first is not None and floor is not None and sight.first.arrival.date() < floor:
        raise SeekRefused(
            shard_id,
            f"{sight.target} begins with {sight.first}, and the table keeps rows from {floor} on: what its "
            f"retention took out would come back. Go to AT_TIMESTAMP:{floor}T00:00:00Z or later",
        )


def _refuse_before_children(
    snapshot: TableSnapshot, positions: StreamPositions, listing: StreamListing, moves: Mapping[str, Move]
) -> None:
    """Parents first: no row of a child may be there before its parents are read to the end."""
    opened = {shard_id for shard_id, move in going_back(moves).items() if move.before.finished}
    descendants: set[str] = set()
    while more := {
        shard_id
        for shard_id, shard in positions.shards.items()
        if shard_id not in descendants and not (opened | descendants).isdisjoint(shard.parents)
    }:
        descendants |= more
    begins = {
        shard.shard_id: at(shard.starting_sequence_number)
        for shard in listing.shards
        if shard.shard_id in descendants
    }
    rows = snapshot.count(rows_after(positions.identity.name, begins)) if begins else {}
    blocking = []
    for shard_id in sorted(descendants):
        move = moves.get(shard_id)
        left = rows.get(shard_id, 0) - (0 if move is None else move.rows_removed)
        finished = (positions.shards[shard_id] if move is None else move.after).finished
        if finished or left or shard_id not in begins:
            blocking.append(shard_id)
    if blocking:
        raise SeekRefused(
            ", ".join(sorted(opened)),
            f"would be read again, but its descendants {', '.join(blocking)} were read already, and parents "
            "come first. Set them to their beginning in the same command: name them too, or all shards",
        )


def facts_of_moves(result: SeekResult) -> list[dict[str, Any]]:
    """What is told of each shard, by the names that the command prints."""
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
