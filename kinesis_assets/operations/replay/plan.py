"""Plan a replay: what part of a stream it reads again, and the version of the table to compare it with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import DataLost, InvalidInput, ShardListIncomplete, ShardVanished
from kinesis_assets.kinesis.listing_retries import confirm_mode, retry_listing
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.start_positions import try_sequence_numbers
from kinesis_assets.kinesis.stream import covers_all_hash_keys
from kinesis_assets.operations.replay.outcome import ReplayOutcome, ReplayState
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.amendments import unfilled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamListing, StreamSummary
    from kinesis_assets.table.data_file import FileStats
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import ShardPosition
    from kinesis_assets.table.raw_table import PositionedTable


_RETENTION_MARGIN = timedelta(days=1)
"""The service may return records slightly older than the retention. Records older than the retention plus
this margin are skipped."""


class ReplayWindow(msgspec.Struct, frozen=True):
    """The window of a replay. It always ends at the committed position at the latest.

    Attributes:
        start: AT_SEQUENCE_NUMBER or AT_TIMESTAMP, both inclusive, or TRIM_HORIZON, the oldest record.
        last: Sequence number of the last record, inclusive; None for no such limit.
        until: Arrival time, exclusive; None for no such limit.
        starts: By shard id, the starts of shards that start elsewhere.
        max_seconds: How long each shard is read after its first record, see `Bounds`; None for no such limit.

    Raises:
        InvalidInput: The window is empty.
    """

    start: Position
    last: str | None = None
    until: datetime | None = None
    starts: Mapping[str, Position] = {}
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        number, time = self.start.sequence_number, self.start.timestamp
        backward = number is not None and self.last is not None and int(self.last) < int(number)
        if backward or (time is not None and self.until is not None and self.until <= time):
            end = self.last if self.until is None else Position.at_timestamp(self.until)
            raise InvalidInput(f"invalid replay: nothing is between {self.start} and {end}; use a later end")

    @classmethod
    def of(cls, start: str, end: str | None = None) -> ReplayWindow:
        """Parse a window.

        Args:
            start: A time with a UTC offset, a sequence number (both inclusive), or TRIM_HORIZON.
            end: A time with a UTC offset (exclusive) or a sequence number (inclusive); nothing for the
                committed position.

        Raises:
            InvalidInput: The start or the end is invalid.
        """
        return cls(_start(start.strip()), *_end((end or "").strip()))

    @property
    def has_sequence_number(self) -> bool:
        """Whether it starts or ends at a sequence number, which belongs to one shard."""
        return self.start.sequence_number is not None or self.last is not None


def _start(text: str) -> Position:
    if text.upper() == PositionKind.TRIM_HORIZON:
        return Position(PositionKind.TRIM_HORIZON)
    if text.isascii() and text.isdigit():
        return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=text)
    return Position.at_timestamp(_time("start", text))


def _end(text: str) -> tuple[str | None, datetime | None]:
    if not text:
        return None, None
    if text.isascii() and text.isdigit():
        return Position.after(text).sequence_number, None
    return None, _time("end", text)


def _time(name: str, text: str) -> datetime:
    with suppress(ValueError, OverflowError):  # out of range in UTC
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    raise InvalidInput(
        f"invalid {name} of a replay {text[:200]!r}: use a sequence number; a time with a UTC offset, "
        f"such as 2026-01-31T12:00:00Z; or, as its start, TRIM_HORIZON"
    )


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The plan of one attempt of a replay, against one version of the table.

    Attributes:
        batch_id: Identifies the attempt; every row that it fills in carries it.
        window_start: Records that arrived before this time are not in the window, or have expired.
        not_before: Records that arrived before this time are skipped. It is later than `window_start` if the
            table keeps no rows of the time in between.
        existing_files: The data files of that version that may contain records of the ranges.
        gaps: The recorded gaps that no replay has filled, each with its unfilled part, by shard id.
        up_to_positions: The ranges end at the committed positions.
        not_read: The outcomes of the requested shards that have no range, by shard id.
        expired: The errors of the shards whose range starts with expired records, by shard id.
    """

    batch_id: int
    listing: StreamListing
    version: int
    amendment: Amendment | None
    window_start: datetime
    not_before: datetime
    existing_files: tuple[FileStats, ...]
    ranges: Mapping[str, ShardRange]
    gaps: Mapping[str, Mapping[Gap, Gap]]
    up_to_positions: bool
    not_read: Mapping[str, ReplayOutcome]
    expired: Mapping[str, DataLost]


