"""Record what is lost of a gap that a catch-up could not fill completely.

The gap in the positions then ends at its first record that the table has, and no catch-up reads it again. If
it was read only in part, another gap has the rest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import ReplayUnfinished
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.seek.probe import first_record
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit_loop import commit_until_known
from kinesis_assets.table.commits.commits_since import find_commit
from kinesis_assets.table.log.rewrite_checks import refuse_rewritten
from kinesis_assets.table.positions.positions import FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.replay.outcome import ReplayOutcome
    from kinesis_assets.seek.probe import ProbedRecord
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable

Parts = tuple[Gap, ...]
"""The parts that replace a gap: the lost part and, if it was read in part, the one that is to be filled."""


def lost_parts(
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
        client: The stream.
        listing: Its shards. Shards that are not listed are left out.
        gaps: Gaps that were read and are not filled, each with its unfilled part, by shard id.
        outcomes: What was read to fill them, by shard id.
    """
    listed = {shard.shard_id: shard for shard in listing.shards}
    oldest = listing.summary.service_time - timedelta(hours=listing.summary.retention_hours)
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


def _contradicts(first: ProbedRecord | None, gap: Gap, outcome: ReplayOutcome | None) -> bool:
    """Whether the first record from the start of a gap on contradicts what was read of the gap."""
    read = None if outcome is None else outcome.first_read
    if first is not None and _is_in(first, gap) and (read is None or int(first.sequence_number) < int(read)):
        return True
    if outcome is None or read is None or not outcome.in_part or not _is_before(read, gap):
        return False
    # What is after the part that was read must not be given up because of one response.
    return first is None or int(first.sequence_number) > _through(outcome)


def _parts(gap: Gap, part: Gap, first: ProbedRecord | None, outcome: ReplayOutcome | None) -> Parts:
    """Return the lost part of a gap and, if it was read only in part, the part that is still to be filled.

    Args:
        gap: The gap.
        part: Its unfilled part.
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


def _is_in(record: ProbedRecord, gap: Gap) -> bool:
    """Whether a record from the start of a gap on is in the gap."""
    if gap.next_sequence_number is None:
        return record.arrival < gap.until
    return _is_before(record.sequence_number, gap)


def _is_before(sequence_number: str, gap: Gap) -> bool:
    """Whether a record is before the end of a gap, if that is a record."""
    return gap.next_sequence_number is None or int(sequence_number) < int(gap.next_sequence_number)


def record_lost(
    client: StreamClient, table: PositionedTable, lost: Mapping[str, Mapping[Gap, Parts]], *, by: str | None
) -> None:
    """Replace gaps in the positions by their parts, in one commit.

    Args:
        client: The stream.
        table: Its table.
        lost: What `lost_parts` returned.
        by: Id of the Dagster run or name of the person, recorded with the commit.

    Raises:
        TableError: The table cannot be used, or was restored or overwritten; or (`CommitUnknown`) the result
            of the commit is unknown.
    """
    identity, batch_id = client.describe().identity, new_id(table.clock)
    expected = table.snapshot().positions(identity)
    if expected is None:
        return

    def attempt(*, may_commit: bool) -> bool | None:
        snapshot = table.snapshot()
        current = snapshot.positions(identity)
        if current is None or find_commit(table, current, expected, batch_id) is not None:
            return True
        if not may_commit:
            return None
        refuse_rewritten(table, snapshot, current)
        current = table.chain.with_archived(current, list(lost))
        commit_id = new_id(table.clock)
        following = _following(
            current, lost, batch_id=batch_id, commit_id=commit_id, by=by, examined=snapshot.version
        )
        if following.shards == current.shards:
            return True
        snapshot.commit([], identity=identity, positions=following)
        return None

    commit_until_known(table, attempt)


def _following(
    current: StreamPositions,
    lost: Mapping[str, Mapping[Gap, Parts]],
    *,
    batch_id: int,
    commit_id: int,
    by: str | None,
    examined: int,
) -> StreamPositions:
    changed = {
        shard_id: msgspec.structs.replace(
            shard, gaps=tuple(part for gap in shard.gaps for part in lost[shard_id].get(gap, (gap,)))
        )
        for shard_id, shard in current.shards.items()
        if shard_id in lost
    }
    return msgspec.structs.replace(
        current,
        format=FORMAT,
        commit_id=commit_id,
        previous=current.commit_id,
        generation=current.generation + 1,
        batch_id=batch_id,
        shards=current.shards | changed,
        added={},
        by=by,
        examined=examined,
        adopted=False,
    )
