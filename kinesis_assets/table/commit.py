"""Positions and rows in one commit: the protocol.

An attempt reads the positions (*expected*), draws a batch id, lands files, and commits. Each try opens the
table afresh, takes out the shards that others have moved, merges the rest into the positions that stand
now, and commits through that same snapshot, so that Delta refuses it if anything moved in between. A try
that raised may have landed all the same (a lost answer looks like a conflict): only the positions tell, by
the chain of commits from those that stand back to *expected*. Nothing is ever deleted on the way: files
that no commit points at are vacuum's.

Of several runs at once that commit to different shards, each try lets one of them land. So that it is each of
them by turns, a try takes equally long for all: a positions file names the commits before it, those that were
read are kept in memory, and where many had to be read all the same, the table is opened again before the try.
Whoever was overtaken waits as long as anyone else, and not longer each time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import (
    AttemptExpired,
    CommitFailed,
    DataFileInvalid,
    PositionsMissing,
)
from kinesis_assets.table.commit_ids import draw_token, drawn_at
from kinesis_assets.table.commit_loop import until_told
from kinesis_assets.table.commits_since import caught_up, links_since
from kinesis_assets.table.data_file import verify, without_shards
from kinesis_assets.table.merge import last_moved_by, merge, moved_by_others
from kinesis_assets.table.ownership import refuse_another
from kinesis_assets.table.positions import FORMAT, StreamPositions, initial_positions
from kinesis_assets.table.rewrites import refuse_rewritten
from kinesis_assets.table.table import HISTORY_RETENTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.errors import PositionConflict
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions import Landed, ShardPosition
    from kinesis_assets.table.table import PositionedTable

OLDEST_ATTEMPT = HISTORY_RETENTION / 3
"""No older attempt may commit: what it wrote may be gone by a VACUUM of Spark, which goes by the table's own
retention, or may be about to go by one that is under way."""

LONGEST_READING = OLDEST_ATTEMPT - timedelta(hours=1)
"""An attempt reads for so long at most, so that it has the rest for its commit."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of an attempt's commit.

    Attributes:
        version: The table's version that holds it; None if it had nothing left to commit, or has since left
            the log's newest hundred.
        files: The data files in it.
        conflicts: The shards that another run had moved; none of their rows were added.
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
    """The stream's positions in the table, made by one position-only commit if there are none yet.

    Of several runs at once, one freezes and all go on from what it wrote.

    Args:
        table: The table; created if missing.
        listing: The stream and all its shards.
        starts: Where to begin, by shard id; LATEST must have been made a time already.
        replacing_older: Take the place of an older stream of the same name.

    Raises:
        CommitFailed: The tries are used up.
        TableOfAnotherStream: The table belongs to another stream.
        PositionsMissing: The table has rows, but no positions of the stream.
        TableRewritten: The table was restored or overwritten.
        TableError: The table cannot be used.
    """
    summary = listing.summary
    table.create_if_missing(summary.identity)

    def look(*, and_try: bool) -> StreamPositions | None:
        snapshot = table.snapshot()
        standing = snapshot.positions(summary.identity, or_older=replacing_older)
        # A version that knows of no owner may have begun another stream here, at the same time too.
        refuse_another(table.uri, snapshot.streams_in_log(), summary.identity)
        if standing is not None and standing.identity == summary.identity:
            return standing
        if standing is not None:
            refuse_rewritten(table, snapshot, standing)
        elif snapshot.standing_files():
            raise PositionsMissing(
                table.uri,
                f"has rows, but no positions of {summary.identity.arn}, so how far each shard was read into "
                "it is not known; nothing was changed. Compute the positions from the rows with "
                "`kinesis-assets adopt`, or give the stream an empty table",
            )
        if and_try and snapshot.owner is None:
            snapshot.claim(summary.identity)
            return None  # the next attempt commits, unless another stream claimed the table first
        if and_try:
            token = draw_token()
            first = StreamPositions(
                format=FORMAT,
                identity=summary.identity,
                token=token,
                previous=None if standing is None else standing.token,
                generation=0 if standing is None else standing.generation + 1,
                batch_id=token,
                shards=initial_positions(
                    listing,
                    starts,
                    wanted_from=summary.service_time if standing is None else summary.identity.created,
                ),
                listed_at=summary.service_time,
                predecessors=() if standing is None else snapshot.with_archive(standing).as_predecessors(),
                examined=snapshot.version,
            )
            snapshot.commit([], identity=first.identity, positions=first)
        return None

    return until_told(table, look)


