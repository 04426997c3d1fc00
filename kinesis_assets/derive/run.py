"""One run of a derived table: it consumes what is new in the source, in bounded steps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from kinesis_assets.derive.changes import changes_of
from kinesis_assets.derive.commit import commit, until_not_overtaken
from kinesis_assets.derive.data_files import ERRORS_FOLDER, Manifest
from kinesis_assets.derive.derivation import Rollup
from kinesis_assets.derive.derived_table import refuse_unknown_rows
from kinesis_assets.derive.failing_record import raise_for_record
from kinesis_assets.derive.losses import consumed_after, deleted_error, refuse_deleted, refuse_loss
from kinesis_assets.derive.new_rows import Restart, next_rows, rows_since
from kinesis_assets.derive.policy import NOTHING_DELETED, Decision, OnDeleted
from kinesis_assets.derive.rebuild import emptied, restarted
from kinesis_assets.derive.schema import (
    accept_columns,
    accepted_schema,
    refuse_missing_columns,
    refuse_other_types,
    table_schema,
)
from kinesis_assets.derive.source import open_source
from kinesis_assets.derive.upsert import ChangedRows
from kinesis_assets.derive.write import discard, write, writing_job
from kinesis_assets.errors import (
    BadRecordsRefused,
    LandingFailed,
    SchemaChangeRefused,
    TableMissing,
)
from kinesis_assets.metrics.instruments import DERIVED_BAD_RECORDS, DERIVED_ROWS, TABLE
from kinesis_assets.metrics.recording import record
from kinesis_assets.spark.session import SessionInTimeZone, may_be_of_value, spark_errors, wrap_spark_errors
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.store.suitability import check_conditional_puts, require_writable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from kinesis_assets.derive.changes import StepChanges
    from kinesis_assets.derive.data_files import DerivedFile, RecordCounts
    from kinesis_assets.derive.derivation import CheckedRows, Derivation
    from kinesis_assets.derive.derived_table import Definition, DerivedCommit, DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.source import Source

_MOVE_AFTER = timedelta(days=1)
"""A cursor is moved without rows if its commit is older than this: the source deletes old records."""

_CONFIRM_AFTER = 2.0
"""Seconds after which everything is read again before a table is rebuilt."""


class _Start(NamedTuple):
    """What a step starts from.

    Attributes:
        table: The table.
        present: Its newest version; None if it does not exist.
        newest: Its newest commit; None if it has none.
        definition: The owner and the definition that the next commit records.
        source: The newest version of its source.
        rows: The next rows of the source; or why the table must start again instead.
    """

    table: DerivedTable
    present: DerivedSnapshot | None
    newest: DerivedCommit | None
    definition: Definition
    source: Source
    rows: NewRows | Restart

    @property
    def expected(self) -> int | None:
        """The id of the newest commit."""
        return None if self.newest is None else self.newest.commit_id


def derive(
    spark: SparkSession, table: DerivedTable, derivation: Derivation, *, by: str | None = None
) -> Iterator[DerivedCommit]:
    """Consume the rows that the source has now, one step after the other.

    Args:
        spark: The session. It is not changed, unless it is on Spark Connect: see `SessionInTimeZone`.
        table: The derived table; it is created if it does not exist.
        derivation: How it is computed.
        by: The Dagster run id or the person that runs it.

    Yields:
        Each commit. The caller may stop after any of them.

    Raises:
        InvalidInput: The transformation fails, Spark refuses it, or the table cannot have the columns that it
            returns.
        LandingFailed: The Spark job failed.
        SourceRowsDeleted: Rows of the source were deleted, and the policy does not accept that.
        TableError: The source or the table cannot be used, or another run was first; see `commit`.
    """
    session = SessionInTimeZone(spark, derivation.time_zone)
    more = True
    while more:
        with wrap_spark_errors(f"table {table.uri}"):
            done, more = _step_or_careful_step(session, table, derivation, by)
        if done is not None:
            record(DERIVED_ROWS, done.rows, {TABLE: table.uri})
            record(DERIVED_BAD_RECORDS, done.bad_records or 0, {TABLE: table.uri})
            yield done


def _step_or_careful_step(
    session: SessionInTimeZone, table: DerivedTable, derivation: Derivation, by: str | None
) -> tuple[DerivedCommit | None, bool]:
    """Consume the next rows as `_step` does, and once more with care if a value may have failed the job."""
    try:
        return _step(session, table, derivation, by)
    except spark_errors() as error:
        if not may_be_of_value(error) or isinstance(derivation.mode, Rollup):
            raise
        if derivation.careful is not None:
            with suppress(*spark_errors()):  # the first error says why
                return _step(session, table, replace(derivation, transform=derivation.careful), by)
        start, transform = _read(table, derivation), derivation.transform
        if not isinstance(rows := start.rows, Restart):
            with session.active() as spark:
                raise_for_record(
                    error, spark, table=table.uri, source=start.source, rows=rows, transform=transform
                )
        raise


def _step(
    session: SessionInTimeZone, table: DerivedTable, derivation: Derivation, by: str | None
) -> tuple[DerivedCommit | None, bool]:
    """Consume the next rows.

    Returns:
        The commit, None if there was nothing to commit; and whether there are more rows.
    """
    start = _read(table, derivation)
    if isinstance(start.rows, Restart):
        # A rebuild deletes rows for good, so it must not depend on a single reading.
        table.clock.sleep(_CONFIRM_AFTER)
        start = _read(table, derivation)
    rows = start.rows
    done = rows if isinstance(rows, Restart) else _consume(session, start, rows, derivation, by)
    if not isinstance(done, Restart):
        return done
    if start.present is not None:
        refuse_loss(start.present, start.source, done.cause)
    decision = Decision(OnDeleted.REBUILD, done.lost)
    emptying = emptied(table, start.source, start.expected, start.definition, by=by, decision=decision)
    return emptying, True


def _consume(
    session: SessionInTimeZone,
    start: _Start,
    rows: NewRows,
    derivation: Derivation,
    by: str | None,
) -> tuple[DerivedCommit | None, bool] | Restart:
    """Consume rows, as `_step` does. Returns why the table must start again, if so."""
    table, present, newest, source = start.table, start.present, start.newest, start.source
    is_empty = not rows.files and not rows.replaced
    if newest is not None and is_empty and not rows.lost and not _is_due(table, newest, rows):
        return None, False
    mode = derivation.mode
    partition_by = derivation.partition_by
    consumed = consumed_after(source, rows.selection, newest)
    with (
        session.active() as spark,
        _changes(spark, table, source, rows, derivation, present=present) as changes,
    ):
        new, plan = changes.new, changes.plan
        wanted = table_schema(table.uri, new.of_table, partition_by, () if mode is None else mode.columns)
        outdated = _outdated(table, present, wanted, source, derivation)
        if outdated is not None:
            _check_before_rebuild(spark, changes, outdated, source, derivation)
            return restarted(source, outdated, wanted, start.definition, by), True
        lost = (*rows.lost, *(() if changes.lacking is None else [changes.lacking]))
        refuse_deleted(table.uri, source, lost, derivation.on_deleted)
        if changes.lacking is not None and derivation.on_deleted is OnDeleted.REBUILD:
            return Restart(deleted_error(table.uri, source, lost), lost)
        counts = changes.checked_now()

        def attempt() -> DerivedCommit:
            base = None if plan is None else _accepting(table, wanted, source, derivation)
            changed = ChangedRows(new.rows) if plan is None or base is None else plan(base)
            schema = accepted_schema(base or _present(table), wanted)
            batch_id, manifest, found = new_id(table.clock), Manifest(), counts
            if not is_empty:
                job = writing_job(table, schema, partition_by, batch_id)
                job = replace(job, error_column=new.error_column, keeps_errors=new.keeps_errors)
                manifest = write(table, schema, changed, job)
                found = counts or _checked(table, changes, manifest)
            if base is None:  # rows that are refused create neither the table nor columns
                refuse_other_types(_accepting(table, wanted, source, derivation), schema)
            errors = _errors(table, new, found, manifest, batch_id)
            return commit(
                table,
                expected=start.expected,
                cursor=rows.cursor,
                batch_id=batch_id,
                manifest=manifest,
                counts=found,
                errors=errors,
                removed=list(changed.removed.values()),
                base=base,
                decision=Decision(derivation.on_deleted, lost) if lost else NOTHING_DELETED,
                definition=start.definition,
                consumed=consumed,
                by=by,
            )

        return until_not_overtaken(table, attempt), rows.more


def _read(table: DerivedTable, derivation: Derivation) -> _Start:
    """Read the table, its source and the next rows.

    Raises what `derive` raises for the source and its deleted rows.
    """
    present = _present(table)
    if present is not None:
        refuse_unknown_rows(present)
    newest = None if present is None else present.newest
    definition = derivation.definition.after(table.uri, newest)
    # Opened afterwards, so that it has every commit that another run has consumed.
    source = open_source(derivation.source, table.folder.role)
    if present is not None:
        present.check_identity(source.origin_id, derivation.partition_by)
    rows = next_rows(
        table.uri,
        present,
        newest,
        source,
        on_deleted=derivation.on_deleted,
        max_bytes=derivation.step_bytes,
        is_rollup=isinstance(derivation.mode, Rollup),
    )
    return _Start(table, present, newest, definition, source, rows)


def _outdated(
    table: DerivedTable,
    present: DerivedSnapshot | None,
    wanted: dict[str, Any],
    source: Source,
    derivation: Derivation,
) -> DerivedSnapshot | None:
    """Check that a table can be written with some columns, before rows are computed. Raises its errors.

    Returns:
        The present version if the table must start again to get the columns, and may; None otherwise.

    Raises:
        SchemaChangeRefused: It must, but it has rows, and nobody has accepted to lose them.
        SourceRowsDeleted: They have, but the source no longer has rows that were consumed.
    """
    if present is None:
        require_writable(table.uri, table.files)  # which also creates the folder on a local disk
        check_conditional_puts(table.uri, table.folder)
        return None
    try:
        if derivation.all_columns:
            refuse_missing_columns(present, wanted)
        accepted_schema(present, wanted)
    except SchemaChangeRefused as error:
        # If the columns are those of a registry, registering a schema would delete the rows.
        rebuilds = derivation.on_deleted is OnDeleted.REBUILD and not derivation.all_columns
        if present.data_files():
            if not rebuilds:
                raise
            refuse_loss(present, source, error)
        return present
    return None


def _changes(
    spark: SparkSession,
    table: DerivedTable,
    source: Source,
    rows: NewRows,
    derivation: Derivation,
    *,
    present: DerivedSnapshot | None = None,
) -> AbstractContextManager[StepChanges]:
    return changes_of(
        spark,
        source,
        rows,
        derivation.transform,
        derivation.mode,
        table=table.uri,
        partition_by=derivation.partition_by,
        present=present,
    )


def _check_before_rebuild(
    spark: SparkSession,
    changes: StepChanges,
    outdated: DerivedSnapshot,
    source: Source,
    derivation: Derivation,
) -> None:
    """Check the records of this step and, if rows of the table are to be deleted, those of the whole source.

    Raises the errors of the check.
    """
    changes.check_all()
    more = changes.new.check is not None and bool(outdated.data_files())
    cursor = None
    while more:
        rows = rows_since(source, cursor, derivation.step_bytes)
        with _changes(spark, outdated.table, source, rows, derivation) as earlier:
            earlier.check_all()
        cursor, more = rows.cursor, rows.more


def _checked(table: DerivedTable, changes: StepChanges, manifest: Manifest) -> RecordCounts | None:
    """Check and return what the tasks counted. If it is refused, delete the files that they wrote."""
    try:
        return changes.checked(manifest.counts)
    except BadRecordsRefused:
        discard(table, manifest)
        raise


def _errors(
    table: DerivedTable, new: CheckedRows, counts: RecordCounts | None, manifest: Manifest, batch_id: int
) -> tuple[DerivedFile, ...] | None:
    """Write the records that could not be decoded to files of their own, if they are set apart.

    Args:
        table: The table.
        new: The rows of the step.
        counts: How many records there are, and how many could not be decoded.
        manifest: The files of the step's rows.
        batch_id: The attempt's batch id.

    Returns:
        The files; None if such records are not set apart.

    Raises:
        LandingFailed: They are not those that were left out of the rows.
    """
    if new.separate is None:
        return None
    if counts is None or not counts.errors:
        return ()
    schema = table_schema(table.uri, new.separate, (), ())
    job = replace(writing_job(table, schema, (), batch_id), prefix=f"{ERRORS_FOLDER}/")
    written = write(table, schema, ChangedRows(new.separate), job)
    rows = sum(file.rows for file in written.files)
    if rows != counts.errors:
        discard(table, manifest + written)
        raise LandingFailed(
            f"table {table.uri}: of {counts.records} records {counts.errors} could not be decoded, and then "
            f"{rows}, as if their schema had been registered in between. Nothing was committed; run again"
        )
    return written.files


def _accepting(
    table: DerivedTable, wanted: dict[str, Any], source: Source, derivation: Derivation
) -> DerivedSnapshot:
    """Return the table's newest version, which has some columns. Create it, or add columns, if needed."""
    accept_columns(table.open_or_create(source.origin_id, wanted, derivation.partition_by), wanted)
    return table.snapshot()


def _present(table: DerivedTable) -> DerivedSnapshot | None:
    try:
        return table.snapshot()
    except TableMissing:
        return None


def _is_due(table: DerivedTable, newest: DerivedCommit, rows: NewRows) -> bool:
    """Return whether the cursor is moved although there are no rows."""
    age = timedelta(seconds=table.clock.time() - time_of_id(newest.commit_id))
    before, after = newest.cursor, rows.cursor
    return (after.source, after.history) != (before.source, before.history) or (
        after != before and age > _MOVE_AFTER
    )
