"""Deletes the rows of a derived table that are older than it keeps rows, by the date in one of its columns.

Rows expire by whole days in UTC, as those of a raw table. Null never does. Files in which all rows have
expired are removed, in one commit. Others with such rows are written again without them, a bounded number of
bytes in each further commit. A commit keeps the table's position, and names the rows that a consumer of the
table may not have consumed yet. What was derived from the others stays there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinesis_assets.derive.commit import Attempt, commit, until_not_overtaken
from kinesis_assets.derive.commit_entry import Floor
from kinesis_assets.derive.data_files import BATCH_COLUMN, Manifest
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.derive.read import parts_of, rows_of_file
from kinesis_assets.derive.write import rewritten
from kinesis_assets.errors import (
    CommitFailed,
    CursorConflict,
    TableUnreachable,
    TableUnsuitable,
    UpsertOvertaken,
)
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.data_file import WITHOUT_PARTITIONS
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT
from kinesis_assets.table.maintenance.steps import State, Step, totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.data_files import DerivedFile
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.policy import Retention
    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.data_file import TableFile

_REWRITTEN_BYTES = 2 << 30
"""Size of the files that are written again in one commit."""

_PARALLEL_READS = 16

_CONSUMED_AFTER = CHAIN_KEPT + timedelta(days=1)
"""Of batches that are older than this, only a consumer that reads the history may not have consumed rows."""

_EPOCH = date(1970, 1, 1).toordinal()


def expire(table: DerivedTable, retention: Retention, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
    """Delete the rows whose date is further back than the retention.

    Yields:
        A step for each commit. It is left if another commit replaced one of its files meanwhile. The rows of
        files that are written again are not counted in a dry run.

    Raises:
        TableUnreachable: A file cannot be read at present; what was yielded is done.
        TableUnsuitable: The table has no such column, or neither dates nor times in it.
    """
    snapshot = table.snapshot()
    newest = snapshot.newest
    if newest is None:
        return
    floor = Floor(retention.column, clock.now().date() - timedelta(days=retention.days))
    whole, others = _expired_files(snapshot, floor)
    before = newest.floor
    is_raised = before is None or before.column != floor.column or before.first < floor.first
    if not whole and not others and not is_raised:
        return
    of = f"before {floor.first}"
    try:
        snapshot.refuse_irreplaceable()
    except TableUnsuitable as error:
        yield Step("expire", of, State.LEFT, reason=str(error))
        return
    parts = [(Step("expire", of, State.PLANNED, *totals(whole)), whole, False)] if whole or not others else []
    for partition, files in others.items():
        place = "" if partition == WITHOUT_PARTITIONS else f" in {partition}"
        parts += [
            (Step("expire", f"{of}{place}", State.PLANNED, 0, *totals(part)[1:]), part, True)
            for part in parts_of(sorted(files, key=lambda each: each.path), _REWRITTEN_BYTES)
        ]
    for step, files, rewrites in parts:
        now = clock.now()
        yield step if dry_run else _done_or_left(table, floor, step, files, now, rewrites=rewrites)


def _expired_files(
    snapshot: DerivedSnapshot, floor: Floor
) -> tuple[list[TableFile], Mapping[str, list[TableFile]]]:
    """Return the files all of whose rows have expired; and those with some, by their partition's name."""
    name, schema = floor.column, arrow_schema(snapshot.schema)
    kind = schema.field(name).type if name in schema.names else None
    if kind is None or not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        found = "no such column" if kind is None else f"the type {kind}"
        raise TableUnsuitable(
            snapshot.uri,
            f"has {found} for retention_column: {name}, by whose date or time rows expire; no row was "
            "deleted. Name a column with dates or timestamps, as from CAST(timestamp_millis(at) AS DATE)",
        )
    files = snapshot.data_files([BATCH_COLUMN, *([] if name in snapshot.partition_by else [name])])
    whole: list[TableFile] = []
    others: defaultdict[str, list[TableFile]] = defaultdict(list)
    with ThreadPoolExecutor(_PARALLEL_READS) as pool:
        bounds = pool.map(partial(_bounds, snapshot, floor), files)
        for file, (first, last, has_null) in zip(files, bounds, strict=True):
            if first is not None and first >= floor.first:
                continue
            if last is not None and last < floor.first and not has_null:
                whole.append(file)
            else:
                others[file.partition_name].append(file)
    return whole, others


def _bounds(
    snapshot: DerivedSnapshot, floor: Floor, file: TableFile
) -> tuple[date | None, date | None, bool]:
    """Return the first and the last date of a file, or None if they are unknown, and whether it has nulls.

    The first date of a file with nothing but nulls is the last one that there is.
    """
    name = floor.column
    if name in file.partition:
        value = file.partition[name]
        return (date.max, None, True) if value is None else (value, value, False)
    if file.nulls[name] is not None and file.nulls[name] == file.rows:
        return date.max, None, True
    days = [file.smallest[name], file.greatest[name]]
    if all(isinstance(day, int) for day in days):
        first, last = (_date_of(day) for day in days)
        return first, last, file.nulls[name] != 0
    return _bounds_in_footer(snapshot.table, file, name)


def _date_of(day: int) -> date:
    """Return a day since 1970 as a date; the first or last one that there is in place of others."""
    return date.fromordinal(min(max(day + _EPOCH, date.min.toordinal()), date.max.toordinal()))


