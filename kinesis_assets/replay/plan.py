"""Plan a replay: the ranges to read again, and the version of the table to compare them with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import (
    CallFailed,
    DataLost,
    InvalidInput,
    ShardListIncomplete,
)
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.reading import ShardRange
from kinesis_assets.kinesis.relist import relisted
from kinesis_assets.kinesis.shards import covers_all_hash_keys
from kinesis_assets.replay.outcome import ReplayOutcome, ReplayState
from kinesis_assets.replay.unlisted_shards import expired_error, is_left_out, left_out_error, refuse_left_out
from kinesis_assets.replay.window import OLDEST
from kinesis_assets.table.commit_ids import draw_token

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.replay.window import Span
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.file_stats import HeldFile
    from kinesis_assets.table.positions import ShardPosition
    from kinesis_assets.table.table import PositionedTable

_KEPT_LONGER = timedelta(days=1)
"""A stream may give records a little longer than its retention says; none that are older than this are
looked for in the table."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What one attempt of a replay reads, and against which version of the table.

    Attributes:
        batch_id: Names this attempt; every row it fills in carries it.
        listing: The stream and its shards.
        version: That version.
        past: The table's past at that version; None if nothing was ever done behind the positions.
        not_before: Records that arrived before are left out.
        held: The table's data files at that version that may hold others of the ranges.
        ranges: By shard id, what is to be read.
        gaps: By shard id, the recorded gaps that no replay has filled.
        up_to_positions: The ranges end at the committed positions.
        told: The asked shards of which nothing is read.
        expired: By shard id, why the beginning of its range cannot be read again.
    """

    batch_id: int
    listing: StreamListing
    version: int
    past: Past | None
    not_before: datetime
    held: tuple[HeldFile, ...]
    ranges: Mapping[str, ShardRange]
    gaps: Mapping[str, Sequence[Gap]]
    up_to_positions: bool
    told: Mapping[str, ReplayOutcome]
    expired: Mapping[str, DataLost]


def plan_replay(
    client: StreamClient, table: PositionedTable, span: Span, shard_ids: Sequence[str] = ()
) -> ReplayPlan:
    """What one attempt reads; arguments and errors as of `replay`."""
    try:
        return relisted(client, lambda listing: _plan(client, table, span, shard_ids, listing))
    except ShardListIncomplete as error:
        # The shards that are listed need not wait for those that each list leaves out.
        return _plan(client, table, span, shard_ids, client.listing(whole=False), incomplete=error)


def _plan(
    client: StreamClient,
    table: PositionedTable,
    span: Span,
    shard_ids: Sequence[str],
    listing: StreamListing,
    *,
    incomplete: ShardListIncomplete | None = None,
) -> ReplayPlan:
    """See `plan_replay`; with the error of the lists before, shards that this one leaves out fail alone."""
    stream, now = client.stream, listing.summary.service_time
    snapshot = table.snapshot()
    positions = snapshot.positions(listing.summary.identity)
    if positions is None:
        raise InvalidInput(f"table {table.uri} has nothing of stream {stream}; the first run begins it")
    # With the retention of now: after it was lowered, shards go earlier.
    positions = snapshot.with_archive(positions).with_listing(listing)
    listed, whole = {shard.shard_id: shard for shard in listing.shards}, covers_all_hash_keys(listing.shards)
    asked = list(dict.fromkeys(shard_ids or [*positions.shards, *listed]))
    unknown = [shard_id for shard_id in asked if shard_id not in listed and shard_id not in positions.shards]
    _refuse_unknown(stream, unknown, incomplete)
    if span.names_a_record and len(asked) != 1:
        raise InvalidInput(f"stream {stream}: a sequence number means one shard; name that shard alone")
    if span.start.timestamp is not None and span.start.timestamp > now:
        raise InvalidInput(f"stream {stream}: {span.start} is in the future; the stream's clock says {now}")
    _try_sequence_number(client, [shard_id for shard_id in asked if shard_id in listed], span.start)
    past = snapshot.past(listing.summary.identity)
    oldest = now - timedelta(hours=listing.summary.retention_hours)
    floor = _floor(past)
    start = _clipped_start(span, floor, oldest)
    not_before = max(start.timestamp or oldest - _KEPT_LONGER, floor or _LONG_AGO)
    ranges: dict[str, ShardRange] = {}
    told: dict[str, ReplayOutcome] = {}
    left_out: list[str] = []
    for shard_id in asked:
        range_ = _range(shard_id, start, span, positions.shards.get(shard_id))
        if isinstance(range_, ReplayOutcome):
            told[shard_id] = range_
        elif shard_id in listed:
            ranges[shard_id] = msgspec.structs.replace(
                range_,
                hash_range=listing.judged_by(positions.shards[shard_id].hash_range),
                closed=listed[shard_id].closed,
            )
        elif is_left_out(positions.shards[shard_id], listing.summary, whole=whole):
            left_out.append(shard_id)
            told[shard_id] = _failed(shard_id, left_out_error(shard_id, listing.summary))
        else:
            told[shard_id] = _gone(shard_id, positions.shards[shard_id], start)
    if incomplete is None:
        refuse_left_out(listing.summary, left_out)
    return ReplayPlan(
        batch_id=draw_token(),
        listing=listing,
        version=snapshot.version,
        past=past,
        not_before=not_before,
        held=tuple(
            file
            for file in (snapshot.data_files() if ranges else ())
            if file.may_hold_arrivals(not_before, span.until)
        ),
        ranges=ranges,
        gaps={
            shard_id: [
                gap for gap in positions.shards[shard_id].gaps if not _has_cleared(past, shard_id, gap)
            ]
            for shard_id in ranges
        },
        up_to_positions=span.last is None and span.until is None,
        told=told,
        expired=_expired(ranges, listing, oldest),
    )


def _refuse_unknown(stream: str, unknown: Sequence[str], incomplete: ShardListIncomplete | None) -> None:
    if unknown:
        names = ", ".join(repr(shard_id[:200]) for shard_id in unknown)
        raise incomplete or InvalidInput(f"stream {stream} has no shard {names}")


def _has_cleared(past: Past | None, shard_id: str, gap: Gap) -> bool:
    return past is not None and past.has_cleared(shard_id, gap)


def _floor(past: Past | None) -> datetime | None:
    if past is None or past.floor is None:
        return None
    return datetime.combine(past.floor, datetime.min.time(), UTC)


def _clipped_start(span: Span, floor: datetime | None, oldest: datetime) -> Position:
    """Where to begin, without what the table's own retention has taken.

    A sequence number tells no time, and the oldest record there is may be younger: tasks look again.
    """
    time_ = span.start.timestamp
    horizon = span.start.kind is PositionKind.TRIM_HORIZON
    if floor is not None and ((time_ is not None and time_ < floor) or (horizon and oldest < floor)):
        return Position.at_timestamp(floor)
    return span.start


def _range(
    shard_id: str, start: Position, span: Span, shard: ShardPosition | None
) -> ShardRange | ReplayOutcome:
    """What is read of a shard: the span up to its position; or what became of it if that is nothing."""
    if shard is None or shard.position.kind in {PositionKind.TRIM_HORIZON, PositionKind.LATEST}:
        return ReplayOutcome(shard_id, ReplayState.UNREAD)
    position = shard.position
    until = min((each for each in (span.until, position.timestamp) if each is not None), default=None)
    up_to = None if position.sequence_number is None else position
    if span.last is not None and (up_to is None or int(span.last) < int(up_to.sequence_number or 0)):
        up_to = Position.after(span.last)
    if _is_empty(start, until, up_to):
        return ReplayOutcome(shard_id, ReplayState.WHOLE)
    return ShardRange(
        shard_id=shard_id, start=start, bounds=Bounds(until=until), hash_range=None, up_to=up_to
    )


def _is_empty(start: Position, until: datetime | None, up_to: Position | None) -> bool:
    if start.timestamp is not None and until is not None and until <= start.timestamp:
        return True
    if start.sequence_number is None or up_to is None:
        return False
    first, end = int(start.sequence_number), int(up_to.sequence_number or 0)
    return first > end or (first == end and up_to.kind is PositionKind.AT_SEQUENCE_NUMBER)


def _gone(shard_id: str, shard: ShardPosition, start: Position) -> ReplayOutcome:
    error = expired_error(shard_id, shard, start)
    return ReplayOutcome(shard_id, ReplayState.GONE) if error is None else _failed(shard_id, error)


def _failed(shard_id: str, error: ShardError) -> ReplayOutcome:
    return ReplayOutcome(shard_id, ReplayState.FAILED, error=error)


def _try_sequence_number(client: StreamClient, shard_ids: Sequence[str], start: Position) -> None:
    """See that the service takes it for a number of the shard."""
    if start.sequence_number is None:
        return
    for shard_id in shard_ids:
        try:
            client.shard_iterator(shard_id, start)
        except CallFailed as error:
            if error.code != "InvalidArgumentException":
                raise
            raise InvalidInput(f"{shard_id}: {start} is refused: {error}") from error


def _expired(
    ranges: Mapping[str, ShardRange], listing: StreamListing, oldest: datetime
) -> dict[str, DataLost]:
    """The shards whose range begins at a time before the oldest that the stream keeps."""
    summary = listing.summary
    return {
        shard_id: DataLost(
            shard_id,
            f"asked for {range_.start}, but the stream keeps {summary.retention_hours} h: what arrived "
            f"before {oldest:%Y-%m-%dT%H:%M:%SZ} cannot be read again. The rest is filled in; "
            f"to ask for that alone, begin at {OLDEST}",
        )
        for shard_id, range_ in ranges.items()
        if range_.start.timestamp is not None
        and max(range_.start.timestamp, summary.identity.created) < oldest
    }
