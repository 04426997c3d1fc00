"""Repeats a commit until its outcome is known."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from kinesis_assets.errors import (
    CommitFailed,
    CommitOvertaken,
    CommitUnknown,
    KinesisAssetsError,
    TableUnreachable,
)
from kinesis_assets.table.refusals import not_writable

if TYPE_CHECKING:
    from kinesis_assets.errors import TableNotWritable
    from kinesis_assets.table.table import PositionedTable

_Outcome_co = TypeVar("_Outcome_co", covariant=True)

_TRIES = 40
"""Maximum number of failed tries. A try that another commit overtook does not count."""

_REFUSALS = 2
"""Consecutive tries that are refused, for lack of permission or the like, after which no other is made. A
single refusal may be due to credentials that are being replaced."""

_LONGEST_WAIT = 1.0
_LONGEST_SECONDS = 600.0
"""Maximum seconds between two tries, and for all of them."""

_OVERTAKEN_WAIT = 0.1
"""Maximum seconds to wait after another commit was first. It does not grow, so that each run gets its
turn."""


class _Step(Protocol[_Outcome_co]):
    """Reads the table and returns the outcome of the commit. If there is none yet, it returns None.

    With `may_commit` it tries to commit before it returns None, or the outcome if that is certain.
    """

    def __call__(self, *, may_commit: bool) -> _Outcome_co | None: ...


def commit_until_known(table: PositionedTable, step: _Step[_Outcome_co]) -> _Outcome_co:
    """Repeat a step until it returns the outcome of the commit, for a limited number of tries.

    An error does not prove that a try failed, so the next step reads the table again. Only an error that no
    further step can resolve is raised at once.

    Args:
        table: The table, for errors.
        step: Reads the table, and tries to commit if necessary.

    Raises:
        TableNotWritable: The tries were refused, and others would be too; nothing was committed.
        CommitFailed: Every try failed; nothing was committed.
        CommitUnknown: The table could not be read after a try.
    """
    error: Exception | None = None
    refused: list[TableNotWritable] = []
    deadline = time.monotonic() + _LONGEST_SECONDS
    tries = overtaken = 0
    while True:
        last = tries == _TRIES or time.monotonic() > deadline or len(refused) == _REFUSALS
        try:
            outcome = step(may_commit=not last)
        except CommitOvertaken as raised:
            error, overtaken, refused = raised, overtaken + 1, []
            time.sleep(random.uniform(0, _OVERTAKEN_WAIT))  # noqa: S311  # jitter
            continue
        except Exception as raised:
            if isinstance(raised, KinesisAssetsError) and not isinstance(raised, TableUnreachable):
                raise
            if last:
                raise CommitUnknown(
                    table.uri,
                    f"it is unknown whether the commit succeeded, since the table cannot be read: {raised}. "
                    "Run again when the table can be read: the run continues from what the table contains",
                ) from None  # the cause may contain credentials, see `table`
            error = raised
            # A refused read is no proof: the previous try may have committed.
            refusal = None
            if not isinstance(raised, TableUnreachable):
                refusal = not_writable(table.uri, raised, "Nothing was committed.")
            refused = [] if refusal is None else [*refused, refusal]
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.05 * 2**tries)))  # noqa: S311  # jitter
            tries += 1
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
        f"the commit failed {tries + overtaken} times, the last time with: {error}. Nothing was committed "
        "and no data is lost; run again",
    )