def plan_replay(
    client: StreamClient, table: PositionedTable, window: ReplayWindow, shard_ids: Sequence[str] = ()
) -> ReplayPlan:
    """Plan one attempt of a replay. The arguments and errors are those of `replay`."""
    try:
        return retry_listing(client, lambda listing: _plan(client, table, window, shard_ids, listing))
    except ShardListIncomplete as error:
        # A shard that every list leaves out does not delay the listed ones.
        return _plan(client, table, window, shard_ids, client.listing(whole=False), incomplete=error)


def _plan(
    client: StreamClient,
    table: PositionedTable,
    window: ReplayWindow,
    shard_ids: Sequence[str],
    listing: StreamListing,
    *,
    incomplete: ShardListIncomplete | None = None,
) -> ReplayPlan:
    """Plan an attempt with one list of shards.

    Args:
        incomplete: The error of the lists before. With it, a shard that this list leaves out fails alone.
    """
    stream, now = client.stream, listing.summary.service_time
    snapshot = table.snapshot()
    positions = snapshot.positions(listing.summary.identity)
    if positions is None:
        raise InvalidInput(
            f"table {table.uri} has no positions of stream {stream}, so there is nothing to replay; the "
            "first run creates them"
        )
    listing = confirm_mode(client, listing, provisioned=positions.provisioned_since is not None)
    # Use the current retention: after it was lowered, shards expire earlier.
    positions = snapshot.with_all_archived(positions).with_listing(listing)
    provisioned = positions.provisioned(listing)
    listed, whole = {shard.shard_id: shard for shard in listing.shards}, covers_all_hash_keys(listing.shards)
    requested = list(dict.fromkeys(shard_ids or [*positions.shards, *listed]))
    unknown = [
        shard_id for shard_id in requested if shard_id not in listed and shard_id not in positions.shards
    ]
    if unknown:
        names = ", ".join(repr(shard_id[:200]) for shard_id in unknown)
        raise incomplete or InvalidInput(
            f"stream {stream} has no shard {names}; list its shards with `kinesis-assets positions`"
        )
    if window.has_sequence_number and len(requested) != 1:
        raise InvalidInput(
            f"stream {stream}: a sequence number belongs to one shard, but {len(requested)} shards are "
            "requested; name one shard"
        )
    if window.start.timestamp is not None and window.start.timestamp > now:
        raise InvalidInput(
            f"stream {stream}: {window.start} is later than the service's clock, {now}; use an earlier start"
        )
    try_sequence_numbers(
        client,
        {shard_id: window.starts.get(shard_id, window.start) for shard_id in requested if shard_id in listed},
    )
    amendment = snapshot.amendment(listing.summary.identity)
    oldest = listing.summary.oldest_kept
    floor = _floor(amendment)
    start = _clipped_start(window, floor, oldest)
    window_start = window.start.timestamp or oldest - _RETENTION_MARGIN
    not_before = max(filter(None, [window_start, floor]))
    ranges: dict[str, ShardRange] = {}
    not_read: dict[str, ReplayOutcome] = {}
    left_out: list[str] = []
    for shard_id in requested:
        shard_start = window.starts.get(shard_id, start)
        range_ = _range(shard_id, shard_start, window, positions.shards.get(shard_id))
        if isinstance(range_, ReplayOutcome):
            not_read[shard_id] = range_
        elif shard_id in listed:
            ranges[shard_id] = msgspec.structs.replace(
                range_,
                hash_range=None if provisioned is None else positions.shards[shard_id].hash_range,
                provisioned=provisioned,
                closed=listed[shard_id].closed,
            )
        elif is_left_out(positions.shards[shard_id], listing.summary, whole=whole):
            left_out.append(shard_id)
            error = ShardVanished(
                shard_id,
                f"ListShards of stream {stream} left it out each time, and it cannot be known to have "
                "expired, so none of it was read again. Replay this shard later",
            )
            not_read[shard_id] = ReplayOutcome(shard_id, ReplayState.FAILED, error=error)
        else:
            not_read[shard_id] = _unlisted(shard_id, positions.shards[shard_id], shard_start)
    if left_out and incomplete is None:
        raise ShardListIncomplete(
            stream,
            f"ListShards left out {', '.join(left_out)}, which cannot have expired yet; nothing was filled "
            "in. Try again later",
        )
    return ReplayPlan(
        batch_id=new_id(table.clock),
        listing=listing,
        version=snapshot.version,
        amendment=amendment,
        window_start=window_start,
        not_before=not_before,
        existing_files=tuple(
            file
            for file in (snapshot.file_stats() if ranges else ())
            if file.may_contain_arrivals(not_before, window.until)
        ),
        ranges=ranges,
        gaps={
            shard_id: unfilled(amendment, shard_id, positions.shards[shard_id].gaps) for shard_id in ranges
        },
        up_to_positions=window.last is None and window.until is None,
        not_read=not_read,
        expired=_expired(ranges, listing, oldest),
    )


