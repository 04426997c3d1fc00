"""Checks that a source has as many rows of each commit as the commit recorded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from kinesis_assets.errors import SourceRowsMissing, TableUnreachable, TableUnsuitable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.derive.ranked_files import RankedFile
    from kinesis_assets.derive.source import Source, SourceCommit


def missing_rows(
    source: Source,
    commits: Sequence[SourceCommit],
    taken: Sequence[SourceCommit],
    files: Sequence[RankedFile],
) -> list[str]:
    """Compare the rows of commits with the numbers that the commits recorded.

    Returns:
        For each batch of which rows are missing, a clause of a message.

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


def _count(source: Source, commits: Sequence[SourceCommit], files: Sequence[RankedFile]) -> Mapping[int, int]:
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