def _bounds_in_footer(
    table: DerivedTable, file: TableFile, name: str
) -> tuple[date | None, date | None, bool]:
    """Return the same from the footer of a file.

    The log has no bounds of times, and none of dates either if those of another column are unknown.
    """
    try:
        with table.files.open_input_file(file.path) as opened:
            footer = pq.ParquetFile(opened).metadata
    except (OSError, pa.ArrowException) as error:
        raise TableUnreachable(table.uri, f"the footer of {file.path} cannot be read: {error}") from None
    columns = [
        column
        for group in map(footer.row_group, range(footer.num_row_groups))
        for column in map(group.column, range(group.num_columns))
        if column.path_in_schema == name
    ]
    found = [column.statistics for column in columns]
    if not all(each is not None and each.has_null_count for each in found):
        return None, None, True
    known = [each for each in found if each.num_values]
    if not known:
        return date.max, None, True
    try:
        bounds = [bound for each in known if each.has_min_max for bound in (each.min, each.max)]
    except OverflowError:  # a day after the year 9999
        bounds = []
    if len(bounds) < 2 * len(known) or not all(isinstance(bound, date) for bound in bounds):
        return None, None, True
    return _utc(min(bounds)), _utc(max(bounds)), any(each.null_count for each in found)


def _utc(value: date) -> date:
    if not isinstance(value, datetime):
        return value
    return (value.astimezone(UTC) if value.tzinfo else value).date()


def _done_or_left(
    table: DerivedTable,
    floor: Floor,
    step: Step,
    files: Sequence[TableFile],
    now: datetime,
    *,
    rewrites: bool,
) -> Step:
    """Delete the rows of files that have expired, and return the step as done or as left."""
    batch_id = new_id(table.clock)
    written, deleted = (
        _written(table, floor, files, batch_id) if rewrites else ((), _rows_by_batch(table, files))
    )
    if rewrites and not deleted:
        return replace(step, state=State.DONE, files=0, bytes=0)
    expired = _named(deleted, floor, recent=(now - _CONSUMED_AFTER).timestamp())

    def attempt() -> DerivedCommit:
        base = table.snapshot()
        newest = base.newest
        present = {file.path for file in base.data_files()}
        if newest is None or not all(file.path in present for file in files):
            raise CommitFailed(
                table.uri,
                "another commit has replaced files with rows that have expired. Nothing was changed, run "
                "again later",
            )
        before = newest.floor or Floor(floor.column, floor.first)
        first = max(before.first, floor.first) if before.column == floor.column else floor.first
        try:
            return commit(
                table,
                Attempt(
                    cursor=newest.cursor,
                    batch_id=batch_id,
                    manifest=Manifest(tuple(written)),
                    definition=newest.definition,
                    consumed=newest.consumed,
                    maintains=True,
                    floor=Floor(floor.column, first, before.rows + deleted.total()),
                    expired=expired,
                ),
                expected=base.commit_id,
                removed=files,
                base=base,
            )
        except CursorConflict as error:  # the files may be there still
            raise UpsertOvertaken(table.uri, error.reason) from None

    try:
        until_not_overtaken(table, attempt)
    except (CommitFailed, UpsertOvertaken) as error:
        return replace(step, state=State.LEFT, reason=str(error))
    return replace(step, state=State.DONE, rows=deleted.total())


def _named(deleted: Mapping[int, int], floor: Floor, *, recent: float) -> tuple[DeletedRows, ...]:
    """Return the numbers of deleted rows as a commit names them: by batch, the older ones together."""
    named = partial(DeletedRows, deletion=Deletion.EXPIRED, before=floor.first)
    old = [batch for batch in deleted if time_of_id(batch) < recent]
    together = [named(rows=sum(deleted[batch] for batch in old), through=max(old))] if old else []
    return (
        *together,
        *(named(rows=deleted[batch], batch_id=batch) for batch in sorted(deleted.keys() - set(old))),
    )


def _rows_by_batch(table: DerivedTable, files: Sequence[TableFile]) -> Counter[int]:
    """Return the number of rows of files by batch id. Those of a file with several are read."""
    found: Counter[int] = Counter()
    for file in files:
        batch = file.smallest[BATCH_COLUMN]
        if file.rows is not None and batch is not None and batch == file.greatest[BATCH_COLUMN]:
            found[batch] += file.rows
            continue
        try:
            for rows in rows_of_file(table.files, file, pa.schema({BATCH_COLUMN: pa.int64()})):
                found.update(rows[BATCH_COLUMN].drop_null().to_pylist())
        except (OSError, pa.ArrowException) as error:
            raise TableUnreachable(table.uri, f"{file.path} cannot be read: {error}") from None
    return found


def _written(
    table: DerivedTable, floor: Floor, files: Sequence[TableFile], batch_id: int
) -> tuple[list[DerivedFile], Counter[int]]:
    """Write files again without the rows that have expired, and count these by batch id."""
    snapshot = table.snapshot()
    kind = snapshot.file_schema.field(floor.column).type
    first = floor.first if pa.types.is_date(kind) else datetime.combine(floor.first, time())
    found: Counter[int] = Counter()

    def kept(rows: pa.RecordBatch) -> pa.RecordBatch:
        old = pc.fill_null(pc.less(rows[floor.column], pa.scalar(first, kind)), False)
        found.update(rows.filter(old)[BATCH_COLUMN].drop_null().to_pylist())
        return rows.filter(pc.invert(old))

    return rewritten(snapshot, files, batch_id, kept), found
