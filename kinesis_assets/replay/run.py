"""Replay: a range behind the positions is read again, and what the table lacks of it is filled in.

A replay looks at one version of the table, reads the asked ranges again up to the positions of that version,
and commits the records that its data files lack, together with an entry of the table's past. It never
touches the positions, so live runs go on beside it. Whoever else changes rows behind the positions writes
that same entry, so that of two at once one is refused by Delta, and begins again from what then stands.

Knows nothing of Dagster, and of Spark only how a filling looks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import (
    CallFailed,
    DataLost,
    InvalidInput,
    PastChanged,
    ReplayUnfinished,
    ShardListIncomplete,
    StreamRecreated,
)
from kinesis_assets.ingest.task import LandingJob
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.relist import relisted
from kinesis_assets.kinesis.shards import covers_all_hash_keys
from kinesis_assets.replay.filled_gaps import filled_gaps
from kinesis_assets.replay.manifest import Filling, ShardFilling
from kinesis_assets.replay.task import FillJob
from kinesis_assets.replay.unlisted_shards import expired_error, is_left_out, left_out_error, refuse_left_out
from kinesis_assets.table.amend import fill_in
from kinesis_assets.table.commit import LONGEST_READING, read_until
from kinesis_assets.table.commit_ids import draw_token
from kinesis_assets.table.positions import Landed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.amendments import ClearedGap, Past
    from kinesis_assets.table.file_stats import HeldFile
    from kinesis_assets.table.positions import ShardPosition
    from kinesis_assets.table.table import PositionedTable

Fill = Callable[[FillJob, Sequence[ShardRange]], Filling]
"""Fills ranges of different shards, as `fill` does in Spark."""

_TRIES = 8
"""Attempts of a replay: each other change of the past meanwhile costs one."""

_LONGEST_WAIT = 5.0

_KEPT_LONGER = timedelta(days=1)
"""A stream may give records a little longer than its retention says; none that are older than this are
looked for in the table."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_OLDEST = "TRIM_HORIZON"


class Span(msgspec.Struct, frozen=True):
    """What is to be read again.

    Attributes:
        start: AT_SEQUENCE_NUMBER or AT_TIMESTAMP, both inclusive, or TRIM_HORIZON: the oldest there is.
        last: Sequence number of the last record, inclusive; None is no such end.
        until: Records that arrived before are read; None is no such end. Every end is that of the committed
            position at the latest.

    Raises:
        InvalidInput: The end is before the start.
    """

    start: Position
    last: str | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        number, time_ = self.start.sequence_number, self.start.timestamp
        backward = number is not None and self.last is not None and int(self.last) < int(number)
        if backward or (time_ is not None and self.until is not None and self.until <= time_):
            raise InvalidInput(f"a replay from {self.start} to {self.last or self.until} has nothing in it")

    @classmethod
    def of(cls, start: str, end: str | None = None) -> Span:
        """Read a span as people write it.

        Args:
            start: A time with its offset, a sequence number (both inclusive), or TRIM_HORIZON.
            end: A time (exclusive), a sequence number (inclusive), or nothing: the committed position.

        Raises:
            InvalidInput: It cannot be read.
        """
        return cls(_start(start.strip()), *_end((end or "").strip()))

    @property
    def names_a_record(self) -> bool:
        """Whether it has a sequence number in it, and so is of one shard."""
        return self.start.sequence_number is not None or self.last is not None


def _start(text: str) -> Position:
    if text.upper() == _OLDEST:
        return Position(PositionKind.TRIM_HORIZON)
    if text.isascii() and text.isdigit():
        return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=text)
    return Position.at_timestamp(_time("the start", text))


def _end(text: str) -> tuple[str | None, datetime | None]:
    if not text:
        return None, None
    if text.isascii() and text.isdigit():
        return Position.after(text).sequence_number, None
    return None, _time("the end", text)


