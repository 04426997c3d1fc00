"""Tries to commit until the outcome is known.

Each try opens the table again, and searches the commits since the attempt started for the attempt's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kinesis_assets.errors import (
    CommitFailed,
    CommitOvertaken,
    CommitUnknown,
    KinesisAssetsError,
    PositionsUnreadable,
    RoleNotAssumed,
    TableUnreachable,
    reason_of,
)
from kinesis_assets.table.rewrites import refuse_rewritten
from kinesis_assets.table.store.storage import not_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kinesis_assets.errors import TableNotWritable
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.stored_table import StoredTable


_Outcome_co = TypeVar("_Outcome_co", covariant=True)


class _HasBatch(Protocol):
    @property
    def commit_id(self) -> int: ...

    @property
    def batch_id(self) -> int: ...


_Commit = TypeVar("_Commit", bound=_HasBatch)
_Newest = TypeVar("_Newest")
_Outcome = TypeVar("_Outcome")


class _Step(Protocol[_Outcome_co]):
    """Reads the table and returns the outcome of the commit. If there is none yet, it returns None.

    With `may_commit` it tries to commit before it returns None, or the outcome if that is certain.
    """

    def __call__(self, *, may_commit: bool) -> _Outcome_co | None: ...


_UNKNOWN = (TableUnreachable, RoleNotAssumed)
"""The package's errors after which a try may have committed. Roles are assumed for repeated requests too."""


def commit_until_known(table: StoredTable, step: _Step[_Outcome_co]) -> _Outcome_co:
    """Repeat a step until it returns the outcome of the commit, as often as the table's policy allows.

    An error does not prove that a try failed, so the next step reads the table again. Only an error that no
    further step can resolve is raised at once.

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
            if isinstance(raised, KinesisAssetsError) and not isinstance(raised, _UNKNOWN):
                raise
            if last:
                raise CommitUnknown(
                    table.uri,
                    "it is unknown whether the commit succeeded, since the table cannot be read. Run again "
                    "when it can be read: the run continues from what the table contains. The last error "
                    f"was: {reason_of(raised)}",
                ) from None  # the cause may contain credentials, see `opening`
            error = raised
            # A refused read is no proof: the previous try may have committed.
            refusal = None
            if not isinstance(raised, _UNKNOWN):
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


@dataclass(frozen=True, slots=True)
class Try(Generic[_Outcome]):
    """What a try commits.

    Attributes:
        outcome: The outcome of the attempt if this is committed.
        commit_id: The commit id that the log points at then; None if there is nothing to commit.
    """

    outcome: _Outcome
    commit_id: int | None = None
    commit: Callable[[], object] = lambda: None


def commit_positions(
    table: PositionedTable,
    expected: StreamPositions,
    batch_id: int,
    prepare: Callable[[TableSnapshot, StreamPositions], Try[_Outcome]],
    *,
    for_rows: bool = False,
) -> tuple[_Outcome, int | None]:
    """Commit positions that follow those of the table, exactly once.

    Args:
        expected: The positions that the attempt started from.
        prepare: Returns what to commit on a version of the table with these positions. It is called for each
            try.
        for_rows: Prepare the table's schema for new rows.

    Returns:
        The outcome, and the version of the table that the commit created. The version is None if there was
        nothing to commit, or if it is no longer among the newest hundred.

    Raises:
        TableRewritten: The table was restored or overwritten since the newest positions.
        CommitFailed: Every try failed, or the batch was committed before.
        CommitUnknown: The positions are missing, their chain is broken, or the table could not be read after
            a try.
    """

    def prepare_if_not_rewritten(snapshot: TableSnapshot, current: StreamPositions) -> Try[_Outcome]:
        refuse_rewritten(table, snapshot, current)
        return prepare(snapshot, current)

    return _commit_batch(
        table,
        batch_id,
        lambda snapshot: require_positions(table.uri, snapshot, expected.identity),
        lambda newest: table.chain.since(newest, expected.commit_id),
        prepare_if_not_rewritten,
        for_rows=for_rows,
    )


def commit_amendment(
    table: PositionedTable,
    identity: StreamIdentity,
    expected: Amendment | None,
    batch_id: int,
    prepare: Callable[[TableSnapshot, Amendment | None], Try[_Outcome]],
    *,
    for_rows: bool = False,
) -> tuple[_Outcome, int | None]:
    """Commit an amendment that follows the newest one, exactly once.

    Args:
        expected: The newest amendment when the attempt started; None if there was none.
        prepare: As in `commit_positions`, with the newest amendment, which is None if there is none.

    Returns and raises the same as `commit_positions`, except `TableRewritten`.
    """
    before = None if expected is None else expected.commit_id
    return _commit_batch(
        table,
        batch_id,
        lambda snapshot: snapshot.amendment(identity),
        lambda newest: table.amendments.since(newest, before),
        prepare,
        for_rows=for_rows,
    )


def _commit_batch(
    table: PositionedTable,
    batch_id: int,
    newest_of: Callable[[TableSnapshot], _Newest],
    commits_since: Callable[[_Newest], Iterable[_Commit]],
    prepare: Callable[[TableSnapshot, _Newest], Try[_Outcome]],
    *,
    for_rows: bool,
) -> tuple[_Outcome, int | None]:
    """Commit what `prepare` returns until a commit of the batch is found. See `commit_positions`.

    Args:
        newest_of: Reads the newest entry of the chain that the commit continues.
        commits_since: Returns the commits from there back to the one that the attempt started from.
    """
    # By commit id, since a try that raised an error may prove to be committed.
    outcomes: dict[int, _Outcome] = {}

    def step(*, may_commit: bool) -> tuple[_Outcome, int | None] | None:
        for _ in range(_MAX_OPENINGS):
            snapshot = table.snapshot_for_rows() if for_rows and may_commit else table.snapshot()
            files_read = table.chain.files_read
            newest = newest_of(snapshot)
            own = find_commit(table.uri, commits_since(newest), batch_id)
            if own is not None or table.chain.files_read - files_read <= _MAX_FILES_READ:
                break
        if own is not None:
            if own.commit_id not in outcomes:
                raise CommitFailed(
                    table.uri, f"batch {batch_id} is already committed; plan again to continue reading"
                )
            return outcomes[own.commit_id], snapshot.version_of(own.commit_id)
        if not may_commit:
            return None
        new = prepare(snapshot, newest)
        if new.commit_id is None:
            return new.outcome, None
        outcomes[new.commit_id] = new.outcome
        new.commit()
        # If the next log entries show the commit, the table need not be opened again.
        version = snapshot.later_version_of(new.commit_id)
        return None if version is None else (new.outcome, version)

    return commit_until_known(table, step)


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
        commits: The commits since the attempt started, newest first, see `Chain.since`.

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
