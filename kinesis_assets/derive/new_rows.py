"""The rows of a table that a consumer has not consumed yet, for any engine.

Checks that a source has as many rows of each commit as the commit recorded.

A whole table as a DataFrame, with the position up to which it was read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from kinesis_assets.derive.cursor import Records, Selection
from kinesis_assets.derive.files import TableFile, files_of
from kinesis_assets.derive.policy import MAX_BYTES, DeletedRows, Deletion
from kinesis_assets.derive.read import read
from kinesis_assets.derive.row_order import RowOrder
from kinesis_assets.derive.source import open_source
from kinesis_assets.errors import SourceRowsMissing, TableUnreachable, TableUnsuitable
from kinesis_assets.table.row_predicates import sql_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.derive.files import RankedFile
    from kinesis_assets.derive.source import Source
    from kinesis_assets.derive.source_commits import SourceCommit
    from kinesis_assets.kinesis.role import AssumedRole


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows of one version of a table.

    Attributes:
        table: The URI of the table's folder.
        version: The version.
        files: The files with these rows. Some may have other rows too.
        selection: Which rows of the files.
        order: The order of the rows, and the column with the batch id to which the selection applies.
        cursor: The position after these rows.
        more: Whether the version has rows after these.
        replaced: Files with rows that the same commits replaced or deleted. They are not part of the table.
        lost: The rows of the source that were deleted since the last position, or before they were read.
        again: Those of the rows that were deleted and added again, and may have been read before the last
            position. `without_again` leaves them out.
    """

    table: str
    version: int
    files: Sequence[TableFile]
    selection: Selection
    order: RowOrder
    cursor: Cursor
    more: bool
    replaced: Sequence[TableFile] = ()
    lost: Sequence[DeletedRows] = ()
    again: Sequence[Records] = ()

    @property
    def deleted(self) -> list[str]:
        """Which rows of the source were deleted, each as a clause of a message."""
        return [str(each) for each in self.lost]

    def without_again(self) -> NewRows:
        """Return the rows without those that may have been read before."""
        selection = msgspec.structs.replace(self.selection, without_records=tuple(self.again))
        return replace(self, selection=selection, again=())

    @property
    def condition(self) -> str:
        """The selection as a condition in SQL."""
        return self.selection.condition(self.order.batch_column)

    @property
    def bytes(self) -> int:
        """The size of the files in bytes, together."""
        return sum(file.size for file in self.files)

    def partitions(self, column: str) -> list[Any]:
        """Return the values of a partition column in these files, each once, in order."""
        values = {file.partition[column] for file in self.files}
        return sorted(values, key=lambda value: (value is None, value))


def new_rows(
    table: str,
    since: Cursor | None = None,
    *,
    max_bytes: int = MAX_BYTES,
    role: AssumedRole | None = None,
) -> NewRows:
    """Return the next rows of a raw or derived table after a position.

    Without a position, the rows that the table has now are returned first, in steps.

    Args:
        table: The table's path or URI.
        since: The `cursor` of the last rows; None for the first.
        max_bytes: The size of files in bytes after which no further commit is included.
        role: The role that reads the log of a table on S3, as `KinesisResource.role_for` returns it for a
            stream; None for the credentials of this process.

    Raises:
        InvalidInput: The path or URI is invalid.
        RoleNotAssumed: The role cannot be assumed.
        TableError: The table cannot be read, is neither raw nor derived, or was restored or overwritten.
        TableOfAnotherSource: The position belongs to another table.
        SourceCommitsMissing: The commits since the position are no longer recorded.
        SourceRowsMissing: The table has fewer rows than its commits added, and no amendment says why.
        TableUnsuitable: The table has more rows than its commits added.
    """
    return rows_since(open_source(table, role), since, max_bytes)


