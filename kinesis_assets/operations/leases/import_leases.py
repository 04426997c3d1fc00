"""Import: a new table continues where another consumer of the stream has stopped.

The first commit of the table has the positions of all shards, or there is none. A shard is continued exactly:
inside an aggregate too, and a shard that the consumer has read to its end is not read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from kinesis_assets.errors import CommitFailed, InvalidInput, LeasesRefused
from kinesis_assets.ingest.plan import stored_positions
from kinesis_assets.ingest.shard_lists import confirmed_listing, give_up, refuse_readable
from kinesis_assets.kinesis.listing_retries import retry_listing
from kinesis_assets.kinesis.position import LONGEST_NUMBER, Position, PositionKind, passed
from kinesis_assets.kinesis.start_positions import SHARD_END, StartPositions, checked_starts
from kinesis_assets.kinesis.stream import ALL_HASH_KEYS, unfinished_parents
from kinesis_assets.operations.leases.starts import RecordReader, starts_of
from kinesis_assets.table.commits.commit import commit_first, refuse_rows_without_positions
from kinesis_assets.table.ownership import refuse_other_stream
from kinesis_assets.table.positions.positions import ShardPosition, initial_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import OnDataLoss
    from kinesis_assets.kinesis.position import PassedRecord
    from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing
    from kinesis_assets.operations.leases.starts import ConsumerShard, Start
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot


class ImportEffect(StrEnum):
    """What the position of another consumer means for a shard."""

    STARTS = "starts"
    """The first run starts at the position."""
    WAITS = "waits"
    """The same, after the shard's parents are read to their end."""
    FINISHED = "finished"
    """The shard is not read: the consumer has read it to its end."""
    GIVEN_UP = "given up"
    """The records that the consumer has not read have expired. The gap is recorded."""
    SAME = "same"
    """The table has this position already."""
    REPEATS = "reads again"
    """The table has passed the position: from there, records would be read again."""
    SKIPS = "skips"
    """The table has not reached the position: the records in between would be skipped."""
    DIFFERS = "differs"
    """The table has another position, and the two cannot be compared."""


@dataclass(frozen=True, slots=True)
class ImportedShard:
    """The import of one shard.

    Attributes:
        stored: What the consumer stores; None if it stores nothing about the shard.
        reason: Why the shard starts there, if the consumer does not store that.
    """

    stored: str | None
    shard: ShardPosition
    effect: ImportEffect
    reason: str | None = None


def take_over(
    client: StreamClient,
    table: PositionedTable,
    consumer: Mapping[str, ConsumerShard],
    *,
    default: Position | None,
    on_data_loss: OnDataLoss,
    by: str,
    apply: bool,
) -> dict[str, ImportedShard]:
    """Start a table at the positions of another consumer, or only plan that. Returns its shards by id.

    Args:
        table: The table; it is created if it does not exist.
        consumer: Where the consumer is, by shard id. It must no longer read.
        default: The start of shards for which it has no position; None to refuse them.
        on_data_loss: Whether to give up a shard that has expired unread.

    Raises:
        InvalidInput: There is no position, one is invalid, or the table has positions already.
        LeasesRefused: A position cannot be used.
        CommitFailed: The table changed in the meantime; nothing was committed.
        ShardError: A record could not be read, so it is unknown whether it is complete.
        StreamError: The stream cannot be reached, was recreated, or its list of shards is incomplete.
        TableError: The table cannot be used, has rows without positions, or belongs to another stream.
    """
    if not consumer:
        raise InvalidInput(
            f"stream {client.stream}: the consumer stores no position of it; nothing was changed. Correct "
            "the place of its positions; or, if it has read nothing, set the start of the stream"
        )
    listing, starts = retry_listing(
        client, lambda listing: _believed(client, listing, consumer, default, on_data_loss)
    )
    fixed = {key: start.position for key, start in starts.items() if start.position is not None}
    ended = frozenset(starts.keys() - fixed.keys())
    frozen = checked_starts(client, StartPositions(shards=fixed, ended=ended), listing)
    shards, expired = _positions(client, listing, frozen)
    listed = {shard.shard_id for shard in listing.shards}
    gone = {key: stored for key, stored in consumer.items() if key not in listed and not stored.ended}
    shards = {key: _given_up(listing, stored) for key, stored in gone.items()} | shards
    # Checked after reading, so that every record was read from the stream of the list.
    identity = listing.summary.identity
    client.describe().require(identity, "during the import; nothing was changed. Run again")
    snapshot, current = stored_positions(table, listing, "fail", ())
    if snapshot is not None and current is None:
        _refuse_used(table, identity, snapshot, None)
    if current is not None and snapshot is not None:
        current = snapshot.with_all_archived(current)
    elif expired and on_data_loss == "fail":
        raise LeasesRefused(client.stream, {key: f"{why}. {_CONTINUE}" for key, why in expired.items()})
    reasons = {key: start.reason for key, start in starts.items()}
    reasons |= {key: f"{why}: the first run records a gap" for key, why in expired.items()}
    planned = {
        shard_id: ImportedShard(
            consumer[shard_id].stored if shard_id in consumer else None,
            shard,
            _effect(shard_id, shards, current, gone),
            reasons.get(shard_id),
        )
        for shard_id, shard in shards.items()
    }
    if not apply:
        return planned
    if current is not None:
        raise InvalidInput(
            f"table {table.uri} has positions of {client.stream} already; nothing was changed. Import into a "
            "new table; or set the position of each shard with `kinesis-assets seek`, which also removes the "
            "rows that would be read again"
        )
    table.create_if_missing(identity)
    commit_first(table, listing, shards, partial(_refuse_used, table, identity), by=by)
    return planned


