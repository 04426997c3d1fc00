"""The rows of a table that a consumer has not consumed yet, for any engine."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from kinesis_assets.derive.cursor import Cursor, Selection
from kinesis_assets.derive.files import TableFile, files_of
from kinesis_assets.derive.policy import MAX_BYTES
from kinesis_assets.derive.source import open_source
from kinesis_assets.errors import SourceRowsMissing, TableOfAnotherSource, TableUnreachable, TableUnsuitable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from kinesis_assets.derive.source import Source, SourceCommit


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows of one version of a table.

    Attributes:
        table: The URI of the table's folder.
        version: The version.
        files: The files with these rows. Some may have other rows too.
        selection: Which rows of the files.
        batch_column: The column with the batch id to which the selection applies.
        cursor: The position after these rows.
        more: Whether the version has rows after these.
        replaced: Files with rows that the same commits replaced or deleted. They are not part of the table.
        deleted: Which rows of the source were deleted since the last position, each for people.
    """

    table: str
    version: int
    files: Sequence[TableFile]
    selection: Selection
    batch_column: str
    cursor: Cursor
    more: bool
    replaced: Sequence[TableFile] = ()
    deleted: Sequence[str] = ()

    @property
    def condition(self) -> str:
        """The selection as a condition in SQL."""
        return self.selection.condition(self.batch_column)

    @property
    def bytes(self) -> int:
        """The size of the files in bytes, together."""
        return sum(file.size for file in self.files)

    def partitions(self, column: str) -> list[Any]:
        """Return the values of a partition column in these files, each once, in order."""
        values = {file.partition[column] for file in self.files}
        return sorted(values, key=lambda value: (value is None, value))


def new_rows(table: str, since: Cursor | None = None, *, max_bytes: int = MAX_BYTES) -> NewRows:
    """Return the next rows of a raw or derived table after a position.

    Without a position, the rows that the table has now are returned first, in steps.

    Args:
        table: The table's path or URI.
        since: The `cursor` of the last rows; None for the first.
        max_bytes: The size of files in bytes after which no further commit is included.

    Raises:
        InvalidInput: The path or URI is invalid.
        TableError: The table cannot be read, is neither raw nor derived, or was restored or overwritten.
        TableOfAnotherSource: The position belongs to another table.
        SourceCommitsMissing: The commits since the position are no longer recorded.
        SourceRowsMissing: The table has fewer rows than its commits added, and no amendment says why.
        TableUnsuitable: The table has more rows than its commits added.
    """
    return rows_since(open_source(table), since, max_bytes)


def rows_since(source: Source, since: Cursor | None, max_bytes: float) -> NewRows:
    """Return the next rows of an open source, see `new_rows`."""
    start = since or first_cursor(source)
    if start.source != source.id:
        raise TableOfAnotherSource(
            source.uri,
            f"has the id {source.id}, but the position belongs to the table with the id {start.source}; "
            "nothing was changed. Correct the source, or start again without a position",
        )
    commits = source.commits_since(start)
    if start.history is not None:
        return _history(source, start, start.history, commits, max_bytes)
    return _increment(source, start, commits, max_bytes)


def first_cursor(source: Source) -> Cursor:
    """Return the position before all rows that a source has now."""
    return msgspec.structs.replace(source.end, history=-1)


def _history(
    source: Source, start: Cursor, above: int, commits: Sequence[SourceCommit], max_bytes: float
) -> NewRows:
    """Return rows that the source had when its consumer started, in the order of their batch ids."""
    selection = Selection(without=frozenset(commit.batch_id for commit in commits), above=above)
    files = _files(source, selection)
    through = _limit(files, max_bytes)
    selection = msgspec.structs.replace(selection, through=through)
    return NewRows(
        table=source.folder.uri,
        version=source.delta.version(),
        files=[each.file for each in files if selection.may_include(each.first, each.last)],
        selection=selection,
        batch_column=source.batch_column,
        cursor=msgspec.structs.replace(start, history=through, unread=_first_date(source, files, through)),
        more=through is not None or bool(commits),
        deleted=[
            *(commit.rewound for commit in commits if commit.rewound),
            *(commit.expired for commit in commits if commit.expired and _has_unread(start, commit)),
        ],
    )


def _has_unread(start: Cursor, commit: SourceCommit) -> bool:
    """Return whether the rows that expired may include some of the history that were not consumed before."""
    return start.unread is None or commit.floor is None or commit.floor > start.unread


def _first_date(source: Source, files: Sequence[_RankedFile], through: int | None) -> date | None:
    """Return the first date of the rows in files that are left after a step; None if it is unknown."""
    if source.date_column is None or through is None:
        return None
    dates = {each.file.partition[source.date_column] for each in files if each.may_follow(through)}
    return None if None in dates else min(dates, default=None)


def _limit(files: Sequence[_RankedFile], max_bytes: float) -> int | None:
    """Return the batch id up to which rows are read in this step; None for all."""
    total = 0
    for each in sorted(files, key=lambda each: (each.last is None, each.last)):
        total += each.file.size
        if total >= max_bytes:
            later = any(other.last is None or other.last > (each.last or 0) for other in files)
            return each.last if later else None
    return None


