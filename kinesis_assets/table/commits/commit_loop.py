"""Repeats a commit until its outcome is known.

Opens a table for an attempt's commit, and finds the commits made since it started, including its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from kinesis_assets.errors import (
    CommitFailed,
    CommitOvertaken,
    CommitUnknown,
    KinesisAssetsError,
    PositionsUnreadable,
    TableUnreachable,
    reason_of,
)
from kinesis_assets.table.store.suitability import not_writable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.errors import TableNotWritable
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable
    from kinesis_assets.table.version import StoredTable


_Outcome_co = TypeVar("_Outcome_co", covariant=True)


class _HasBatch(Protocol):
    @property
    def batch_id(self) -> int: ...


_Commit = TypeVar("_Commit", bound=_HasBatch)


class _Step(Protocol[_Outcome_co]):
    """Reads the table and returns the outcome of the commit. If there is none yet, it returns None.

    With `may_commit` it tries to commit before it returns None, or the outcome if that is certain.
    """

    def __call__(self, *, may_commit: bool) -> _Outcome_co | None: ...


def commit_until_known(table: StoredTable, step: _Step[_Outcome_co]) -> _Outcome_co:
    """Repeat a step until it returns the outcome of the commit, as often as the table's policy allows.

    An error does not prove that a try failed, so the next step reads the table again. Only an error that no
    further step can resolve is raised at once.

    Args:
        table: The table.
        step: Reads the table, and tries to commit if necessary.

    Raises:
        TableNotWritable: The tries were refused, and others would be too; nothing was committed.
        CommitFailed: Every try failed; nothing was committed.
        CommitUnknown: The table could not be read after a try.
    """
    error: Exception | None = None
    refused: list[TableNotWritable] = []
    retries, clock = table.policy.commits, table.clock
    deadline = clock.monotonic() + retries.seconds
    tries = overtaken = 0
    while True:
        last = tries == retries.tries or clock.monotonic() > deadline or len(refused) == retries.refusals
        try:
            outcome = step(may_commit=not last)
        except CommitOvertaken as raised:
            error, overtaken, refused = raised, overtaken + 1, []
            clock.sleep(retries.overtaken.wait(1))
            continue
        except Exception as raised:
            if isinstance(raised, KinesisAssetsError) and not isinstance(raised, TableUnreachable):
                raise
            if last:
                raise CommitUnknown(
                    table.uri,
                    "it is unknown whether the commit succeeded, since the table cannot be read. Run again "
                    "when it can be read: the run continues from what the table contains. The last error "
                    f"was: {reason_of(raised)}",
                ) from None  # the cause may contain credentials, see `table`
            error = raised
            # A refused read is no proof: the previous try may have committed.
            refusal = None
            if not isinstance(raised, TableUnreachable):
                refusal = not_writable(table.uri, raised, "Nothing was committed.")
            refused = [] if refusal is None else [*refused, refusal]
            tries += 1
            clock.sleep(retries.backoff.wait(tries))
            continue
        if outcome is not None:
            return outcome
        if last:
            break
        tries += 1
    if refused:
        raise refused[-1]
    raise CommitFailed(
        table.uri,
        f"the commit failed {tries + overtaken} times, the last time with: {error and reason_of(error)}. "
        "Nothing was committed and no data is lost; run again",
    )


_MAX_FILES_READ = 4
"""Maximum number of positions files to read between opening the table and the try. More take so long that
another commit is likely to come first."""

_MAX_OPENINGS = 5
"""Maximum number of times that the table is opened for that. Each time, fewer files remain to be read."""


def open_with_positions(
    table: PositionedTable, expected: StreamPositions, batch_id: int, *, for_rows: bool
) -> tuple[TableSnapshot, StreamPositions, int | None]:
    """Open the table, read its positions, and search for the commit of a batch.

    Args:
        table: The table.
        expected: The positions that the attempt started from.
        batch_id: The attempt's batch.
        for_rows: Prepare the table's schema for new rows.

    Returns:
        A snapshot of the table, its positions, and the commit id of the batch; None if it is not committed.

    Raises:
        CommitUnknown: The positions are missing, or their chain is broken.
    """
    openings = 0
    while True:
        openings += 1
        snapshot = table.snapshot_for_rows() if for_rows else table.snapshot()
        files_read = table.chain.files_read
        current = require_positions(table.uri, snapshot, expected.identity)
        since = table.chain.since(current, expected.commit_id)
        commit = find_commit(table.uri, since, batch_id)
        if (
            commit is not None
            or table.chain.files_read - files_read <= _MAX_FILES_READ
            or openings == _MAX_OPENINGS
        ):
            return snapshot, current, None if commit is None else commit.commit_id


def require_positions(
    table: str, snapshot: TableSnapshot, identity: StreamIdentity, *, or_older: bool = False
) -> StreamPositions:
    """Return the positions of a stream whose table had positions before. Raises as `TableSnapshot.positions`.

    Raises:
        CommitUnknown: They are missing.
    """
    found = snapshot.positions(identity, or_older=or_older)
    if found is None:
        raise CommitUnknown(
            table,
            f"the positions of {identity.name} are missing, so it is unknown what was committed before. The "
            "table may have been replaced: examine its history before the next run",
        )
    return found


def find_commit(table: str, commits: Iterable[_Commit], batch_id: int) -> _Commit | None:
    """Return the commit of a batch; None if it is not committed.

    Args:
        table: The table's URI, for the error.
        commits: The commits since the attempt started, newest first, see `Chain.since`.
        batch_id: The attempt's batch.

    Raises:
        CommitUnknown: The chain of commits is broken.
    """
    try:
        return next((commit for commit in commits if commit.batch_id == batch_id), None)
    except PositionsUnreadable as error:
        raise CommitUnknown(
            table,
            f"it is unknown whether batch {batch_id} was committed: {error}. Search the table for rows of "
            "this batch_id before the next run",
        ) from error
