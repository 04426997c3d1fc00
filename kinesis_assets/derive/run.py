"""One run of a derived table: it consumes what is new in the source, in bounded steps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.derive.changes import changes_of
from kinesis_assets.derive.commit import Attempt, commit, until_not_overtaken
from kinesis_assets.derive.data_files import ERRORS_FOLDER, Manifest
from kinesis_assets.derive.derivation import Rollup, Router, Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import refuse_unknown_rows
from kinesis_assets.derive.failing_record import raise_for_record
from kinesis_assets.derive.losses import consumed_after, deleted_error, refuse_deleted, refuse_loss
from kinesis_assets.derive.new_rows import Restart, next_rows, rows_since
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.rebuild import emptied, restarted
from kinesis_assets.derive.remembered_deletions import remembered
from kinesis_assets.derive.schema import (
    accept_columns,
    accepted_schema,
    columns_to_grow,
    refuse_other_types,
    table_schema,
)
from kinesis_assets.derive.type_widening import grow
from kinesis_assets.derive.write import ChangedRows, discard, write, write_beside, writing_job
from kinesis_assets.errors import BadRecordsRefused, LandingFailed, SchemaChangeRefused
from kinesis_assets.metrics import DERIVED_BAD_RECORDS, DERIVED_ROWS, TABLE, measure
from kinesis_assets.spark.session import SessionInTimeZone, may_be_of_value, spark_errors, wrap_spark_errors
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.store.suitability import require_writable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from kinesis_assets.derive.changes import StepChanges
    from kinesis_assets.derive.commit_entry import Definition, DerivedCommit
    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.derive.data_files import DerivedFile, RecordCounts
    from kinesis_assets.derive.derivation import Derivation
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.policy import DeletedRows
    from kinesis_assets.derive.source import Source

_MOVE_AFTER = timedelta(days=1)
"""A cursor is moved without rows if its position is older than this: the source deletes old entries."""

_MOVE_AFTER_COMMITS = 50
"""Likewise after as many commits without rows for the table: each attempt reads all of them again."""

_CONFIRM_AFTER = 2.0
"""Seconds after which everything is read again before a table is rebuilt."""


def derive(
    spark: SparkSession, table: DerivedTable, derivation: Derivation, *, by: str | None = None
) -> Iterator[DerivedCommit]:
    """Consume the rows that the source has now, one step after the other.

    Args:
        spark: The session. It is not changed, unless it is on Spark Connect: see `SessionInTimeZone`.
        table: The derived table; it is created if it does not exist.

    Yields:
        Each commit. The caller may stop after any of them.

    Raises:
        InvalidInput: The transformation fails, Spark refuses it, or the table cannot have the columns that it
            returns.
        LandingFailed: The Spark job failed.
        SourceRowsDeleted: Rows of the source were deleted, and the policy does not accept that.
        TableError: The source or the table cannot be used, or another run was first; see `commit`.
    """
    step = _Step(SessionInTimeZone(spark, derivation.time_zone), table, derivation, by)
    more = True
    while more:
        with wrap_spark_errors(f"table {table.uri}"):
            made, more = step.run_with_care()
        if made is not None:
            measure(DERIVED_ROWS, made.rows, {TABLE: table.uri})
            measure(DERIVED_BAD_RECORDS, made.bad_records or 0, {TABLE: table.uri})
            yield made


class _Step:
    """A step of a derived table. `run` has its phases, each of which leaves its results here for the next.

    It can be taken again and again, until there are no more rows.

    Attributes:
        present: The table's newest version; None if it does not exist.
        definition: The owner and the definition that the next commit records.
        columns: The columns that these rows need, see `table_schema`.
        must_grow: Whether the files of the table must be rewritten before it can have these rows.
        lost: The rows of the source that were deleted, and are given up.
        consumed: The number of rows of the source that are consumed afterwards, see `DerivedCommit`.
        recorded: Where the table started, and the batch ids of the commits until then that are recorded,
            oldest first; None until they are needed.
        counts: The numbers of records; None if the tasks that write count them, or none are counted.
    """

    present: DerivedSnapshot | None
    definition: Definition
    source: Source
    rows: NewRows
    changes: StepChanges
    columns: dict[str, Any]
    must_grow: bool
    lost: tuple[DeletedRows, ...]
    consumed: int | None
    counts: RecordCounts | None

    def __init__(
        self, session: SessionInTimeZone, table: DerivedTable, derivation: Derivation, by: str | None
    ) -> None:
        self.session = session
        self.table = table
        self.derivation = derivation
        self.by = by
        self.recorded: tuple[Cursor, tuple[int, ...]] | None = None

    def run_with_care(self) -> tuple[DerivedCommit | None, bool]:
        """Take the step as `run` does, and once more with care if a value may have failed the job."""
        derivation = self.derivation
        try:
            return self.run()
        except spark_errors() as error:
            if not may_be_of_value(error) or isinstance(derivation.mode, Rollup):
                raise
            if derivation.careful is not None:
                careful = replace(derivation, transform=derivation.careful)
                with suppress(*spark_errors()):  # the first error says why
                    return _Step(self.session, self.table, careful, self.by).run()
            with self.session.active() as spark:
                raise_for_record(error, spark, table=self.table.uri, rows=self.rows, derivation=derivation)
            raise

    def run(self) -> tuple[DerivedCommit | None, bool]:
        """Take the step.

        Returns:
            The commit, None if there was nothing to commit; and whether there are more rows.
        """
        restart = self.plan()
        if restart is not None:
            # A rebuild deletes rows for good, so it must not depend on a single reading.
            self.table.clock.sleep(_CONFIRM_AFTER)
            restart = self.plan()
        if restart is not None:
            return self.start_again(restart), True
        if not self.is_due:
            return None, False
        with self.session.active() as spark, self.transformed(spark, self.rows, self.present) as self.changes:
            outdated = self.outdated()
            if outdated is not None:
                self.check_before_rebuild(spark, outdated)
                return restarted(self.source, outdated, self.columns, self.definition, self.by), True
            restart = self.decide()
            if restart is None:
                self.counts = self.changes.checked_now()
                if self.must_grow:
                    return self.grow(spark), True
                return until_not_overtaken(self.table, self.write_and_commit), self.rows.more
        return self.start_again(restart), True

    def plan(self) -> Restart | None:
        """Read the table, its source and the next rows.

        Returns:
            Why the table must start again instead; None if it need not.

        Raises what `derive` raises for the source and its deleted rows.
        """
        uri, derivation = self.table.uri, self.derivation
        self.present = self.table.existing()
        if self.present is not None:
            refuse_unknown_rows(self.present)
        self.definition = derivation.definition.after(uri, self.newest)
        # Opened afterwards, so that it has every commit that another run has consumed.
        self.source = open_source(derivation.source, self.table.folder.role, derivation.source_format)
        if self.present is not None:
            self.present.check_identity(self.source.origin_id, derivation.partition_by)
        found = next_rows(
            uri,
            self.present,
            self.source,
            on_deleted=derivation.on_deleted,
            max_bytes=derivation.step_bytes,
            is_rollup=isinstance(derivation.mode, Rollup),
            recorded=self.recorded_until if self.is_ordered else None,
        )
        if isinstance(found, Restart):
            return found
        self.rows = self.in_commit_order(found)
        return None

    def in_commit_order(self, rows: NewRows) -> NewRows:
        """Return rows with the order of their commits, if they need one that is not known yet.

        That of the rows which the source had when the table started is read once in a run. A router stores
        the columns by which the rows of a commit are ordered, so it needs no other order.
        """
        if isinstance(self.derivation.mode, Router):
            rows = replace(rows, order=replace(rows.order, within=()))
        if rows.order.commits is not None or not self.is_ordered:
            return rows
        return replace(rows, order=replace(rows.order, commits=self.recorded_until(rows.cursor)))

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the source's rows matters."""
        return isinstance(self.derivation.mode, Router | Upsert)

    def recorded_until(self, cursor: Cursor) -> tuple[int, ...]:
        """Return the batch ids of the commits before the table started that are recorded, oldest first.

        Args:
            cursor: A position in the rows that the source had then.
        """
        started = msgspec.structs.replace(cursor, history=None, unread=None)
        if self.recorded is None or self.recorded[0] != started:
            self.recorded = started, self.source.recorded_batches()
        return self.recorded[1]

    @property
    def newest(self) -> DerivedCommit | None:
        """The table's newest commit; None if it has none."""
        return None if self.present is None else self.present.newest

    @property
    def expected(self) -> int | None:
        return None if self.present is None else self.present.commit_id

    @property
    def is_due(self) -> bool:
        """Whether there are rows, or the cursor is moved although there are none."""
        rows, newest = self.rows, self.newest
        if newest is None or rows.files or rows.replaced or rows.lost:
            return True
        before, after = newest.cursor, rows.cursor
        # Maintenance commits a cursor again where it was, so the age of the commit says nothing.
        position = time_of_id(max(before.commit or 0, before.amendment or 0))
        age = timedelta(seconds=self.table.clock.time() - position)
        return (after.source, after.history) != (before.source, before.history) or (
            after != before and (age > _MOVE_AFTER or rows.commits >= _MOVE_AFTER_COMMITS)
        )

    def transformed(
        self, spark: SparkSession, rows: NewRows, present: DerivedSnapshot | None = None
    ) -> AbstractContextManager[StepChanges]:
        """Transform rows of the source into changes of a version of the table."""
        return changes_of(spark, rows, self.derivation, table=self.table, present=present)

    def outdated(self) -> DerivedSnapshot | None:
        """Check that the table can be written with the columns of its rows, before these are computed.

        Returns:
            The present version if the table must start again to get the columns, and may; None otherwise.

        Raises:
            InvalidInput: No table can have the columns.
            SchemaChangeRefused: It must, but it has rows, and nobody has accepted to lose them.
            SourceRowsDeleted: They have, but the source no longer has rows that were consumed.
        """
        table, present, derivation = self.table, self.present, self.derivation
        self.must_grow = False
        columns = table_schema(
            table.uri, self.changes.new.of_table, derivation.partition_by, derivation.compared
        )
        self.columns = table.format.storable(columns)
        if present is None:
            require_writable(table.uri, table.files)  # which also creates the folder on a local disk
            table.format.check_store()
            return None
        try:
            self.must_grow = bool(columns_to_grow(present, self.columns, derivation))
        except SchemaChangeRefused as error:
            # If the columns are those of a registry, registering a schema would delete the rows.
            rebuilds = derivation.on_deleted is OnDeleted.REBUILD and not derivation.all_columns
            if not present.is_empty and not rebuilds:
                raise
            present.refuse_partition_change(self.columns)
            if not present.is_empty:
                refuse_loss(present, self.source, error)
            return present
        return None

    def check_before_rebuild(self, spark: SparkSession, outdated: DerivedSnapshot) -> None:
        """Check the records of this step and, if rows are to be deleted, those of the whole source.

        Raises the errors of the check.
        """
        self.changes.check_all()
        more = self.changes.new.check is not None and not outdated.is_empty
        cursor = None
        while more:
            rows = rows_since(self.source, cursor, self.derivation.step_bytes)
            with self.transformed(spark, rows) as earlier:
                earlier.check_all()
            cursor, more = rows.cursor, rows.more

    def decide(self) -> Restart | None:
        """Decide what is given up of rows that the source has lost.

        Returns:
            Why the table must start again instead; None if it need not.
        """
        uri, lacking, policy = self.table.uri, self.changes.lacking, self.derivation.on_deleted
        self.lost = (*self.rows.lost, *(() if lacking is None else [lacking]))
        refuse_deleted(uri, self.source, self.lost, policy)
        if lacking is not None and policy is OnDeleted.REBUILD:
            return Restart(deleted_error(uri, self.source, self.lost), self.lost)
        self.consumed = consumed_after(self.source, self.rows.selection, self.newest)
        return None

    def grow(self, spark: SparkSession) -> DerivedCommit | None:
        """Rewrite the table's files so that it can have the rows of the step, which comes again then."""
        return grow(
            spark,
            self.table,
            self.source,
            self.columns,
            self.definition,
            expected=self.expected,
            step_bytes=self.derivation.step_bytes,
            by=self.by,
        )

    def write_and_commit(self) -> DerivedCommit:
        """Write the changed rows, and commit them with the position after the rows of the source."""
        table, rows, plan = self.table, self.rows, self.changes.plan
        base, changed = None, ChangedRows(self.changes.new.rows)
        if plan is not None:
            base = self.accepting()
            changed = plan(base)
        present = base or table.existing()
        schema = accepted_schema(present, self.columns)
        written = table.format.file_schema(schema, present)
        batch_id, manifest, counts = new_id(table.clock), Manifest(), self.counts
        if rows.files or rows.replaced:
            manifest = self.write(changed, schema, written, batch_id)
            counts = counts or self.checked(manifest)
        if base is None:  # rows that are refused create neither the table nor columns
            refuse_other_types(self.accepting(), written)
        errors = self.write_errors(counts, manifest, batch_id)
        deletions = None if base is None else remembered(self.derivation, changed, base, batch_id)
        return commit(
            table,
            Attempt(
                cursor=rows.cursor,
                batch_id=batch_id,
                manifest=manifest,
                counts=counts,
                errors=errors,
                on_deleted=self.derivation.on_deleted if self.lost else None,
                given_up=self.lost,
                definition=self.definition,
                consumed=self.consumed,
                deletions=deletions,
                by=self.by,
            ),
            expected=self.expected,
            removed=list(changed.removed.values()),
            base=base,
        )

    def accepting(self) -> DerivedSnapshot:
        """Return the table's newest version. Create it, or add the columns of the rows, if needed."""
        source, columns = self.source.origin_id, self.columns
        accept_columns(self.table.open_or_create(source, columns, self.derivation.partition_by), columns)
        return self.table.snapshot()

    def write(
        self, changed: ChangedRows, schema: dict[str, Any], written: pa.Schema, batch_id: int
    ) -> Manifest:
        new, job = self.changes.new, writing_job(self.table, written, self.derivation.partition_by, batch_id)
        job = replace(job, error_column=new.error_column, keeps_errors=new.keeps_errors)
        if isinstance(self.derivation.mode, Router):
            job = replace(job, layout=replace(job.layout, open_files=self.derivation.mode.routes))
        return write(self.table, schema, changed, job)

    def checked(self, manifest: Manifest) -> RecordCounts | None:
        """Check and return what the tasks counted. If it is refused, delete the files that they wrote."""
        try:
            return self.changes.checked(manifest.counts)
        except BadRecordsRefused:
            discard(self.table, manifest)
            raise

    def write_errors(
        self, counts: RecordCounts | None, manifest: Manifest, batch_id: int
    ) -> tuple[DerivedFile, ...] | None:
        """Write the records that could not be decoded to files of their own, if they are separated.

        Returns:
            The files; None if such records are not separated.

        Raises:
            LandingFailed: They are not those that were left out of the rows.
        """
        table, separate = self.table, self.changes.new.separate
        if separate is None:
            return None
        if counts is None or not counts.errors:
            return ()
        written = write_beside(table, separate, ERRORS_FOLDER, batch_id)
        rows = sum(file.rows for file in written.files)
        if rows != counts.errors:
            discard(table, manifest + written)
            raise LandingFailed(
                f"table {table.uri}: of {counts.records} records {counts.errors} could not be decoded, and "
                f"then {rows}, as if their schema had been registered in between. Nothing was committed; run "
                "again"
            )
        return written.files

    def start_again(self, restart: Restart) -> DerivedCommit:
        """Delete the table's rows, so that it starts again."""
        if self.present is not None:
            refuse_loss(self.present, self.source, restart.cause)
        return emptied(
            self.table,
            self.source,
            self.expected,
            self.definition,
            by=self.by,
            on_deleted=OnDeleted.REBUILD,
            given_up=restart.lost,
        )
