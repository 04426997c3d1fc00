"""A commit is tried until the table tells what became of it."""

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

_Told_co = TypeVar("_Told_co", covariant=True)

_TRIES = 40
"""Of those that failed; being overtaken is no failure."""

_REFUSALS = 2
"""Tries in a row that are refused for lack of permission, or the like, until no other is made: one may be due
to credentials that are being replaced."""

_LONGEST_WAIT = 1.0
_LONGEST_SECONDS = 600.0

_OVERTAKEN_WAIT = 0.1
"""Seconds that whoever was overtaken waits at the most: as long as the others, however often."""


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
        CommitUnknown: The table could not be read after a try.
    """
    error: Exception | None = None
    refused: list[TableNotWritable] = []
    deadline = time.monotonic() + _LONGEST_SECONDS
    attempt = overtaken = 0
    while True:
        last = attempt == _TRIES or time.monotonic() > deadline or len(refused) == _REFUSALS
        try:
            told = look(and_try=not last)
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
                    f"whether the commit landed cannot be told, the table cannot be looked at: {raised}. "
                    "Run again when it can be: a run goes on from what the table holds",
                ) from None  # see `delta`
            error = raised
            # A read that is refused proves nothing: the previous try may have landed.
            refusal = None
            if not isinstance(raised, TableUnreachable):
                refusal = not_writable(table.uri, raised, "Nothing was committed.")
            refused = [] if refusal is None else [*refused, refusal]
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.05 * 2**attempt)))  # noqa: S311  # jitter
            attempt += 1
            continue
        if told is not None:
            return told
        if last:
            break
        attempt += 1
    if refused:
        raise refused[-1]
    tries = attempt + overtaken
    raise CommitFailed(table.uri, f"{tries} tries failed, the last with: {error}. Nothing lost; run again")