def _time(what: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidInput(
            f"{what} of a replay, {text[:200]!r}, is neither a sequence number nor a time with its offset; "
            "2026-01-31T12:00:00Z is the form"
        )
    return found.astimezone(UTC)


class ReplayState(StrEnum):
    """What became of a shard in a replay."""

    FILLED = "filled"
    """The table lacked records of the range; they are committed."""
    WHOLE = "whole"
    """The table lacked nothing of the range."""
    UNREAD = "unread"
    """No run has passed anything of the shard yet: there is nothing to read again."""
    GONE = "gone"
    """The stream lists it no more, and the range has nothing of it."""
    FAILED = "failed"
    """Not all of the range could be read again; what was lacking of the rest is committed."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What became of one shard.

    Attributes:
        shard_id: The shard.
        state: See `ReplayState`.
        start: Where its range began; None if nothing was read, likewise below.
        through: How far it was read, as where the next read would begin.
        rows: Records filled in.
        bytes: Their payload bytes.
        first_sequence_number: Of the first of them; None if there are none, likewise below.
        last_sequence_number: Of the last of them.
        checksum: Over them all, see `checksums.checksum`.
        gaps_filled: Recorded gaps of which it read every record, so that they are none any more.
        error: Why the state is failed; None otherwise.
    """

    shard_id: str
    state: ReplayState
    start: Position | None = None
    through: Position | None = None
    rows: int = 0
    bytes: int = 0
    first_sequence_number: str | None = None
    last_sequence_number: str | None = None
    checksum: int | None = None
    gaps_filled: int = 0
    error: ShardError | None = None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What became of a replay.

    Attributes:
        batch_id: Of the rows that were filled in.
        outcomes: By shard id, one for each asked shard.
        version: The table's version that holds them; None if there are none, or it has left the log's newest
            hundred.
        seconds: Wall clock.
    """

    batch_id: int
    outcomes: Mapping[str, ReplayOutcome]
    version: int | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def errors(self) -> dict[str, ShardError]:
        """The shards of which not all could be read again, each with its reason."""
        return {shard_id: outcome.error for shard_id, outcome in self.outcomes.items() if outcome.error}


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


def replay(
    fill: Fill,
    client: StreamClient,
    table: PositionedTable,
    span: Span,
    shard_ids: Sequence[str] = (),
    *,
    by: str | None = None,
) -> ReplayResult:
    """Read a span of some shards again, and fill in what the table lacks of it.

    Args:
        fill: Fills ranges.
        client: The stream.
        table: Its table.
        span: What is read again.
        shard_ids: Of which shards; all by default.
        by: Who replays, kept with the commit.

    Raises:
        InvalidInput: A shard is unknown, or the span does not fit the shards; nothing was touched.
        PastChanged: Others changed rows behind the positions each time this was about to; nothing was
            committed.
        StreamError: The stream cannot be reached, or is another one than the table's.
        TableError: Nothing was committed, or (`CommitUnknown`) that cannot be told.
    """
    began = time.monotonic()
    for attempt in range(1, _TRIES + 1):
        plan = plan_replay(client, table, span, shard_ids)
        try:
            outcomes, version = _execute(fill, client, table, plan, by)
        except PastChanged:
            if attempt == _TRIES:
                raise
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.1 * 2**attempt)))  # noqa: S311  # jitter
        else:
            break
    return ReplayResult(plan.batch_id, outcomes, version, time.monotonic() - began)


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
            f"to ask for that alone, begin at {_OLDEST}",
        )
        for shard_id, range_ in ranges.items()
        if range_.start.timestamp is not None
        and max(range_.start.timestamp, summary.identity.created) < oldest
    }


def _execute(
    fill: Fill, client: StreamClient, table: PositionedTable, plan: ReplayPlan, by: str | None
) -> tuple[dict[str, ReplayOutcome], int | None]:
    filling = Filling()
    cleared: dict[str, tuple[ClearedGap, ...]] = {}
    if plan.ranges:
        until = read_until(plan.batch_id)
        landing = LandingJob(str(client.address), client.settings, table.folder, plan.batch_id, until)
        filling = fill(FillJob(landing, plan.held, plan.not_before), list(plan.ranges.values()))
        cleared = _cleared(plan, filling)
        # After the reading, so that all of it was of the stream that was planned.
        if client.describe().identity != plan.listing.summary.identity:
            raise StreamRecreated(client.stream, "deleted and created again meanwhile; nothing committed")
    version = None
    if filling.files or cleared:
        version = fill_in(
            table,
            identity=plan.listing.summary.identity,
            version=plan.version,
            past=plan.past,
            not_before=plan.not_before,
            batch_id=plan.batch_id,
            files=filling.files,
            filled={shard.shard_id: _filled(shard) for shard in filling.shards if shard.rows},
            cleared=cleared,
            by=by,
        )
    read = {
        shard.shard_id: _outcome(plan, shard, len(cleared.get(shard.shard_id, ())))
        for shard in filling.shards
    }
    asked = [*plan.ranges, *plan.told]
    return {shard_id: read.get(shard_id) or plan.told[shard_id] for shard_id in asked}, version


def _cleared(plan: ReplayPlan, filling: Filling) -> dict[str, tuple[ClearedGap, ...]]:
    found = {
        shard.shard_id: filled_gaps(
            plan.gaps[shard.shard_id],
            shard,
            not_before=plan.not_before,
            up_to_position=plan.up_to_positions,
        )
        for shard in filling.shards
    }
    return {shard_id: gaps for shard_id, gaps in found.items() if gaps}


def _filled(shard: ShardFilling) -> Landed:
    return Landed(
        start=shard.start,
        through=shard.through,
        first_sequence_number=str(shard.first_sequence_number),
        last_sequence_number=str(shard.last_sequence_number),
        rows=shard.rows,
        bytes=shard.bytes,
        checksum=shard.checksum,
    )


def _outcome(plan: ReplayPlan, shard: ShardFilling, gaps_filled: int) -> ReplayOutcome:
    lost = plan.expired.get(shard.shard_id) or _missing_first(plan, shard)
    error = shard.error or _unfinished(shard, lost) or lost
    state = ReplayState.FILLED if shard.rows else ReplayState.WHOLE
    return ReplayOutcome(
        shard_id=shard.shard_id,
        state=ReplayState.FAILED if error else state,
        start=shard.start,
        through=shard.through,
        rows=shard.rows,
        bytes=shard.bytes,
        first_sequence_number=shard.first_sequence_number,
        last_sequence_number=shard.last_sequence_number,
        checksum=shard.checksum if shard.rows else None,
        gaps_filled=gaps_filled,
        error=error,
    )


def _unfinished(shard: ShardFilling, lost: DataLost | None) -> ReplayUnfinished | None:
    """Tell that the time was over before the range was read, and where to go on.

    What is lost is told too: who goes on from there does not come by it again.
    """
    if shard.end is not RangeEnd.LATE:
        return None
    number = shard.through.sequence_number
    return ReplayUnfinished(
        shard.shard_id,
        ("" if lost is None else f"{lost.sentence}. But ")
        + f"not all of it was read within {LONGEST_READING}, and what is read later cannot be committed. "
        f"What was lacking up to {shard.through} is filled in; to go on, replay this shard alone"
        + ("" if number is None else f" from {number}"),
    )


def _missing_first(plan: ReplayPlan, shard: ShardFilling) -> DataLost | None:
    """Tell that the service went on after the asked record, as it does without a word."""
    asked = shard.start.sequence_number
    ended_by_number = plan.ranges[shard.shard_id].up_to is not None and shard.end is not RangeEnd.LATE
    if asked is None or shard.first_read == asked or not (shard.first_read or ended_by_number):
        return None
    return DataLost(
        shard.shard_id,
        f"asked for {shard.start}, but the stream has no such record any more; the first of the range that "
        f"it has is {shard.first_read or 'none'}. What is lacking from there on is filled in",
    )