def rows_since(source: Source, since: Cursor | None, max_bytes: float) -> NewRows:
    """Return the next rows of an open source, see `new_rows`."""
    start = source.start if since is None else source.accepted(since)
    commits = source.commits_since(start)
    if start.history is not None:
        return _history(source, start, start.history, commits, max_bytes)
    rows = _increment(source, start, commits, max_bytes)
    return rows if since is not None else replace(rows, lost=[*source.forgotten, *rows.lost])


def _history(
    source: Source, start: Cursor, above: int, commits: Sequence[SourceCommit], max_bytes: float
) -> NewRows:
    """Return rows that the source had when its consumer started, in the order of their batch ids."""
    selection = Selection(without=frozenset(commit.batch_id for commit in commits), above=above)
    files = source.ranked_files(selection)
    through = _limit(files, max_bytes)
    selection = msgspec.structs.replace(selection, through=through)
    return NewRows(
        table=source.folder.uri,
        version=source.delta.version(),
        files=[each.file for each in files if selection.may_include(each.first, each.last)],
        selection=selection,
        order=RowOrder(source.batch_column, None, source.order_columns),
        cursor=msgspec.structs.replace(start, history=through, unread=_first_date(source, files, through)),
        more=through is not None or bool(commits),
        lost=[
            each
            for commit in commits
            if commit.rewound or _has_unread(start, commit)
            for each in commit.deleted
        ],
    )


def _has_unread(start: Cursor, commit: SourceCommit) -> bool:
    """Return whether the rows that expired may include some of the history that were not consumed before."""
    return commit.floor is not None and (start.unread is None or commit.floor > start.unread)


def _first_date(source: Source, files: Sequence[RankedFile], through: int | None) -> date | None:
    """Return the first date of the rows in files that are left after a step; None if it is unknown."""
    if source.date_column is None or through is None:
        return None
    left = [each for each in files if each.last is None or each.last > through]
    dates = {each.file.partition[source.date_column] for each in left}
    return None if None in dates else min(dates, default=None)


def _limit(files: Sequence[RankedFile], max_bytes: float) -> int | None:
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
    all_files = source.files_of(commits)
    taken = _taken(commits, all_files, max_bytes)
    while True:
        selection = Selection(only=frozenset(commit.batch_id for commit in taken))
        files = [each for each in all_files if selection.may_include(each.first, each.last)]
        missing = missing_rows(source, commits, taken, files)
        needed = _through_added_again(commits, missing)
        if needed <= len(taken):
            break
        taken = list(commits[:needed])
    landed = [commit.id for commit in taken if not commit.amends]
    amended = [commit.id for commit in taken if commit.amends]
    return NewRows(
        table=source.folder.uri,
        version=source.delta.version(),
        files=[each.file for each in files],
        selection=selection,
        order=RowOrder(source.batch_column, tuple(commit.batch_id for commit in taken), source.order_columns),
        cursor=msgspec.structs.replace(
            start,
            commit=landed[-1] if landed else start.commit,
            amendment=amended[-1] if amended else start.amendment,
        ),
        more=len(taken) < len(commits),
        replaced=[TableFile(file.path, file.size, file.rows) for commit in taken for file in commit.replaced],
        lost=[
            *(each for commit in taken if commit.rewound for each in commit.deleted),
            *deleted_rows(source, commits, missing),
        ],
        again=source.added_again(start, taken),
    )


def _through_added_again(commits: Sequence[SourceCommit], missing: Sequence[Missing]) -> int:
    """Return how many of the first commits include the rows that are missing and were added again.

    They are consumed in one step with the commits that lack them. Afterwards, the position could not tell
    them from those that were consumed.
    """
    batch_ids = {batch_id for each in missing for batch_id in each.added_again}
    return max((n for n, commit in enumerate(commits, 1) if commit.batch_id in batch_ids), default=0)


