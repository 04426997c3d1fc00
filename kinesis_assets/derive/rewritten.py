"""Refuses a derived table whose rows may not be those before its position, until it is rebuilt.

A RESTORE reverts files but not transactions, so the position is ahead of the rows afterwards, as in
`table.log.rewrites`. A copy of the rows has no position at all.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.derive.cursor import Selection
from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.files import files_of
from kinesis_assets.derive.records import REBUILD_COMMAND
from kinesis_assets.errors import PositionsMissing, PositionsUnreadable, TableRewritten

if TYPE_CHECKING:
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.records import DerivedCommit

_MAX_COMMITS = 100
"""Maximum number of commits that are searched for one with rows; each takes reading a file."""


def refuse_rewritten(snapshot: DerivedSnapshot) -> None:
    """Check that no restore or overwrite came after the newest commit.

    If another engine has deleted entries of the log, the rows are examined instead.

    Raises:
        TableRewritten: One did.
        TableUnreachable: The log cannot be read.
    """
    newest = snapshot.newest
    if newest is None:
        return
    rewrites = snapshot.table.rewrites.between(newest.examined, snapshot.delta.version())
    if rewrites is None:
        cause = "a version whose log entry was deleted" if _rows_are_missing(snapshot, newest) else ""
    else:
        cause = ", ".join(map(str, reversed(rewrites)))
    if cause:
        raise TableRewritten(
            snapshot.table.uri,
            f"{cause} replaced rows but not the position in the source, so rows may be missing or doubled; "
            f"nothing was read or changed. Run {REBUILD_COMMAND} to derive all rows again",
        )


def refuse_unknown_rows(snapshot: DerivedSnapshot) -> None:
    """Check that a table whose log points at no record of a commit has no rows.

    Raises:
        PositionsMissing: It has rows.
    """
    if snapshot.commit_id is None and files_of(snapshot.delta):
        raise PositionsMissing(
            snapshot.table.uri,
            "it has rows, but no position in its source, so it is unknown which rows of the source they were "
            "derived from; it may be a copy. Nothing was changed. Use an empty table, or run "
            f"{REBUILD_COMMAND} to delete these rows and derive all again",
        )


def _rows_are_missing(snapshot: DerivedSnapshot, newest: DerivedCommit) -> bool:
    """Return whether all rows of the newest commit with rows are missing."""
    commits = islice(snapshot.table.records.back_from(newest), _MAX_COMMITS)
    with suppress(PositionsUnreadable):  # an earlier record was pruned
        for commit in commits:
            if commit.rows:
                batch = Selection(only=frozenset([commit.batch_id]))
                return not any(
                    batch.may_include(file.smallest[BATCH_COLUMN], file.greatest[BATCH_COLUMN])
                    for file in files_of(snapshot.delta, [BATCH_COLUMN])
                )
            if commit.deleted:
                return False  # it may have deleted the rows of an earlier one
    return False
