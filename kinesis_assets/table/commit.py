"""Positions and rows in one commit: the protocol.

An attempt reads the positions (*expected*), draws a batch id, lands files, and commits. Each try opens the
table afresh, takes out the shards that others have moved, merges the rest into the positions that stand
now, and commits through that same snapshot, so that Delta refuses it if anything moved in between. A try
that raised may have landed all the same (a lost answer looks like a conflict): only the positions tell, by
the chain of `previous` from those that stand back to *expected*. Nothing is ever deleted on the way: files
that no commit points at are vacuum's.
"""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from kinesis_assets.errors import (
    AttemptExpired,
    CommitFailed,
    CommitUnknown,
    DataFileInvalid,
    KinesisAssetsError,
    PositionsMissing,
    PositionsUnreadable,
    TableUnreachable,
)
from kinesis_assets.table.delta import HISTORY_RETENTION
from kinesis_assets.table.files import verify, without_shards
from kinesis_assets.table.positions import FORMAT, StreamPositions, initial_positions, merge, movers, taken
from kinesis_assets.table.refusals import not_writable
from kinesis_assets.table.rewrites import refuse_rewritten
from kinesis_assets.table.tokens import draw_token, drawn_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.errors import PositionConflict, TableNotWritable
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.delta import PositionedTable, TableSnapshot
    from kinesis_assets.table.files import DataFile
    from kinesis_assets.table.positions import Landed, ShardPosition

_Told_co = TypeVar("_Told_co", covariant=True)

OLDEST_ATTEMPT = HISTORY_RETENTION / 3
"""No older attempt may commit: what it wrote may be gone by a VACUUM of Spark, which goes by the table's own
retention, or may be about to go by one that is under way."""

LONGEST_READING = OLDEST_ATTEMPT - timedelta(hours=1)
"""An attempt reads for so long at most, so that it has the rest for its commit."""

_TRIES = 40
_REFUSALS = 2
"""Tries in a row that are refused for lack of permission, or the like, until no other is made: one may be due
to credentials that are being replaced."""
_LONGEST_WAIT = 1.0
_LONGEST_SECONDS = 600.0


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
            return None  # the next look commits, unless another stream's claim came first
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
                predecessors=() if standing is None else standing.as_predecessors(),
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
        snapshot = table.snapshot_for_rows() if files and and_try else table.snapshot()
        current = snapshot.positions(expected.identity)
        if current is None:
            raise CommitUnknown(
                table.uri,
                f"the positions of {expected.identity.name} that batch {batch_id} began from are gone; "
                "was the table replaced? Look at its history before the next run",
            )
        token = landed_since(table, snapshot, current, expected, batch_id)
        if token is not None:
            if token not in tried:
                raise CommitFailed(table.uri, f"batch {batch_id} is committed already; plan anew to read on")
            return replace(tried[token], version=snapshot.version_of(token))
        if not and_try:
            return None
        refuse_rewritten(table, snapshot, current)
        current = current.with_listing(listing)
        found: dict[str, StreamPositions] = {}
        if gone := taken(current, expected, moved):
            links = _links_since(table, snapshot, current, expected, batch_id)
            found = movers([*links, expected], gone)
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
        snapshot.commit(files, identity=following.identity, positions=following)
        # A try that raised nothing and stands in the log has landed: no need to open the table again.
        version = snapshot.landed_as(following.token)
        return None if version is None else replace(tried[following.token], version=version)

    return until_told(table, look)


class _Look(Protocol[_Told_co]):
    """One look at the table: what became of the commit, or None and, if asked to, one try of it."""

    def __call__(self, *, and_try: bool) -> _Told_co | None: ...


def until_told(table: PositionedTable, look: _Look[_Told_co]) -> _Told_co:
    """Look and try, bounded, until the table tells what became of the commit.

    Whatever a look or a try raises says nothing of whether a commit landed, so the next look decides; only
    what no further look can mend ends it.

    Raises:
        TableNotWritable: The tries are refused, and others would be; nothing was committed.
        CommitFailed: The tries are used up; nothing was committed.
        CommitUnknown: The table could not be looked at after a try.
    """
    error: Exception | None = None
    refused: list[TableNotWritable] = []
    deadline = time.monotonic() + _LONGEST_SECONDS
    for attempt in itertools.count():
        last = attempt == _TRIES or time.monotonic() > deadline or len(refused) == _REFUSALS
        try:
            told = look(and_try=not last)
        except Exception as raised:
            if isinstance(raised, KinesisAssetsError) and not isinstance(raised, TableUnreachable):
                raise
            if last:
                raise CommitUnknown(
                    table.uri,
                    f"whether the commit landed cannot be told, the table cannot be looked at: {raised}. "
                    "Run again when it can be: a run goes on from what the table holds",
                ) from None  # see `delta`
            error = raised
            # A look that is refused says nothing: a write of the try before may have landed.
            refusal = None
            if not isinstance(raised, TableUnreachable):
                refusal = not_writable(table.uri, raised, "Nothing was committed.")
            refused = [] if refusal is None else [*refused, refusal]
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.05 * 2**attempt)))  # noqa: S311  # jitter
            continue
        if told is not None:
            return told
        if last:
            break
    if refused:
        raise refused[-1]
    raise CommitFailed(table.uri, f"{attempt} tries failed, the last with: {error}. Nothing lost; run again")


def landed_since(
    table: PositionedTable,
    snapshot: TableSnapshot,
    current: StreamPositions,
    expected: StreamPositions,
    batch_id: int,
) -> int | None:
    """The token under which a batch landed since *expected*, if it did.

    Raises:
        CommitUnknown: The chain of positions is broken.
    """
    links = _links_since(table, snapshot, current, expected, batch_id)
    return next((link.token for link in links if link.batch_id == batch_id), None)


def _links_since(
    table: PositionedTable,
    snapshot: TableSnapshot,
    current: StreamPositions,
    expected: StreamPositions,
    batch_id: int,
) -> Iterator[StreamPositions]:
    """The commits since *expected*, newest first."""
    link = current
    while link.token != expected.token:
        yield link
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
