"""Catch up: move shards to their newest records, and add the skipped ones while runs continue.

The jump is a seek, whose commit records the skipped range of each shard as a gap that is to be filled. The
backfill replays these gaps in steps of a limited time. The commit of a step's rows also records how far a
gap is filled, and that of the last step clears it, if no record of the gap can have expired before it was
read; otherwise the gap shrinks to its lost part. So a catch-up that ends at any point is continued by the
next one, which finds what is still to be filled; a replay adds only rows that the table lacks.

What is lost of a gap is recorded: the gap in the positions then ends at its first record that the table has,
and no catch-up reads it again. If it was read only in part, another gap has the rest. Of shards that the
stream no longer lists, no record can be read again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import DataLost, ReplayUnfinished, ShardVanished
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.listing_retries import list_shards
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.operations.replay.outcome import ReplayOutcome, ReplayResult, ReplayState
from kinesis_assets.operations.replay.plan import ReplayWindow, is_left_out
from kinesis_assets.operations.replay.run import RETRIES, replay
from kinesis_assets.operations.seek.first_records import first_record
from kinesis_assets.operations.seek.run import SeekResult, seek
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit_loop import Try, commit_positions, require_positions
from kinesis_assets.table.positions.amendments import ranges_to_fill
from kinesis_assets.table.positions.positions import next_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing
    from kinesis_assets.operations.replay.run import Fill
    from kinesis_assets.operations.seek.first_records import FirstRecord
    from kinesis_assets.retry import RetryPolicy
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot


STEP_SECONDS = 600.0
"""How long a step reads each shard after its first record, before it is committed."""


def jump(
    client: StreamClient, table: PositionedTable, shard_ids: Collection[str] = (), *, by: str, apply: bool
) -> SeekResult:
    """Move shards to their newest records, and record what they skip as gaps that are to be filled.

    Args:
        shard_ids: The shards; all shards if empty. Those that are finished stay.

    The other arguments and the errors are those of `seek.run.seek`.
    """
    to = Position(PositionKind.LATEST)
    return seek(client, table, to=to, shard_ids=shard_ids or None, by=by, apply=apply, to_fill=True)


def backfill(
    fill: Fill,
    client: StreamClient,
    table: PositionedTable,
    shard_ids: Collection[str] = (),
    *,
    report: Callable[[ReplayResult], object] = lambda _: None,
    by: str | None = None,
    retries: RetryPolicy = RETRIES,
) -> dict[str, ShardError]:
    """Add the records of the gaps that are to be filled, step by step, and clear those that are filled.

    Args:
        report: Called with the result of each step after its commit.

    Returns:
        By shard id, why a gap is not filled.

    The other arguments and the errors are those of `replay.run.replay`. The steps that were reported are
    committed.
    """
    errors: dict[str, ShardError] = {}
    gaps = gaps_to_fill(client, table, shard_ids)
    while gaps:
        result, failed = _step(fill, client, table, gaps, by=by, retries=retries)
        in_part = {shard_id for shard_id, outcome in result.outcomes.items() if outcome.in_part}
        left = gaps_to_fill(client, table, list(in_part)) if in_part else {}
        # A step without progress would be repeated forever.
        stuck = {shard_id for shard_id, each in left.items() if each == gaps[shard_id]}
        failed = {
            shard_id: error
            for shard_id, error in failed.items()
            if shard_id not in in_part - stuck or isinstance(error, DataLost)
        }
        report(_with_errors(result, failed))
        errors |= failed
        gaps = {shard_id: each for shard_id, each in left.items() if shard_id not in stuck}
    return errors


def _step(
    fill: Fill,
    client: StreamClient,
    table: PositionedTable,
    gaps: Mapping[str, Mapping[Gap, Gap]],
    *,
    by: str | None,
    retries: RetryPolicy,
) -> tuple[ReplayResult, dict[str, ShardError]]:
    """Read the gaps of each shard for a limited time, and record what is added and what is lost."""
    listing = list_shards(client)
    oldest = listing.summary.oldest_kept
    first = {
        shard_id: readable[0]
        for shard_id, each in gaps.items()
        if (readable := [gap for gap in each if gap.until > oldest])
    }
    result = ReplayResult(new_id(table.clock), {})
    if first:
        starts = {shard_id: _start(gaps[shard_id][gap]) for shard_id, gap in first.items()}
        window = ReplayWindow(Position(PositionKind.TRIM_HORIZON), starts=starts, max_seconds=STEP_SECONDS)
        result = replay(fill, client, table, window, list(starts), by=by, retries=retries)
    left: dict[str, dict[Gap, Gap]] = {}
    for shard_id, each in gaps_to_fill(client, table, list(gaps)).items():
        outcome = result.outcomes.get(shard_id)
        if outcome is not None and outcome.in_part:
            # The other gaps may not have been reached. Of a gap whose first part was filled, nothing is lost.
            gap = first[shard_id]
            checked = {gap} if each.get(gap) == gaps[shard_id][gap] else set()
        elif outcome is None or outcome.error is None or isinstance(outcome.error, DataLost):
            checked = set(gaps[shard_id])  # another catch-up may have recorded more gaps meanwhile
        else:
            continue  # the next catch-up reads it again
        left[shard_id] = {gap: part for gap, part in each.items() if gap in checked}
    lost, unread = _lost_parts(client, listing, left, result.outcomes)
    gone, kept = _expired_gaps(client, table, listing, left)
    lost |= gone
    if lost:
        _record_lost(client, table, lost, by=by)
    losses = {
        shard_id: [part for each in parts.values() for part in each if not part.to_fill]
        for shard_id, parts in lost.items()
    }
    lost_errors = {shard_id: _lost(shard_id, parts) for shard_id, parts in losses.items() if parts}
    return result, result.errors | lost_errors | unread | kept


def _start(part: Gap) -> Position:
    """Return where a replay of a gap starts. If it finds this record, no later one has expired."""
    if part.after.sequence_number is None:
        return part.after
    return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=part.after.sequence_number)


def _with_errors(result: ReplayResult, errors: Mapping[str, ShardError]) -> ReplayResult:
    """Return the result of a step with these errors alone: that a shard is read in part is no error."""
    outcomes = {shard_id: ReplayOutcome(shard_id, ReplayState.WHOLE) for shard_id in errors} | dict(
        result.outcomes
    )
    for shard_id, outcome in outcomes.items():
        error = errors.get(shard_id)
        state = ReplayState.FILLED if outcome.rows else ReplayState.WHOLE
        if error is not None or outcome.error is not None:
            outcomes[shard_id] = replace(outcome, state=ReplayState.FAILED if error else state, error=error)
    return replace(result, outcomes=outcomes)


def gaps_to_fill(
    client: StreamClient, table: PositionedTable, shard_ids: Collection[str] = ()
) -> dict[str, dict[Gap, Gap]]:
    """Return the gaps of some shards, or of all, that are to be filled, each with its unfilled part."""
    identity, snapshot = client.describe().identity, table.snapshot()
    amendment = snapshot.amendment(identity)
    found = ranges_to_fill(amendment, _shards(table, snapshot, identity))
    return {shard_id: gaps for shard_id, gaps in found.items() if not shard_ids or shard_id in shard_ids}


def _shards(
    table: PositionedTable, snapshot: TableSnapshot, identity: StreamIdentity
) -> Mapping[str, ShardPosition]:
    """Return the position of each shard by its id, also of archived ones."""
    return snapshot.with_all_archived(require_positions(table.uri, snapshot, identity)).shards


def _lost(shard_id: str, gaps: Sequence[Gap]) -> ShardError:
    return DataLost(
        shard_id,
        f"records may have expired before they were read, so a gap stays recorded: "
        f"{'; '.join(map(str, gaps))}. The records after it were added, or are added next; to get the lost "
        "ones, have the producer send them again",
    )


Parts = tuple[Gap, ...]
"""The parts that replace a gap: the lost part and, if it was read in part, the one that is to be filled."""


def _lost_parts(
    client: StreamClient,
    listing: StreamListing,
    gaps: Mapping[str, Mapping[Gap, Gap]],
    outcomes: Mapping[str, ReplayOutcome],
) -> tuple[dict[str, dict[Gap, Parts]], dict[str, ShardError]]:
    """Return what replaces each gap whose first records may be lost, by shard id, and errors by shard id.

    Call this after gaps were read. Records that expire in between count as lost too. A gap is not lost if
    none of its records can have expired, or if another response contradicts what was read. Its shard has an
    error, and the gap is to be filled.

    Args:
        listing: Its shards. Shards that are not listed are left out.
        gaps: Gaps that were read and are not filled, each with its unfilled part, by shard id.
        outcomes: What was read to fill them, by shard id.
    """
    listed = {shard.shard_id: shard for shard in listing.shards}
    oldest = listing.summary.oldest_kept
    lost: dict[str, dict[Gap, Parts]] = {}
    errors: dict[str, ShardError] = {}
    for shard_id in gaps.keys() & listed.keys():
        outcome = outcomes.get(shard_id)
        for gap, part in gaps[shard_id].items():
            first = first_record(client, listed[shard_id], part.after)
            if _contradicts(first, gap, outcome):
                errors[shard_id] = _unread(
                    shard_id,
                    f"the first record of a gap is now {first or 'none'}, which is not what was returned",
                )
            elif gap.since is not None and gap.since > oldest:
                errors[shard_id] = _unread(
                    shard_id,
                    "no record of a gap can have expired, but it is not certain that all were returned",
                )
            else:
                lost.setdefault(shard_id, {})[gap] = _parts(gap, part, first, outcome)
    return lost, errors


def _contradicts(first: FirstRecord | None, gap: Gap, outcome: ReplayOutcome | None) -> bool:
    """Whether the first record from the start of a gap on contradicts what was read of the gap."""
    read = None if outcome is None else outcome.first_read
    if first is not None and _is_in(first, gap) and (read is None or int(first.sequence_number) < int(read)):
        return True
    if outcome is None or read is None or not outcome.in_part or not _is_before(read, gap):
        return False
    # What is after the part that was read must not be given up because of one response.
    return first is None or int(first.sequence_number) > _through(outcome)


def _parts(gap: Gap, part: Gap, first: FirstRecord | None, outcome: ReplayOutcome | None) -> Parts:
    """Return the lost part of a gap and, if it was read only in part, the part that is still to be filled.

    Args:
        first: The first record from the start of that part on; None if there is none.
        outcome: What was read to fill it.
    """
    lost = msgspec.structs.replace(part, to_fill=False)
    if first is None or not _is_in(first, gap):
        return (lost,)
    lost = msgspec.structs.replace(lost, next_sequence_number=first.sequence_number, until=first.arrival)
    if outcome is None or not outcome.in_part:
        return (lost,)
    # All records from the first one on were read, up to where the reading ended.
    start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=str(_through(outcome)))
    rest = msgspec.structs.replace(gap, after=start, since=first.arrival)
    return (rest,) if first.sequence_number == part.after.sequence_number else (lost, rest)


def _through(outcome: ReplayOutcome) -> int:
    """Return the last sequence number that was read."""
    return 0 if outcome.stats is None else int(outcome.stats.through.sequence_number or 0)


def _unread(shard_id: str, reason: str) -> ShardError:
    return ReplayUnfinished(
        shard_id,
        f"{reason} when the gap was read; the gap stays recorded as one to fill. Run the catch-up again",
    )


def _is_in(record: FirstRecord, gap: Gap) -> bool:
    """Whether a record from the start of a gap on is in the gap."""
    if gap.next_sequence_number is None:
        return record.arrival < gap.until
    return _is_before(record.sequence_number, gap)


def _is_before(sequence_number: str, gap: Gap) -> bool:
    """Whether a record is before the end of a gap, if that is a record."""
    return gap.next_sequence_number is None or int(sequence_number) < int(gap.next_sequence_number)


def _record_lost(
    client: StreamClient, table: PositionedTable, lost: Mapping[str, Mapping[Gap, Parts]], *, by: str | None
) -> None:
    """Replace gaps in the positions by their parts, in one commit.

    Args:
        lost: What `_lost_parts` returned.

    Raises:
        TableError: The table cannot be used, or was restored or overwritten; or (`CommitUnknown`) the result
            of the commit is unknown.
    """
    identity, batch_id = client.describe().identity, new_id(table.clock)
    expected = require_positions(table.uri, table.snapshot(), identity)

    def prepare(snapshot: TableSnapshot, current: StreamPositions) -> Try[None]:
        current = table.chain.with_archived(current, list(lost))
        shards = current.shards | {
            shard_id: msgspec.structs.replace(
                shard, gaps=tuple(part for gap in shard.gaps for part in lost[shard_id].get(gap, (gap,)))
            )
            for shard_id, shard in current.shards.items()
            if shard_id in lost
        }
        if shards == current.shards:
            return Try(None)
        new = next_positions(
            current,
            shards,
            identity=identity,
            commit_id=new_id(table.clock),
            batch_id=batch_id,
            examined=snapshot.version,
            listed_at=current.listed_at,
            by=by,
        )
        return Try(None, new.commit_id, partial(snapshot.commit, [], identity=identity, positions=new))

    commit_positions(table, expected, batch_id, prepare)


def _expired_gaps(
    client: StreamClient,
    table: PositionedTable,
    listing: StreamListing,
    gaps: Mapping[str, Mapping[Gap, Gap]],
) -> tuple[dict[str, dict[Gap, Parts]], dict[str, ShardError]]:
    """Return the gaps that are lost because their shard has expired, as `_lost_parts` does.

    A second list of shards must lack the shard too. A shard of which that is not certain has an error.

    Args:
        listing: The stream and its shards. Gaps of listed shards are left out.
        gaps: Gaps, each with its unfilled part, by shard id.
    """
    unlisted = gaps.keys() - {shard.shard_id for shard in listing.shards}
    if not unlisted:
        return {}, {}
    shards = _shards(table, table.snapshot(), listing.summary.identity)
    lists = [listing, list_shards(client)]
    lost: dict[str, dict[Gap, Parts]] = {}
    errors: dict[str, ShardError] = {}
    for shard_id in unlisted:
        if all(_has_expired(shard_id, shards[shard_id], gaps[shard_id], each) for each in lists):
            lost[shard_id] = {
                gap: (msgspec.structs.replace(part, to_fill=False),) for gap, part in gaps[shard_id].items()
            }
        else:
            errors[shard_id] = ShardVanished(
                shard_id,
                "a list of shards lacks it, but it may not have expired yet, so its gaps stay recorded "
                "as ones to fill. Run the catch-up again later",
            )
    return lost, errors


def _has_expired(shard_id: str, shard: ShardPosition, gaps: Iterable[Gap], listing: StreamListing) -> bool:
    """Whether a list lacks a shard, and all records of its gaps are older than the stream's retention."""
    summary = listing.summary
    return (
        all(each.shard_id != shard_id for each in listing.shards)
        and not is_left_out(shard, summary, whole=True)  # `StreamClient.listing` checks that
        and all(gap.until <= summary.oldest_kept for gap in gaps)
    )
