"""The deletions that an upsert remembers: which of them a step reads, and how their files are kept few.

The files are not part of the table. Each commit names all of them, so a step that reads some adds its own in
the same compare-and-set. Small files are merged, by the steps if there are too many, otherwise by the
maintenance; only those of about the same time, so that a file is forgotten as a whole.

A deletion is forgotten only by the maintenance, whose clock is confirmed by another one, and only once both
the clock of the machine that committed it and the clock of the store say that it is old enough.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import NO_DELETIONS, DeletionFile, RememberedDeletions
from kinesis_assets.derive.data_files import DELETIONS_FOLDER, DerivedFileWriter
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.derive.read import rows_of_file
from kinesis_assets.derive.write import write_beside, writing_job
from kinesis_assets.errors import CursorConflict, TableUnreachable, UpsertOvertaken
from kinesis_assets.kinesis.clock import utc_now
from kinesis_assets.table.clocks import TOLERANCE
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE
from kinesis_assets.table.maintenance.steps import State, Step, totals
from kinesis_assets.table.store.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from kinesis_assets.derive.data_files import DerivedFile
    from kinesis_assets.derive.derivation import Derivation
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.write import ChangedRows
    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.maintenance.steps import MaintenanceLimits

_SMALL_BYTES = 8 << 20
"""Smaller files are merged."""

_MAX_SMALL_FILES = 48
"""A step that would leave more small files than this merges them."""

_PERIODS = 8
"""Files are merged if their deletions were committed in the same one of as many parts of the time for which
they are remembered, or in the same hour. So each is kept for an eighth of it or an hour too long at most."""

_HOUR = 3600.0

_EPOCH = date(1970, 1, 1).toordinal()


def remembered(
    derivation: Derivation, changed: ChangedRows, base: DerivedSnapshot, batch_id: int
) -> RememberedDeletions | None:
    """Write the deletions of a step that are to be remembered to files of their own.

    Returns:
        All deletions that the table remembers; None if it is not an upsert.
    """
    mode = derivation.mode
    if not isinstance(mode, Upsert):
        return None
    if mode.deleted_for is None:
        return NO_DELETIONS
    table, files = base.table, base.deletions(mode.order_by)
    if changed.deletions is not None:
        written = write_beside(table, changed.deletions, DELETIONS_FOLDER, batch_id)
        files += deletion_files(written.files, arrow_schema(base.schema), mode.key, utc_now(table.clock))
    seconds = int(mode.deleted_for.total_seconds())
    all_files = RememberedDeletions(order_by=mode.order_by, seconds=seconds, files=files)
    return with_few_files(base, all_files, mode.key, batch_id)


def deletion_files(
    written: Iterable[DerivedFile], schema: pa.Schema, key: Sequence[str], at: datetime
) -> tuple[DeletionFile, ...]:
    """Return files that were written as a commit names them.

    Args:
        key: The columns whose bounds are named.
        at: Time of the last commit that deleted one of the keys.
    """
    return tuple(
        DeletionFile(
            path=file.path,
            size=file.size,
            rows=file.rows,
            at=at,
            smallest=_bounds(file, "minValues", schema, key),
            greatest=_bounds(file, "maxValues", schema, key),
        )
        for file in written
    )


def _bounds(file: DerivedFile, kind: str, schema: pa.Schema, key: Sequence[str]) -> dict[str, int | str]:
    found = json.loads(file.statistics).get(kind, {})
    return {
        name: date.fromisoformat(found[name]).toordinal() - _EPOCH
        if pa.types.is_date(schema.field(name).type)
        else found[name]
        for name in key
        if name in found
    }


def with_few_files(
    snapshot: DerivedSnapshot, deletions: RememberedDeletions, key: Sequence[str], batch_id: int
) -> RememberedDeletions:
    """Return the deletions that a step leaves, in fewer files if there are too many small ones."""
    small = [file for file in deletions.files if file.size < _SMALL_BYTES]
    if len(small) <= _MAX_SMALL_FILES:
        return deletions
    return _merged(snapshot, deletions, key, batch_id, at_least=2)


def _merged(
    snapshot: DerivedSnapshot,
    deletions: RememberedDeletions,
    key: Sequence[str],
    batch_id: int,
    *,
    at_least: int,
) -> RememberedDeletions:
    """Merge the small files of each part of the time that has as many, without committing the new ones."""
    table = snapshot.table
    files: list[DeletionFile] = []
    for small in _mergeable(deletions):
        if len(small) < at_least:
            continue
        try:
            names = set().union(*(_columns_of(table, file) for file in small))
            schema = pa.schema([each for each in arrow_schema(snapshot.schema) if each.name in names])
            job = replace(writing_job(table, schema, (), batch_id), prefix=f"{DELETIONS_FOLDER}/")
            writer = DerivedFileWriter(job)
            for file in small:
                for rows in rows_of_file(table.files, file.as_data_file(()), schema):
                    writer.write(rows)
            written = writer.close()
        except (OSError, pa.ArrowException) as error:
            raise TableUnreachable(
                table.uri, f"the files with its deletions cannot be merged: {error}"
            ) from None
        files += deletion_files(written, schema, key, max(file.at for file in small))
        deletions = msgspec.structs.replace(
            deletions, files=tuple(file for file in deletions.files if file not in small)
        )
    return msgspec.structs.replace(deletions, files=(*deletions.files, *files))


def _mergeable(deletions: RememberedDeletions) -> list[list[DeletionFile]]:
    """Return the small files, those whose deletions were committed at about the same time together."""
    found: defaultdict[int, list[DeletionFile]] = defaultdict(list)
    period = max(deletions.seconds / _PERIODS, _HOUR)
    for file in deletions.files:
        if file.size < _SMALL_BYTES:
            found[int(file.at.timestamp() // period)].append(file)
    return list(found.values())


def _columns_of(table: DerivedTable, file: DeletionFile) -> list[str]:
    with table.files.open_input_file(file.path) as opened:
        names: list[str] = pq.read_schema(opened).names
        return names


def forget(
    table: DerivedTable, clock: AgreedClock, limits: MaintenanceLimits, *, dry_run: bool
) -> Iterator[Step]:
    """Forget the deletions that are old enough, and merge the small files of the others, in one commit.

    Yields:
        The step, if it is due. It is left if a run has committed meanwhile.
    """
    snapshot = table.snapshot()
    newest = snapshot.newest
    if newest is None or newest.deletions is None:
        return
    known = newest.deletions
    old = _forgotten(table, known, clock.now())
    kept = msgspec.structs.replace(known, files=tuple(file for file in known.files if file not in old))
    due = [small for small in _mergeable(kept) if len(small) >= limits.small_files]
    if not old and not due:
        return
    gone = [*old, *(file for small in due for file in small)]
    step = Step("forget", DELETIONS_FOLDER, State.DONE, totals(old)[0], *totals(gone)[1:])
    if dry_run:
        yield replace(step, state=State.PLANNED)
        return
    batch_id = new_id(table.clock)
    key = () if newest.definition is None else newest.definition.key
    try:
        commit(
            table,
            Attempt(
                cursor=newest.cursor,
                batch_id=batch_id,
                definition=newest.definition,
                consumed=newest.consumed,
                deletions=_merged(snapshot, kept, key, batch_id, at_least=limits.small_files),
                maintains=True,
            ),
            expected=newest.commit_id,
            base=snapshot,
        )
    except (CursorConflict, UpsertOvertaken) as error:
        step = replace(step, state=State.LEFT, reason=str(error))
    yield step


def _forgotten(table: DerivedTable, deletions: RememberedDeletions, now: datetime) -> list[DeletionFile]:
    """Return the files all of whose deletions are old enough by both clocks.

    A commit in the future was made by a wrong clock, so only the clock of the store decides about it. A file
    may have been written as long before its commit as an attempt takes.
    """
    before = now - timedelta(seconds=deletions.seconds) - MAX_ATTEMPT_AGE
    written = {info.path: info.mtime for info in files_in(table.files, DELETIONS_FOLDER)}
    return [
        file
        for file in deletions.files
        if (file.at < before or file.at > now + TOLERANCE)
        and file.path in written
        and written[file.path] < before
    ]
