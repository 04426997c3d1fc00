"""Record what is lost of a gap that a catch-up could not fill completely.

The gap in the positions then ends at its first record that the table has, and no catch-up reads it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import ReplayUnfinished
from kinesis_assets.seek.probe import first_record
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commit_loop import commit_until_known
from kinesis_assets.table.commits_since import find_commit
from kinesis_assets.table.positions import FORMAT
from kinesis_assets.table.rewrite_checks import refuse_rewritten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.seek.probe import ProbedRecord
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table import PositionedTable


def lost_parts(
    client: StreamClient,
    listing: StreamListing,
    gaps: Mapping[str, Sequence[Gap]],
    first_read: Mapping[str, str | None],
) -> tuple[dict[str, dict[Gap, Gap]], dict[str, ShardError]]:
    """Return the part of each gap whose records may be lost, by shard id and gap, and errors by shard id.

    Call this after the rest of the gaps was added. Records that expire in between count as lost too. A gap of
    which a record can be read that was not read is not lost; its shard has an error, and the gap is to be
    filled.

    Args:
        client: The stream.
        listing: Its shards. Shards that are not listed are left out.
        gaps: Gaps, by shard id.
        first_read: The first record that was read to fill the gaps, by shard id.
    """
    listed = {shard.shard_id: shard for shard in listing.shards}
    lost: dict[str, dict[Gap, Gap]] = {}
    errors: dict[str, ShardError] = {}
    for shard_id in gaps.keys() & listed.keys():
        read_from = first_read.get(shard_id)
        for gap in gaps[shard_id]:
            first = first_record(client, listed[shard_id], gap.after)
            part = msgspec.structs.replace(gap, to_fill=False)
            if first is not None and first.arrival < gap.until and _is_before(first.sequence_number, gap):
                if read_from is None or int(first.sequence_number) < int(read_from):
                    errors[shard_id] = _unread(shard_id, first)
                    continue
                part = msgspec.structs.replace(
                    part, next_sequence_number=first.sequence_number, until=first.arrival
                )
            lost.setdefault(shard_id, {})[gap] = part
    return lost, errors


def _unread(shard_id: str, record: ProbedRecord) -> ShardError:
    return ReplayUnfinished(
        shard_id,
        f"record {record} of a gap can be read, but was not returned when the gap was read; the gap stays "
        "recorded as one to fill. Run the catch-up again",
    )


def _is_before(sequence_number: str, gap: Gap) -> bool:
    """Whether a record is before the end of a gap."""
    return gap.next_sequence_number is None or int(sequence_number) < int(gap.next_sequence_number)


def record_lost(
    client: StreamClient, table: PositionedTable, lost: Mapping[str, Mapping[Gap, Gap]], *, by: str | None
) -> None:
    """Replace gaps in the positions by their lost parts, in one commit.

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
    lost: Mapping[str, Mapping[Gap, Gap]],
    *,
    batch_id: int,
    commit_id: int,
    by: str | None,
    examined: int,
) -> StreamPositions:
    changed = {
        shard_id: msgspec.structs.replace(
            shard, gaps=tuple(lost[shard_id].get(gap, gap) for gap in shard.gaps)
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