def commit(
    table: PositionedTable,
    *,
    expected: StreamPositions,
    listing: StreamListing,
    batch_id: int,
    moved: Mapping[str, ShardPosition],
    files: Sequence[DataFile],
    landed: Mapping[str, Landed],
    by: str | None = None,
) -> CommitResult:
    """Commit an attempt's files and the positions of the shards it moved, both or neither.

    Args:
        table: The table.
        expected: The positions the attempt began from, with every listed shard.
        listing: The stream and its shards as the attempt listed them.
        batch_id: The attempt's; every row of its files carries it.
        moved: The shards it read, as it leaves them.
        files: What it landed; rows of `moved` shards only.
        landed: What those rows are, by shard.
        by: Who commits.

    Raises:
        AttemptExpired: The attempt is too old.
        DataFileInvalid: A file is not there or not with its rows.
        TableRewritten: The table was restored or overwritten since *expected*.
        CommitFailed: The tries are used up, or the batch was committed before.
        CommitUnknown: The chain of positions is broken, or the table could not be looked at after a try.
    """
    conflicts: dict[str, PositionConflict] = {}
    # By token, what each try held: one that raised may turn out to have landed.
    tried: dict[int, CommitResult] = {}

    def look(*, and_try: bool) -> CommitResult | None:
        nonlocal moved, files
        snapshot, current, token = caught_up(table, expected, batch_id, for_rows=bool(files) and and_try)
        if token is not None:
            if token not in tried:
                raise CommitFailed(table.uri, f"batch {batch_id} is committed already; plan anew to read on")
            return replace(tried[token], version=snapshot.version_of(token))
        if not and_try:
            return None
        refuse_rewritten(table, snapshot, current)
        listed = {shard.shard_id for shard in listing.shards}
        current = snapshot.recall(current, {*listed, *moved}).with_listing(listing)
        found: dict[str, StreamPositions] = {}
        if gone := moved_by_others(current, expected, moved):
            found = last_moved_by(links_since(table, snapshot, current, expected, batch_id), gone)
        merged, lost = merge(current, expected, moved, found)
        # Lost for good: a shard that came back to where it was has no rows of this attempt any more. Files
        # first: if that fails, the next look must find these shards still to be taken out.
        files = [part for file in files for part in without_shards(table.files, file, lost)]
        moved = {shard_id: position for shard_id, position in moved.items() if shard_id not in lost}
        conflicts.update(lost)
        if not moved:
            return CommitResult(None, (), conflicts)
        check_files(table, batch_id, files)
        following = StreamPositions(
            format=FORMAT,
            identity=expected.identity,
            token=draw_token(),
            previous=current.token,
            generation=current.generation + 1,
            batch_id=batch_id,
            shards=merged,
            landed={shard_id: brought for shard_id, brought in landed.items() if shard_id in moved},
            by=by,
            listed_at=current.listed_at,
            predecessors=current.predecessors,
            examined=snapshot.version,
        )
        tried[following.token] = CommitResult(None, files, dict(conflicts))
        retired = {
            shard_id
            for shard_id, shard in merged.items()
            if shard.finished and shard_id not in listed and shard_id not in moved
        }
        snapshot.commit(files, identity=following.identity, positions=following, retired=retired)
        # A try that raised nothing and stands in the log has landed: no need to open the table again.
        version = snapshot.landed_as(following.token)
        return None if version is None else replace(tried[following.token], version=version)

    return until_told(table, look)


def read_until(batch_id: int) -> float:
    """Until when an attempt may read, seconds since the epoch."""
    return drawn_at(batch_id) + LONGEST_READING.total_seconds()


def check_files(table: PositionedTable, batch_id: int, files: Sequence[DataFile]) -> None:
    """See that an attempt may still commit its files.

    Raises:
        AttemptExpired: It is too old.
        DataFileInvalid: A file is not there or not with its rows, or is named twice.
    """
    age = timedelta(seconds=time.time() - drawn_at(batch_id))
    if age > OLDEST_ATTEMPT:
        raise AttemptExpired(
            table.uri,
            f"batch {batch_id} is {age} old, and its files may have been vacuumed; nothing was committed, "
            "run again",
        )
    if len({file.path for file in files}) < len(files):
        raise DataFileInvalid(
            table.uri, f"batch {batch_id} names a data file twice; nothing was committed, run again"
        )
    for file in files:
        verify(table.uri, table.files, file)