_CONTINUE = "To record this gap and go on, set on_data_loss: continue"


def _believed(
    client: StreamClient,
    listing: StreamListing,
    consumer: Mapping[str, ConsumerShard],
    default: Position | None,
    on_data_loss: OnDataLoss,
) -> tuple[StreamListing, dict[str, Start]]:
    """Return a list that has every shard of the consumer which can be read, and the starts of its shards."""
    listing, missing = confirmed_listing(client, listing, consumer)
    refuse_readable(client, missing)
    starts, refused = starts_of(listing, consumer, default)
    for shard_id in missing:
        if not consumer[shard_id].ended and on_data_loss == "fail":
            refused[shard_id] = (
                f"{consumer[shard_id].source} is at {consumer[shard_id].stored}, but the stream does not "
                f"list the shard. If it has expired, its later records are lost. {_CONTINUE}"
            )
    if refused:
        raise LeasesRefused(client.stream, refused)
    return listing, starts


def _positions(
    client: StreamClient, listing: StreamListing, frozen: Mapping[str, Position]
) -> tuple[dict[str, ShardPosition], dict[str, str]]:
    """Return the positions of the listed shards, and why the first run may miss records of some.

    A sub-sequence number is omitted if it is that of the last sub-record, or of a record that is none.
    """
    reader = RecordReader(client)
    arrivals, unreadable = {}, []
    positions = dict(frozen)
    for shard in listing.shards:
        position = frozen[shard.shard_id]
        number, sub = position.sequence_number, position.sub_sequence_number
        if number is None or shard.ends_at(position):
            continue
        if (record := reader.at(shard, number)) is None:
            unreadable.append(shard.shard_id)
            continue  # without a proof that the record is complete, its rest is read
        arrivals[shard.shard_id] = record.arrival
        if sub is not None and sub >= record.last_sub:
            positions[shard.shard_id] = Position.after(number)
    shards = initial_positions(listing, positions, wanted_from=listing.summary.service_time)
    shards = {
        shard_id: structs.replace(shard, wanted_from=arrivals.get(shard_id, shard.wanted_from))
        for shard_id, shard in shards.items()
    }
    now = listing.summary.service_time
    return shards, {
        shard_id: f"the record at {shard.position} has expired, so later ones may have too"
        for shard_id, shard in shards.items()
        if shard_id in unreadable
        and (
            shard.position.sub_sequence_number is not None or not shard.safe_until or shard.safe_until <= now
        )
    }


_BEFORE_ALL, _AFTER_ALL = (-1, -1), (10**LONGEST_NUMBER, math.inf)
"""Values that sort before and after those of all records."""


def _given_up(listing: StreamListing, stored: ConsumerShard) -> ShardPosition:
    """Return the position of a shard that has expired before the consumer has read it to its end."""
    unread = ShardPosition(
        parents=(),
        hash_range=stored.hash_range or ALL_HASH_KEYS,
        position=stored.position or Position(PositionKind.TRIM_HORIZON),
        retention_hours=listing.summary.retention_hours,
    )
    return give_up(unread, listing.summary.service_time)


def _effect(
    shard_id: str,
    shards: Mapping[str, ShardPosition],
    current: StreamPositions | None,
    gone: Mapping[str, ConsumerShard],
) -> ImportEffect:
    shard = shards[shard_id]
    if current is not None:
        return _compared(shard, current.shards.get(shard_id))
    if shard_id in gone:
        return ImportEffect.GIVEN_UP
    if shard.finished:
        return ImportEffect.FINISHED
    finished = {key for key, each in shards.items() if each.finished}
    waits = unfinished_parents(shard.parents, known=shards, finished=finished)
    return ImportEffect.WAITS if waits else ImportEffect.STARTS


def _compared(shard: ShardPosition, current: ShardPosition | None) -> ImportEffect:
    """Return what it would mean to continue a shard at a position instead of the table's own."""
    new, old = _place(shard), None if current is None else _place(current)
    if current is not None and (shard.position, shard.finished) == (current.position, current.finished):
        return ImportEffect.SAME
    if new is None or old is None:
        return ImportEffect.DIFFERS
    if new == old:
        return ImportEffect.SAME
    return ImportEffect.SKIPS if new > old else ImportEffect.REPEATS


def _place(shard: ShardPosition) -> PassedRecord | None:
    """Return a value that is greater for later places of a shard; None if they cannot be compared."""
    if shard.finished:
        return _AFTER_ALL
    return _BEFORE_ALL if shard.position.kind is PositionKind.TRIM_HORIZON else passed(shard.position)


def _refuse_used(
    table: PositionedTable,
    identity: StreamIdentity,
    snapshot: TableSnapshot,
    positions: StreamPositions | None,
) -> None:
    """Refuse a table that has got positions since the import was planned, or has rows or another stream."""
    if positions is not None:
        raise CommitFailed(
            table.uri,
            "a run or another import has committed positions in the meantime; nothing was committed. "
            "Import into a new table, and keep the sensor off until then",
        )
    refuse_other_stream(table.uri, snapshot.streams_in_log(), identity)
    refuse_rows_without_positions(table, snapshot, identity)


def facts_of_import(shards: Mapping[str, ImportedShard], *, applied: bool) -> list[dict[str, Any]]:
    """Return the rows that the command prints, one for each shard."""
    return [
        {
            "shard": shard_id,
            "stored": each.stored,
            "position": SHARD_END if each.shard.finished else str(each.shard.position),
            "effect": str(each.effect),
            "reason": each.reason,
            "applied": applied,
        }
        for shard_id, each in shards.items()
    ]
