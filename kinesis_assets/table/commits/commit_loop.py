"""Repeats a commit until its outcome is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from kinesis_assets.errors import (
    CommitFailed,
    CommitOvertaken,
    CommitUnknown,
    KinesisAssetsError,
    TableUnreachable,
    reason_of,
)
from kinesis_assets.table.store.refusals import not_writable

if TYPE_CHECKING:
    import pyarrow.fs

    from kinesis_assets.errors import TableNotWritable
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.table.policy import TablePolicy

_Outcome_co = TypeVar("_Outcome_co", covariant=True)


class WrittenTable(Protocol):
    """The part of a table that every commit needs, see `TableFiles`."""

    uri: str
    policy: TablePolicy
    files: pyarrow.fs.FileSystem

    @property
    def clock(self) -> Clock:
        """The clock by which the table is written."""


class _Step(Protocol[_Outcome_co]):
    """Reads the table and returns the outcome of the commit. If there is none yet, it returns None.

    With `may_commit` it tries to commit before it returns None, or the outcome if that is certain.
    """

    def __call__(self, *, may_commit: bool) -> _Outcome_co | None: ...


def commit_until_known(table: WrittenTable, step: _Step[_Outcome_co]) -> _Outcome_co:
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
