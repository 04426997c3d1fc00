"""The rows of its source that a derived table has not consumed yet, according to the commits of both.

No row is read, and the number of commits that are read is bounded. So it costs about the same however far the
table is behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.derive.cursor import Selection
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from datetime import date

    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.derive.source import Source

MAX_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Backlog:
    """The commits of a source that are not consumed, from the first one with rows on.

    Attributes:
        since: No commit with rows that is not consumed was made before this time, in seconds since the epoch;
            None if there is none.
        commits: Number of commits; None if it is unknown, because rows are left that the source had when its
            consumer started.
        has_more: Whether there may be more commits, which were not read.
        deleted: Which rows of the source were deleted since the cursor because positions were set back, each
            as a clause of a message.
    """

    since: float | None
    commits: int | None = 0
    has_more: bool = False
    deleted: tuple[str, ...] = ()


def backlog_of(source: Source, cursor: Cursor | None, *, max_commits: int = MAX_COMMITS) -> Backlog:
    """Return what a consumer has not consumed of a version of its source.

    Args:
        source: The version. The consumer's cursor must not be newer.

    Raises:
        SourceCommitsMissing: The commits since the position are no longer recorded.
        TableOfAnotherSource: The position belongs to another table.
        TableUnreachable: A file cannot be read at present.
    """
    created = source.snapshot.created
    if cursor is None:
        return Backlog(created, None) if source.snapshot.data_files() else Backlog(None)
    cursor = source.accepted(cursor)
    commits = source.commits_since(cursor, max_commits)
    deleted = tuple(str(each) for commit in commits if commit.rewound for each in commit.deleted)
    has_more = sum(not commit.amends for commit in commits) >= max_commits
    if cursor.history is not None:
        since = created if cursor.history < 0 else time_of_id(cursor.history)
        return Backlog(since, None, has_more, deleted)
    if has_more:
        # The first commit that is not consumed came after the last one that is.
        since = created if cursor.commit is None else time_of_id(cursor.commit)
        return Backlog(since, len(commits), has_more, deleted)
    for number, commit in enumerate(commits):
        (counted,) = source.with_rows([commit])
        if counted.rows or counted.replaced:  # others, such as one of an idle shard, may be left
            return Backlog(time_of_id(commit.id), len(commits) - number, deleted=deleted)
    return Backlog(None, deleted=deleted)


def first_unconsumed_date(source: Source, cursor: Cursor) -> date | None:
    """Return the first arrival date of the rows of a raw table that a consumer may not have consumed.

    Returns:
        The date; None if all rows are consumed.

    Raises the errors of `backlog_of`, and `TableUnsuitable` for rows without a batch id.
    """
    commits = source.commits_since(source.accepted(cursor))
    files = source.files_of(commits)
    if cursor.history is not None:
        files += source.ranked_files(Selection(above=cursor.history))
    return min((each.file.partition[str(source.date_column)] for each in files), default=None)
