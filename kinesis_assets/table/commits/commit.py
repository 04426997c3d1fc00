"""Commits rows and positions together.

An attempt reads the positions (*expected*), generates a batch id, lands files, and commits. Each try opens
the table again, drops the shards that other runs have moved, merges the rest into the current positions,
and commits through the same snapshot, so that Delta refuses the commit if another one has moved positions
since. A try that raised an error may have committed nevertheless: a lost response looks like a conflict.
Only the chain of commits from the current positions back to *expected* shows it. No file is deleted on the
way; files that no commit points at are left to vacuum.

If several runs commit to different shards at the same time, only one of their tries succeeds. To be fair, a
try takes equally long for all of them: a positions file names the commits before it, files that were read
are cached, and if many had to be read nevertheless, the table is opened again before the try. The wait of a
run that was overtaken does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.errors import AttemptExpired, DataFileInvalid, PositionsMissing
from kinesis_assets.metrics import COMMIT_DURATION, STREAM, TABLE, timed
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.commits.commit_loop import Try, commit_positions, commit_until_known, find_commit
from kinesis_assets.table.data_file import verify
from kinesis_assets.table.data_file_writer import without_shards
from kinesis_assets.table.ownership import refuse_other_stream
from kinesis_assets.table.policy import HISTORY_RETENTION
from kinesis_assets.table.positions.merge import merge
from kinesis_assets.table.positions.positions import initial_positions, next_positions
from kinesis_assets.table.rewrites import refuse_rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kinesis_assets.errors import PositionConflict
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing
    from kinesis_assets.table.data_file import DataFile, WrittenFile
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.stored_table import StoredTable


MAX_ATTEMPT_AGE = HISTORY_RETENTION / 3
"""Maximum age of an attempt that commits. Spark's VACUUM, which applies the table's own retention, may have
deleted the files of an older attempt, or may be about to."""

MAX_READING_TIME = MAX_ATTEMPT_AGE - timedelta(hours=1)
"""Maximum time that an attempt reads, which leaves the rest for its commit."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The outcome of an attempt's commit.

    Attributes:
        version: The version of the table that the commit created. None if nothing was left to commit, or if
            the version is no longer among the newest hundred.
        conflicts: By shard id, the shards that were not committed because another run had moved them, or a
            parent; none of their rows were added.
    """

    version: int | None
    files: Sequence[DataFile] = ()
    conflicts: Mapping[str, PositionConflict] = field(default_factory=dict)


def freeze(
    table: PositionedTable,
    listing: StreamListing,
    starts: Mapping[str, Position],
    *,
    replacing_older: bool = False,
) -> StreamPositions:
    """Return the stream's positions; if there are none, first commit its start positions, without rows.

    Of several runs at the same time, one commits them and all continue from these.

    Args:
        table: It is created if it does not exist.
        starts: The start positions by shard id. LATEST must have been replaced by AT_TIMESTAMP.
        replacing_older: Replace the positions of a deleted stream of the same name.

    Raises:
        CommitFailed: Every try failed.
        TableOfAnotherStream: The table belongs to another stream.
        PositionsMissing: The table has rows, but no positions of the stream.
        TableRewritten: The table was restored or overwritten.
        TableError: The table cannot be used.
    """
    summary = listing.summary
    opened: TableSnapshot | None = table.create_if_missing(summary.identity)

    def try_once(*, may_commit: bool) -> StreamPositions | None:
        nonlocal opened
        snapshot, opened = opened or table.snapshot(), None
        current = snapshot.positions(summary.identity, or_older=replacing_older)
        # A release that writes no owner may have started another stream in this table, perhaps just now.
        refuse_other_stream(table.uri, snapshot.streams_in_log(), summary.identity)
        if current is not None and current.identity == summary.identity:
            return current
        if current is not None:
            refuse_rewritten(table, snapshot, current)
        else:
            refuse_rows_without_positions(table, snapshot, summary.identity)
        if may_commit and snapshot.owner is None:
            snapshot.claim(summary.identity)
            return None  # the next try commits, unless another stream has claimed the table first
        if may_commit:
            commit_id = new_id(table.clock)
            first = next_positions(
                None if current is None else snapshot.with_all_archived(current),
                initial_positions(
                    listing,
                    starts,
                    wanted_from=summary.service_time if current is None else summary.identity.created,
                ),
                identity=summary.identity,
                commit_id=commit_id,
                batch_id=commit_id,
                examined=snapshot.version,
                listed_at=summary.service_time,
            )
            snapshot.commit([], identity=first.identity, positions=first)
            # As in `commit`, the table need not be opened again.
            if snapshot.later_version_of(commit_id) is not None:
                refuse_other_stream(table.uri, snapshot.streams_in_log(), summary.identity)
                return table.chain.positions_at(commit_id)
        return None

    return commit_until_known(table, try_once)


def commit_first(
    table: PositionedTable,
    listing: StreamListing,
    shards: Mapping[str, ShardPosition],
    check: Callable[[TableSnapshot, StreamPositions | None], None],
    *,
    by: str,
    adopted: bool = False,
) -> None:
    """Commit the first positions of a stream, as an operator has set them, without rows.

    Args:
        check: Refuses the newest version of the table, and its positions, if they have changed.

    Raises what `check` and `commit_until_known` raise.
    """
    identity, batch_id = listing.summary.identity, new_id(table.clock)

    def attempt(*, may_commit: bool) -> bool | None:
        snapshot = table.snapshot()
        positions = snapshot.positions(identity)
        # A run may already have committed newer ones.
        since = () if positions is None else table.chain.since(positions, None)
        if find_commit(table.uri, since, batch_id) is not None:
            return True
        check(snapshot, positions)
        if may_commit and snapshot.owner is None:
            snapshot.claim(identity)  # as in `freeze`
        elif may_commit:
            first = next_positions(
                None,
                dict(shards),
                identity=identity,
                commit_id=new_id(table.clock),
                batch_id=batch_id,
                examined=snapshot.version,
                listed_at=listing.summary.service_time,
                by=by,
                adopted=adopted,
            )
            snapshot.commit([], identity=identity, positions=first)
        return None

    commit_until_known(table, attempt)


def refuse_rows_without_positions(
    table: PositionedTable, snapshot: TableSnapshot, identity: StreamIdentity
) -> None:
    """Check that a table without positions has no rows.

    Raises:
        PositionsMissing: It has rows.
    """
    if snapshot.data_files():
        raise PositionsMissing(
            table.uri,
            f"it has rows, but no positions of {identity.arn}, so it is unknown how far each shard was read. "
            "Nothing was changed. Compute the positions from the rows with `kinesis-assets adopt`, or use an "
            "empty table for the stream",
        )


def commit(
    table: PositionedTable,
    *,
    expected: StreamPositions,
    listing: StreamListing,
    batch_id: int,
    moved: Mapping[str, ShardPosition],
    files: Sequence[DataFile],
    added: Mapping[str, RangeStats],
    by: str | None = None,
) -> CommitResult:
    """Commit the files of an attempt and the positions of its shards, both or neither.

    Args:
        expected: The positions that the attempt started from, with every listed shard.
        batch_id: The attempt's id, which every row of its files carries.
        moved: The new positions, by shard id: of the shards that it read, of expired ones that it gave up,
            and of those for which it records a shorter retention.
        files: The data files that it wrote; they contain only rows of the shards in `moved`.
        added: The facts about the ranges that it read, by shard id; those without rows are not stored.
        by: The Dagster run id or the person that commits.

    Raises:
        AttemptExpired: The attempt is too old.
        DataFileInvalid: A file is missing or does not have its rows.
        TableRewritten: The table was restored or overwritten since *expected*.
        CommitFailed: Every try failed, or the batch was committed before.
        CommitUnknown: The chain of positions is broken, or the table could not be read after a try.
    """
    conflicts: dict[str, PositionConflict] = {}

    def prepare(snapshot: TableSnapshot, current: StreamPositions) -> Try[CommitResult]:
        nonlocal moved, files
        listed = {shard.shard_id for shard in listing.shards}
        current = table.chain.with_archived(current, {*listed, *moved}).with_listing(listing)
        merged, refused = merge(current, expected, moved, table.chain.back_from(current))
        # A refused shard stays refused, even if it returns to its old position: its rows are removed here.
        # `moved` changes after the files do, so that the next try repeats a removal that failed.
        layout = table.layout
        files = [part for file in files for part in without_shards(table.files, file, refused, layout)]
        moved = {shard_id: position for shard_id, position in moved.items() if shard_id not in refused}
        conflicts.update(refused)
        if not moved:
            return Try(CommitResult(None, (), conflicts))
        check_files(table, batch_id, files)
        new = next_positions(
            current,
            merged,
            identity=expected.identity,
            commit_id=new_id(table.clock),
            batch_id=batch_id,
            examined=snapshot.version,
            listed_at=current.listed_at,
            added={shard_id: stats for shard_id, stats in added.items() if shard_id in moved},
            by=by,
        )
        retired = {
            shard_id
            for shard_id, shard in merged.items()
            if shard.finished and shard_id not in listed and shard_id not in moved
        }
        return Try(
            CommitResult(None, files, dict(conflicts)),
            new.commit_id,
            partial(snapshot.commit, files, identity=new.identity, positions=new, retired=retired),
        )

    commit_attributes = {STREAM: expected.identity.name, TABLE: table.uri}
    with timed(COMMIT_DURATION, commit_attributes, table.clock.monotonic):
        result, version = commit_positions(table, expected, batch_id, prepare, for_rows=bool(files))
    return replace(result, version=version)


def read_until(batch_id: int) -> float:
    """Return the time until which an attempt may read, in seconds since the epoch."""
    return time_of_id(batch_id) + MAX_READING_TIME.total_seconds()


def check_files(table: StoredTable, batch_id: int, files: Sequence[WrittenFile]) -> None:
    """Check that an attempt may still commit its files.

    Raises:
        AttemptExpired: The attempt is too old.
        DataFileInvalid: A file is missing, does not have its rows, or is named twice.
    """
    age = timedelta(seconds=table.clock.time() - time_of_id(batch_id))
    if age > MAX_ATTEMPT_AGE:
        raise AttemptExpired(
            table.uri,
            f"batch {batch_id} is {age} old, and its files may have been vacuumed. Nothing was committed; "
            "run again",
        )
    if len({file.path for file in files}) < len(files):
        raise DataFileInvalid(
            table.uri, f"batch {batch_id} names a data file twice. Nothing was committed; run again"
        )
    for file in files:
        verify(table.uri, table.files, file)


def claim(table: PositionedTable, identity: StreamIdentity) -> None:
    """Write the owning stream into the properties of a table that has positions of it, and no owner yet.

    Raises:
        TableOfAnotherStream: The table belongs to another stream.
        CommitFailed: Every try failed. Nothing else depends on it, and the next run tries again.
        TableError: The table cannot be used.
    """

    def claimed(*, may_commit: bool) -> bool | None:
        snapshot = table.snapshot()
        snapshot.refuse_other_stream(identity)
        if snapshot.owner is not None or not snapshot.owners:
            return True
        if may_commit:
            snapshot.claim(identity)
        return None

    commit_until_known(table, claimed)
