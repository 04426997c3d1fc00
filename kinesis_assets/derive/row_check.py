"""Checks that a source has as many rows of each commit as the commit recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from kinesis_assets.derive.cursor import Records
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.errors import SourceRowsMissing, TableUnreachable, TableUnsuitable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.derive.ranked_files import RankedFile
    from kinesis_assets.derive.source import Source
    from kinesis_assets.derive.source_commits import SourceCommit

_EXAMINE = "Nothing was changed. Examine the table with `kinesis-assets doctor --rows`"


@dataclass(frozen=True, slots=True)
class Missing:
    """A batch of which rows are missing.

    Attributes:
        commit: The commit that added it, with the number of its rows.
        found: How many of them are in the table.
        added_again: How many of the others later amendments added again, by their batch id.
    """

    commit: SourceCommit
    found: int
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
        Each batch of which rows are missing.

    Raises:
        TableUnsuitable: There are more rows.
    """
    if not source.keeps_rows:
        return []
    found = _count(source, taken, files)
    missing = []
    for commit in source.with_rows(taken):
        rows, added = found.get(commit.batch_id, 0), commit.rows or 0
        if rows > added:
            raise TableUnsuitable(
                source.uri, f"{_differ(commit, rows)}: another program has added rows to it. {_EXAMINE}"
            )
        if rows < added:
            refilled = _added_again(source, commit, commits)
            missing.append(Missing(commit, rows, refilled))
    return missing


def deleted_rows(
    source: Source, commits: Sequence[SourceCommit], missing: Sequence[Missing]
) -> list[DeletedRows]:
    """Return the rows that are missing, and that no later amendment has added again.

    Args:
        source: The source.
        commits: Its commits since the consumer's position.
        missing: The batches of which rows are missing.

    Raises:
        SourceRowsMissing: No amendment explains it.
    """
    floor = max((commit.floor for commit in commits if commit.floor is not None), default=None)
    rewound = {shard_id for commit in commits for shard_id in commit.rewound}
    deleted = []
    for each in missing:
        commit = each.commit
        lost = (commit.rows or 0) - each.found - sum(each.added_again.values())
        if not lost:
            continue
        expired = floor is not None and source.may_expire(commit, floor)
        if not expired and rewound.isdisjoint(commit.ranges):
            raise SourceRowsMissing(
                source.uri, f"{_differ(commit, each.found)}, and no amendment says why. {_EXAMINE}"
            )
        deleted.append(
            DeletedRows(
                deletion=Deletion.EXPIRED if expired else Deletion.REWOUND,
                rows=lost,
                batch_id=commit.batch_id,
                before=floor if expired else None,
            )
        )
    return deleted


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


def _differ(commit: SourceCommit, rows: int) -> str:
    return f"batch {commit.batch_id} added {commit.rows} rows, but {rows} are in the table"


def _added_again(source: Source, commit: SourceCommit, commits: Sequence[SourceCommit]) -> Mapping[int, int]:
    """Return how many rows of a commit's ranges later amendments added, by their batch id.

    An amendment adds only rows that the table lacks, so each of them was missing.
    """
    later = [each.batch_id for each in commits if each.amends and each.rows and each.id > commit.id]
    parts = [
        f"({Records(batch_id, shard_id, *range_.places).condition})"
        for batch_id in later
        for shard_id, range_ in commit.ranges.items()
    ]
    return _counted(source, " OR ".join(parts)) if parts else {}


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