def _taken(
    commits: Sequence[SourceCommit], files: Sequence[RankedFile], max_bytes: float
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


_EXAMINE = "Nothing was changed. Examine the table with `kinesis-assets doctor --rows`"


@dataclass(frozen=True, slots=True)
class Missing:
    """Rows of a shard that a batch lacks.

    Attributes:
        commit: The commit that added the batch.
        shard_id: The shard.
        rows: How many rows are missing.
        added_again: How many of them later amendments added again, by their batch id.
    """

    commit: SourceCommit
    shard_id: str
    rows: int
    added_again: Mapping[int, int]


def missing_rows(
    source: Source,
    commits: Sequence[SourceCommit],
    taken: Sequence[SourceCommit],
    files: Sequence[RankedFile],
) -> list[Missing]:
    """Compare the rows of commits with the numbers that the commits recorded.

    Args:
        source: The source.
        commits: Its commits since the consumer's position.
        taken: The first of them, which the consumer consumes.
        files: The files with their rows.

    Returns:
        The rows of each shard that are missing from a batch.

    Raises:
        TableUnsuitable: There are more rows.
    """
    if not source.keeps_rows:
        return []
    found = _count(source, taken, files)
    missing: list[Missing] = []
    for commit in source.with_rows(taken):
        rows, added = found.get(commit.batch_id, 0), commit.rows or 0
        if rows > added:
            raise TableUnsuitable(
                source.uri,
                f"batch {commit.batch_id} added {added} rows, but {rows} are in the table: another program "
                f"has added rows to it. {_EXAMINE}",
            )
        if rows < added:
            missing += _missing(source, commit, commits)
    return missing


def _missing(source: Source, commit: SourceCommit, commits: Sequence[SourceCommit]) -> Iterator[Missing]:
    """Yield the rows that a batch lacks.

    An amendment adds only rows that the table lacks. So each row that one adds in a range of the batch was
    missing from it.
    """
    later = [each.batch_id for each in commits if each.amends and each.rows and each.id > commit.id]
    for shard_id, range_ in commit.ranges.items():
        found = _counted(source, _of_shard(commit, shard_id)).get(commit.batch_id, 0)
        if found < range_.rows:
            parts = [Records(batch_id, shard_id, *range_.places).condition for batch_id in later]
            again = _counted(source, " OR ".join(f"({part})" for part in parts)) if parts else {}
            yield Missing(commit, shard_id, range_.rows - found, again)


def deleted_rows(
    source: Source, commits: Sequence[SourceCommit], missing: Sequence[Missing]
) -> list[DeletedRows]:
    """Return the rows that are missing, and that no later amendment has added again, by batch.

    Args:
        source: The source.
        commits: Its commits since the consumer's position.
        missing: The rows that are missing.

    Raises:
        SourceRowsMissing: No amendment explains it.
    """
    floor = max((commit.floor for commit in commits if commit.floor is not None), default=None)
    rewound = {shard_id for commit in commits for shard_id in commit.rewound}
    lost: Counter[tuple[int, Deletion]] = Counter()
    for each in missing:
        rows = each.rows - sum(each.added_again.values())
        if not rows:
            continue
        expired = floor is not None and _may_have_expired(source, each, floor)
        if not expired and each.shard_id not in rewound:
            raise SourceRowsMissing(
                source.uri,
                f"batch {each.commit.batch_id} lacks {rows} of the {each.commit.ranges[each.shard_id].rows} "
                f"rows of {each.shard_id} that it added, and no amendment says why. {_EXAMINE}",
            )
        lost[each.commit.batch_id, Deletion.EXPIRED if expired else Deletion.REWOUND] += rows
    return [
        DeletedRows(
            deletion=deletion,
            rows=rows,
            batch_id=batch_id,
            before=floor if deletion is Deletion.EXPIRED else None,
        )
        for (batch_id, deletion), rows in lost.items()
    ]


def _may_have_expired(source: Source, missing: Missing, floor: date) -> bool:
    """Return whether the missing rows may have arrived before a day.

    The records of a shard arrive in order. So they arrived after it was read before, and the first ones of
    a batch expire first.
    """
    commit, shard_id = missing.commit, missing.shard_id
    after, through = source.arrivals(commit, shard_id)
    if after is not None and after.astimezone(UTC).date() >= floor:
        return False
    range_ = commit.ranges[shard_id]
    if missing.rows == range_.rows:
        return through is None or through.astimezone(UTC).date() < floor

    def has(number: str | None) -> bool:
        condition = f"{_of_shard(commit, shard_id)} AND sequence_number = '{number}'"
        return bool(_counted(source, condition))

    return has(range_.last_sequence_number) and not has(range_.first_sequence_number)


def _of_shard(commit: SourceCommit, shard_id: str) -> str:
    return f"batch_id = {commit.batch_id} AND shard_id = {sql_text(shard_id)}"


def rows_added_again(source: Source, again: Sequence[Records]) -> list[DeletedRows]:
    """Return the number of records that were added again, for each batch.

    Args:
        source: The source.
        again: The records.
    """
    counts = _counted(source, " OR ".join(f"({each.condition})" for each in again)) if again else {}
    return [
        DeletedRows(
            deletion=Deletion.ADDED_AGAIN,
            rows=rows,
            batch_id=batch_id,
            shards=tuple(str(each) for each in again if each.batch_id == batch_id),
        )
        for batch_id, rows in sorted(counts.items())
    ]


def _count(source: Source, commits: Sequence[SourceCommit], files: Sequence[RankedFile]) -> Mapping[int, int]:
    """Return the number of rows in the table by batch id."""
    if all(each.rows_of_one_batch is not None for each in files):
        counted: Counter[int] = Counter()
        for each in files:
            counted[each.first or 0] += each.rows_of_one_batch or 0
        return counted
    ids = ", ".join(str(commit.batch_id) for commit in commits)
    return _counted(source, f"{source.batch_column} IN ({ids})")


def _counted(source: Source, condition: str) -> Mapping[int, int]:
    """Return the number of rows for which a condition is true, by batch id."""
    column = source.batch_column
    query = f"SELECT {column}, count(*) AS found FROM rows WHERE {condition} GROUP BY {column}"  # noqa: S608
    try:
        result = QueryBuilder().register("rows", source.delta).execute(query).read_all()
    except (DeltaError, OSError) as error:
        raise TableUnreachable(source.uri, f"its rows cannot be counted: {error}") from None
    return dict(zip(result[column].to_pylist(), result["found"].to_pylist(), strict=True))


def read_table(
    spark: SparkSession, table: str, *, role: AssumedRole | None = None
) -> tuple[DataFrame, dict[str, str | int]]:
    """Read the newest version of a raw or derived table, for an asset that is not a derived table itself.

    Spark's tasks open the files themselves, so no library for Delta or for S3 is needed.

    Args:
        spark: The session. Its executors need this package.
        table: The table's path or URI.
        role: The role that reads a table on S3, as `KinesisResource.role_for` returns it for a stream. The
            tasks of Spark assume it too. None for the credentials of each process.

    Returns:
        All rows of the version; and what was read, as metadata of a materialization: `source_rows`, the
        number of rows, unless a file of another writer does not say it; `source_version`, the version; and
        `cursor`, the position after these rows, with which `new_rows` continues.

    Raises:
        InvalidInput: The path or URI is invalid.
        RoleNotAssumed: The role cannot be assumed.
        TableError: The table cannot be read by files, is neither raw nor derived, or was restored or
            overwritten.
    """
    source = open_source(table, role)
    files = files_of(source.delta)
    counts = [file.rows for file in files if file.rows is not None]
    metadata: dict[str, str | int] = {
        **({"source_rows": sum(counts)} if len(counts) == len(files) else {}),
        "source_version": source.delta.version(),
        "cursor": str(source.end),
    }
    return read(spark, source.folder, source.delta, files), metadata
