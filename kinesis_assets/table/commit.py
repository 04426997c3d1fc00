"""Positions and rows in one commit: the protocol.

An attempt reads the positions (*expected*), draws a batch id, lands files, and commits. Each try opens the
table afresh, takes out the shards that others have moved, merges the rest into the positions that stand
now, and commits through that same snapshot, so that Delta refuses it if anything moved in between. A try
that raised may have landed all the same (a lost answer looks like a conflict): only the positions tell, by
the chain of `previous` from those that stand back to *expected*. Nothing is ever deleted on the way: files
that no commit points at are vacuum's.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import AttemptExpired, CommitFailed, CommitUnknown, PositionsUnreadable
from kinesis_assets.table.files import verify, without_shards
from kinesis_assets.table.positions import FORMAT, StreamPositions, initial_positions, merge
from kinesis_assets.table.tokens import draw_token, drawn_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.errors import PositionConflict
    from kinesis_assets.kinesis.client import StreamIdentity
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.shards import Shard
    from kinesis_assets.table.delta import PositionedTable, TableSnapshot
    from kinesis_assets.table.files import DataFile
    from kinesis_assets.table.positions import ShardPosition

VACUUM_RETENTION = timedelta(days=7)
"""Files that no commit points at are kept at least so long."""

_TRIES = 40
_LONGEST_WAIT = 1.0


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
    table: PositionedTable, stream: StreamIdentity, listed: Sequence[Shard], start: Position
) -> StreamPositions:
    """The stream's positions in the table, made by one position-only commit if there are none yet.

    Every shard listed at that moment gets the start. Of several runs at once, one freezes and all go on from
    what it wrote.

    Args:
        table: The table; created if missing.
        stream: Which stream.
        listed: All its shards.
        start: Where to begin; LATEST must have been made a time already.
    """
    table.create_if_missing()
    error: Exception | None = None
    for attempt in range(_TRIES + 1):
        snapshot = table.snapshot()
        standing = snapshot.positions(stream)
        if standing is not None:
            return standing
        if attempt == _TRIES:
            break
        token = draw_token()
        first = StreamPositions(
            format=FORMAT,
            stream=stream,
            token=token,
            previous=None,
            generation=0,
            batch_id=token,
            shards=initial_positions(listed, start),
        )
        error = _try(snapshot, [], first, attempt)
    raise _failed(table, error)


def commit(
    table: PositionedTable,
    *,
    expected: StreamPositions,
    listed: Sequence[Shard],
    batch_id: int,
    moved: Mapping[str, ShardPosition],
    files: Sequence[DataFile],
) -> CommitResult:
    """Commit an attempt's files and the positions of the shards it moved, both or neither.

    Args:
        table: The table.
        expected: The positions the attempt began from, with every listed shard.
        listed: The stream's shards as the attempt listed them.
        batch_id: The attempt's; every row of its files carries it.
        moved: The shards it read, as it leaves them.
        files: What it landed; rows of `moved` shards only.

    Raises:
        AttemptExpired: The attempt is too old.
        DataFileInvalid: A file is not there or not with its rows.
        CommitFailed: The tries are used up, or the batch was committed before.
        CommitUnknown: The chain of positions is broken.
    """
    conflicts: dict[str, PositionConflict] = {}
    error: Exception | None = None
    # By token, what each try held: one that raised may turn out to have landed.
    tried: dict[int, CommitResult] = {}
    for attempt in range(_TRIES + 1):
        snapshot = table.snapshot()
        current = snapshot.positions(expected.stream)
        if current is None:
            raise CommitUnknown(
                table.uri,
                f"the positions of {expected.stream.name} that batch {batch_id} began from are gone; "
                "was the table replaced? Look at its history before the next run",
            )
        token = _landed(table, snapshot, current, expected, batch_id)
        if token is not None and token not in tried:
            raise CommitFailed(table.uri, f"batch {batch_id} is committed already; plan anew to read on")
        if token is not None:
            return replace(tried[token], version=snapshot.version_of(token))
        if attempt == _TRIES:
            break
        current = current.with_listed(listed)
        merged, lost = merge(current, expected, moved)
        # Lost for good: a shard that came back to where it was has no rows of this attempt any more.
        conflicts |= lost
        moved = {shard_id: position for shard_id, position in moved.items() if shard_id not in lost}
        files = [part for file in files for part in without_shards(table.files, file, lost)]
        if not moved:
            return CommitResult(None, (), conflicts)
        _check(table, batch_id, files)
        following = StreamPositions(
            format=FORMAT,
            stream=expected.stream,
            token=draw_token(),
            previous=current.token,
            generation=current.generation + 1,
            batch_id=batch_id,
            shards=merged,
        )
        tried[following.token] = CommitResult(None, files, dict(conflicts))
        error = _try(snapshot, files, following, attempt)
    raise _failed(table, error)


def _landed(
    table: PositionedTable,
    snapshot: TableSnapshot,
    current: StreamPositions,
    expected: StreamPositions,
    batch_id: int,
) -> int | None:
    """The token under which a batch landed since *expected*, if it did."""
    link = current
    while link.token != expected.token:
        if link.batch_id == batch_id:
            return link.token
        if link.previous is None:
            raise CommitUnknown(
                table.uri,
                f"the positions that batch {batch_id} began from (token {expected.token}) are not among "
                "those before the present ones; was the table restored? Look at its history before the next "
                "run",
            )
        try:
            link = snapshot.positions_at(link.previous)
        except PositionsUnreadable as error:
            raise CommitUnknown(
                table.uri,
                f"whether batch {batch_id} landed cannot be told: {error}. "
                "Look for rows of that batch_id before the next run",
            ) from error
    return None


def _try(
    snapshot: TableSnapshot, files: Sequence[DataFile], positions: StreamPositions, attempt: int
) -> Exception | None:
    """One try, and a wait after an error, which is kept for the report: the next look at the table tells."""
    try:
        snapshot.commit(files, positions)
    except Exception as error:  # noqa: BLE001  # whatever was raised, the commit may have landed
        time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.05 * 2**attempt)))  # noqa: S311  # jitter
        return error
    return None


def _check(table: PositionedTable, batch_id: int, files: Sequence[DataFile]) -> None:
    age = timedelta(seconds=time.time() - drawn_at(batch_id))
    if age > VACUUM_RETENTION / 3:
        raise AttemptExpired(
            table.uri,
            f"batch {batch_id} is {age} old, and its files may have been vacuumed; nothing was committed, "
            "run again",
        )
    for file in files:
        verify(table.uri, table.files, file)


def _failed(table: PositionedTable, error: Exception | None) -> CommitFailed:
    return CommitFailed(table.uri, f"{_TRIES} tries failed, the last with: {error}. Nothing lost; run again")
