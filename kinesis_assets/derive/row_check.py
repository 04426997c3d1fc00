"""Checks that a source has as many rows of each commit as the commit recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from kinesis_assets.derive.cursor import Records
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.errors import SourceRowsMissing, TableUnreachable, TableUnsuitable
from kinesis_assets.table.row_predicates import sql_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from kinesis_assets.derive.files import RankedFile
    from kinesis_assets.derive.source import Source
    from kinesis_assets.derive.source_commits import SourceCommit

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