def _floor(amendment: Amendment | None) -> datetime | None:
    """Return the first arrival time that the table keeps; None if it keeps all."""
    if amendment is None or amendment.floor is None:
        return None
    return datetime.combine(amendment.floor, datetime.min.time(), UTC)


def _clipped_start(window: ReplayWindow, floor: datetime | None, oldest: datetime) -> Position:
    """Return the start of a window without the rows that the table's own retention has deleted.

    The arrival time of a sequence number is unknown, and the oldest record may be later than the floor, so
    tasks check each record's arrival time too.

    Args:
        floor: The first arrival time that the table keeps.
        oldest: The oldest arrival time that the stream keeps.
    """
    time = window.start.timestamp
    is_trim_horizon = window.start.kind is PositionKind.TRIM_HORIZON
    if floor is not None and ((time is not None and time < floor) or (is_trim_horizon and oldest < floor)):
        return Position.at_timestamp(floor)
    return window.start


def _range(
    shard_id: str, start: Position, window: ReplayWindow, shard: ShardPosition | None
) -> ShardRange | ReplayOutcome:
    """Return the range of a shard, which ends at its position, or the outcome if the range is empty."""
    if shard is None or shard.position.kind in {PositionKind.TRIM_HORIZON, PositionKind.LATEST}:
        return ReplayOutcome(shard_id, ReplayState.UNREAD)
    position = shard.position
    until = min((time for time in (window.until, position.timestamp) if time is not None), default=None)
    up_to = None if position.sequence_number is None else position
    if window.last is not None and (up_to is None or int(window.last) < int(up_to.sequence_number or 0)):
        up_to = Position.after(window.last)
    if _is_empty(start, until, up_to):
        return ReplayOutcome(shard_id, ReplayState.WHOLE)
    bounds = Bounds(until=until, max_seconds=window.max_seconds)
    return ShardRange(shard_id=shard_id, start=start, bounds=bounds, hash_range=None, up_to=up_to)


def _is_empty(start: Position, until: datetime | None, up_to: Position | None) -> bool:
    if start.timestamp is not None and until is not None and until <= start.timestamp:
        return True
    if start.sequence_number is None or up_to is None:
        return False
    first, end = int(start.sequence_number), int(up_to.sequence_number or 0)
    return first > end or (first == end and up_to.kind is PositionKind.AT_SEQUENCE_NUMBER)


def _unlisted(shard_id: str, shard: ShardPosition, start: Position) -> ReplayOutcome:
    """Return the outcome of a shard that has expired. It failed if the range may contain records of it."""
    time, read_until = start.timestamp, shard.complete_until
    nothing_since = time is not None and read_until is not None and read_until < time
    if start.kind is PositionKind.TRIM_HORIZON or nothing_since:
        return ReplayOutcome(shard_id, ReplayState.GONE)
    error = ShardVanished(
        shard_id,
        f"no longer listed: all of its records are older than the stream's retention, so none from {start} "
        "on can be read again. The rows that the table has of it are kept; leave this shard out",
    )
    return ReplayOutcome(shard_id, ReplayState.FAILED, error=error)


def _expired(
    ranges: Mapping[str, ShardRange], listing: StreamListing, oldest: datetime
) -> dict[str, DataLost]:
    """Return the errors of the shards whose range starts before the oldest time that the stream keeps."""
    summary = listing.summary
    return {
        shard_id: DataLost(
            shard_id,
            f"the replay starts at {range_.start}, but the stream keeps {summary.retention_hours} h: records "
            f"that arrived before {oldest:%Y-%m-%dT%H:%M:%SZ} cannot be read again. The rest was filled in; "
            "to replay only that, start at TRIM_HORIZON",
        )
        for shard_id, range_ in ranges.items()
        if range_.start.timestamp is not None
        and max(range_.start.timestamp, summary.identity.created) < oldest
    }


def is_left_out(shard: ShardPosition, summary: StreamSummary, *, whole: bool) -> bool:
    """Return whether a list that lacks a shard may be incomplete, so that the shard may still exist.

    Args:
        summary: The stream, with the service's clock.
        whole: The open shards of the list cover all hash keys. A list that does not may lack any open shard.
    """
    if not whole and not shard.finished:
        return True
    return shard.listed_until is not None and shard.listed_until > summary.service_time