def _increment(source: Source, start: Cursor, commits: Sequence[SourceCommit], max_bytes: float) -> NewRows:
    """Return the rows of the next commits."""
    files = _files(source, Selection(only=frozenset(commit.batch_id for commit in commits)))
    taken = _taken(commits, files, max_bytes)
    selection = Selection(only=frozenset(commit.batch_id for commit in taken))
    files = [each for each in files if selection.may_include(each.first, each.last)]
    landed = [commit.id for commit in taken if not commit.amends]
    amended = [commit.id for commit in taken if commit.amends]
    return NewRows(
        table=source.folder.uri,
        version=source.delta.version(),
        files=[each.file for each in files],
        selection=selection,
        batch_column=source.batch_column,
        cursor=msgspec.structs.replace(
            start,
            commit=landed[-1] if landed else start.commit,
            amendment=amended[-1] if amended else start.amendment,
        ),
        more=len(taken) < len(commits),
        replaced=[TableFile(file.path, file.size, file.rows) for commit in taken for file in commit.replaced],
        deleted=[
            *(commit.rewound for commit in taken if commit.rewound),
            *_missing_rows(source, commits, taken, files),
        ],
    )


def _taken(
    commits: Sequence[SourceCommit], files: Sequence[_RankedFile], max_bytes: float
) -> list[SourceCommit]:
    """Return the first commits, up to the one with which their files reach a size.

    A compacted file has rows of several commits. Each of them gets an equal part of its size.
    """
    batch_ids = sorted(commit.batch_id for commit in commits)
    sizes: dict[int, float] = dict.fromkeys(batch_ids, 0)
    for each in files:
        start = 0 if each.first is None else bisect_left(batch_ids, each.first)
        end = len(batch_ids) if each.last is None else bisect_right(batch_ids, each.last)
        for batch_id in batch_ids[start:end]:
            sizes[batch_id] += each.file.size / (end - start)
    totals = accumulate(sizes[commit.batch_id] for commit in commits)
    below = sum(1 for total in totals if total < max_bytes)
    return list(commits[: below + 1])


def _missing_rows(
    source: Source,
    commits: Sequence[SourceCommit],
    taken: Sequence[SourceCommit],
    files: Sequence[_RankedFile],
) -> list[str]:
    """Compare the rows of commits with the numbers that the commits recorded.

    Returns:
        For each batch of which rows are missing, a clause for people.

    Raises:
        SourceRowsMissing: There are fewer rows, and no amendment explains it.
        TableUnsuitable: There are more rows.
    """
    if not source.keeps_rows:
        return []
    found = _count(source, taken, files)
    missing = []
    for commit in source.with_rows(taken):
        rows, added = found.get(commit.batch_id, 0), commit.rows or 0
        if rows == added:
            continue
        differ = f"batch {commit.batch_id} added {added} rows, but {rows} are in the table"
        examine = "Nothing was changed. Examine the table with `kinesis-assets doctor --rows`"
        if rows > added:
            raise TableUnsuitable(source.uri, f"{differ}: another program has added rows to it. {examine}")
        if not any(each.rewound or each.expired for each in commits):
            raise SourceRowsMissing(source.uri, f"{differ}, and no amendment says why. {examine}")
        missing.append(f"{added - rows} of the {added} rows of batch {commit.batch_id}")
    return missing


def _count(
    source: Source, commits: Sequence[SourceCommit], files: Sequence[_RankedFile]
) -> Mapping[int, int]:
    """Return the number of rows in the table by batch id."""
    if all(each.rows_of_one_batch is not None for each in files):
        counted: Counter[int] = Counter()
        for each in files:
            counted[each.first or 0] += each.rows_of_one_batch or 0
        return counted
    column = source.batch_column
    ids = ", ".join(str(commit.batch_id) for commit in commits)
    query = f"SELECT {column}, count(*) AS found FROM rows WHERE {column} IN ({ids}) GROUP BY {column}"  # noqa: S608
    try:
        result = QueryBuilder().register("rows", source.delta).execute(query).read_all()
    except (DeltaError, OSError) as error:
        raise TableUnreachable(source.uri, f"its rows cannot be counted: {error}") from None
    return dict(zip(result[column].to_pylist(), result["found"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class _RankedFile:
    """A data file with the smallest and the greatest batch id of its rows; None if unknown."""

    file: TableFile
    first: int | None
    last: int | None

    def may_follow(self, batch_id: int) -> bool:
        """Return whether rows may have a greater batch id."""
        return self.last is None or self.last > batch_id

    @property
    def rows_of_one_batch(self) -> int | None:
        """The number of its rows if they have the same batch id; None otherwise, or if it is unknown."""
        return None if self.first is None or self.first != self.last else self.file.rows


def _files(source: Source, selection: Selection) -> list[_RankedFile]:
    """Return the files that may have selected rows."""
    column = source.batch_column
    files = files_of(source.delta, [column])
    if any(file.nulls[column] for file in files):
        raise TableUnsuitable(
            source.uri,
            f"has rows without a {column}, which another program added, so it is unknown whether they were "
            "consumed. Nothing was changed. Delete them, or give them the one of a commit",
        )
    found = [_RankedFile(file, file.smallest[column], file.greatest[column]) for file in files]
    return [each for each in found if selection.may_include(each.first, each.last)]
