"""Decodes the bad records of a typed table again, after its schema, an expression or its code was corrected.

One commit of the table adds the rows of those that can be decoded now, as a step would have done, and removes
them from the bad ones. If these are in a table of errors, the commit names the records that this table has to
remove, and those that it gets instead, with their new reason. A record that is bad for the same reason stays
where it is. So each record is in one place, whichever of the two tables was read or changed meanwhile.

In an upsert a redriven record has the place in the order that it would have had, as far as that is known: it
is compared with the rows of the table by the commits that found the one to be bad and added the other.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.bad_records import (
    FOUND_BY,
    IDENTITY,
    has_documents,
    identified,
    in_source,
    kept_in_table,
    separated,
    whole_records,
    without_records,
)
from kinesis_assets.derive.changes import caching, counted, ordered_rows, refuse_empty_keys
from kinesis_assets.derive.commit import Attempt, commit, named_files, until_not_overtaken
from kinesis_assets.derive.commit_entry import Redriven
from kinesis_assets.derive.cursor import RECORD_COLUMNS
from kinesis_assets.derive.data_files import ERRORS_FOLDER, FOUND_COLUMN
from kinesis_assets.derive.derivation import Rollup, Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import refuse_rewritten, refuse_unknown_rows
from kinesis_assets.derive.read import shuffle_tasks
from kinesis_assets.derive.remembered_deletions import remembered
from kinesis_assets.derive.row_order import ORDER_COLUMN
from kinesis_assets.derive.schema import accept_columns, accepted_schema, columns_to_grow, table_schema
from kinesis_assets.derive.type_widening import grow
from kinesis_assets.derive.upsert import matching, stored_rows, upserted
from kinesis_assets.derive.write import ChangedRows, write, write_beside, writing_job
from kinesis_assets.errors import CursorConflict, InvalidInput, LandingFailed, UpsertOvertaken
from kinesis_assets.metrics import DERIVED_REDRIVEN_RECORDS, DERIVED_ROWS, TABLE, measure
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER
from kinesis_assets.spark.carried_column import carry
from kinesis_assets.spark.session import SessionInTimeZone, wrap_spark_errors
from kinesis_assets.table.commit_ids import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derivation import CheckedRows, Derivation
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.source import Source

MAX_REASONS = 20
"""The maximum number of different reasons that are reported."""

_REASONS, _NUMBERS, _RECORD_ORDER = "__reasons", "__numbers", "__record_order"

_LEFT = "of documents whose record is not in the source any more, or cannot be split as it was"
"""The reason of bad documents that are not decoded again."""

_NUMBER_DIGITS = 10
"""Those with which the order of a record's documents ends."""


@dataclass(frozen=True, slots=True)
class Redrive:
    """A redrive of a table's bad records, or its plan.

    Attributes:
        decoded: How many of them can be decoded now.
        reasons: Why the others cannot, by the number of records; the most frequent reasons.
        commit: The commit; None if it is only planned, or there is nothing to change.
    """

    records: int = 0
    decoded: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    commit: DerivedCommit | None = None


def redrive(
    spark: SparkSession,
    table: DerivedTable,
    derivation: Derivation,
    *,
    errors: DerivedTable | None = None,
    by: str,
    apply: bool,
) -> Redrive:
    """Decode the bad records of a table again.

    Args:
        errors: Its table of errors, which need not exist; None if bad records are kept in the table.

    Raises:
        CursorConflict: Another redrive, or a rebuild, was first; nothing was changed.
        UpsertOvertaken: Runs have committed again and again meanwhile; nothing was changed.
        InvalidInput: The table keeps no bad records, or the transformation fails or is refused.
        SchemaChangeRefused: The table cannot have the columns of the records.
    """
    if isinstance(derivation.mode, Rollup):
        raise InvalidInput(f"table {table.uri}: it is a roll-up, which keeps no bad records")
    session = SessionInTimeZone(spark, derivation.time_zone)
    with wrap_spark_errors(f"table {table.uri}"), session.active() as active, caching() as cache:
        attempt = _Attempt(active, cache, table, derivation, errors=errors, by=by)
        found = Redrive(attempt.records)
        if attempt.records:
            attempt.decode()
            found = replace(found, decoded=attempt.decoded, reasons=attempt.reasons)
        if not apply or not attempt.records or attempt.changed.isEmpty():
            return found
        made = until_not_overtaken(table, attempt.write_and_commit)
    measure(DERIVED_ROWS, made.rows, {TABLE: table.uri})
    measure(DERIVED_REDRIVEN_RECORDS, found.decoded, {TABLE: table.uri})
    return replace(found, commit=made)


class _Attempt:
    """A redrive. `decode` is called once, and `write_and_commit` until no other commit comes first.

    Attributes:
        present: The version of the table whose bad records are decoded again.
        checked: What the transformation returned for these records.
        rows: The rows of the table among that, and those of records that could not be decoded.
        changed: The identities of the records that are no longer bad, or are bad for another reason.
    """

    checked: CheckedRows
    rows: DataFrame
    still: DataFrame
    changed: DataFrame

    def __init__(
        self,
        spark: SparkSession,
        cache: Callable[[DataFrame], DataFrame],
        table: DerivedTable,
        derivation: Derivation,
        *,
        errors: DerivedTable | None,
        by: str,
    ) -> None:
        self.spark, self.cache, self.table, self.by = spark, cache, table, by
        self.derivation = derivation
        if derivation.careful is not None:
            self.derivation = replace(derivation, transform=derivation.careful)
        self.is_separate = errors is not None
        # Opened first, so that the table has every commit that its table of errors has consumed.
        taken_over = None if errors is None else errors.existing()
        self.present = table.snapshot()
        refuse_unknown_rows(self.present)
        refuse_rewritten(self.present)
        derivation.definition.after(table.uri, self.present.newest)
        self.source: Source = open_source(derivation.source, table.folder.role, derivation.source_format)
        self.present.check_identity(self.source.origin_id, derivation.partition_by)
        bad = (
            separated(spark, self.present, taken_over)
            if self.is_separate
            else kept_in_table(spark, self.present)
        )
        self.bad = cache(bad)
        self.records = self.bad.count()

    def decode(self) -> None:
        """Decode the bad records again.

        Raises:
            LandingFailed: Records were decoded in one job, and not in another one.
        """
        number = F.col(DOCUMENT_NUMBER)
        of_record = number.isNull() | F.lit(has_documents(self.source))  # a router has split the others
        documents, self.bad = self.bad.where(~of_record), self.bad.where(of_record)
        records = in_source(self.spark, self.source, self.bad, cache=self.cache)
        split, checked = None, None
        if self.source.keeps_rows and not documents.isEmpty():
            whole = self.cache(whole_records(self.spark, self.source, documents, cache=self.cache))
            checked = self.transformed(records.unionByName(whole))
            still = checked.rows if checked.separate is None else checked.separate
            if DOCUMENT_NUMBER in still.columns and ORDER_COLUMN in checked.rows.columns:
                split = SplitRecords(whole, documents, self.cache)
        if split is None or checked is None:  # the transformation does not split records
            checked = self.transformed(records)
        self.checked = replace(checked, rows=self.cache(checked.rows))
        self.rows = self.checked.of_table
        if checked.separate is None:
            self.still = self.checked.rows.where(F.col("error").isNotNull())
            self.rows = self.rows.where(F.col("error").isNull())
        else:
            self.still = self.cache(checked.separate)
            self.check_counts()
        if split is not None:
            self.bad = self.bad.unionByName(split.bad_of(self.still))
            self.rows, self.still = split.rows_of(self.rows), split.still_of(self.still)
        identity = [*IDENTITY, _REASONS]
        changed = matching(_reasons_of(self.bad), _reasons_of(self.still), identity, "left_anti")
        self.changed = self.cache(changed.select(*IDENTITY))
        if checked.separate is None:
            self.rows = self.rows.unionByName(self.still_changed)
        refuse_empty_keys(self.table, self.rows, self.derivation)
        accepted_schema(self.present, self.columns, compared=self.derivation.compared)

    def transformed(self, records: DataFrame) -> CheckedRows:
        """Return the rows of some records.

        Raises:
            InvalidInput: The transformation keeps no bad records, or it fails or is refused.
        """
        uri, source_rows = self.table.uri, carry(records, ORDER_COLUMN, in_order=False)
        checked = ordered_rows(self.spark, self.table, self.derivation, source_rows)
        keeps_in_table = checked.error_column is not None and checked.keeps_errors
        keeps = checked.separate is not None if self.is_separate else keeps_in_table
        if not keeps:
            raise InvalidInput(
                f"table {uri}: it has bad records, but would not keep them now. Nothing was changed. Set "
                "on_bad_record to what it was, or return the columns of from_json"
            )
        return checked

    def check_counts(self) -> None:
        """Check that the records that are left out of the rows are those that are separated."""
        checked, still = self.checked, self.still.count()
        if checked.records is not None:
            bad = counted(checked.records, "error").errors
        else:
            bad = counted(checked.rows, str(checked.error_column)).errors
        if bad != still:
            raise LandingFailed(
                f"table {self.table.uri}: of {self.records} bad records {bad} could not be decoded, and then "
                f"{still}, as if their schema had been registered in between. Nothing was changed; run again"
            )

    @cached_property
    def decoded(self) -> int:
        """How many records can be decoded now."""
        return max(0, self.bad.count() - self.still.count())

    @property
    def reasons(self) -> dict[str, int]:
        counts = self.still.groupBy("error").count().orderBy(F.desc("count"), "error")
        found = {row[0]: row[1] for row in counts.limit(MAX_REASONS).collect()}
        left = self.records - self.bad.count()
        return found | ({_LEFT: left} if left else {})

    def write_and_commit(self) -> DerivedCommit:
        """Write the rows, and commit them upon the newest version of the table.

        Raises:
            CursorConflict: The bad records are not those of that version any more.
            UpsertOvertaken: Another commit came in between.
        """
        table, derivation = self.table, self.derivation
        base = self.accepting()
        newest = self.newest_of(base)
        changed, batch_id = self.plan(base), new_id(table.clock)
        deletions = remembered(derivation, changed, base, batch_id)
        schema = accepted_schema(base, self.columns)
        job = writing_job(table, base.file_schema, derivation.partition_by, batch_id)
        manifest = write(table, schema, changed, job)
        errors, redriven = None, Redriven(records=self.records, decoded=self.decoded)
        if self.is_separate:
            found = self.bad.select(*RECORD_COLUMNS, FOUND_COLUMN).dropDuplicates([*RECORD_COLUMNS])
            others = self.still_changed.join(found, [*RECORD_COLUMNS], "left")
            errors = write_beside(table, others, ERRORS_FOLDER, batch_id).files
            files = write_beside(table, self.changed, ERRORS_FOLDER, batch_id).files
            redriven = msgspec.structs.replace(redriven, files=named_files(files))
        with self.overtaken():
            return commit(
                table,
                Attempt(
                    cursor=newest.cursor,
                    batch_id=batch_id,
                    manifest=manifest,
                    errors=errors,
                    redriven=redriven,
                    definition=derivation.definition.after(table.uri, newest),
                    consumed=newest.consumed,
                    deletions=deletions,
                    by=self.by,
                ),
                expected=newest.commit_id,
                removed=list(changed.removed.values()),
                base=base,
            )

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns that the rows need, see `table_schema`."""
        derivation, rows = self.derivation, stored_rows(self.rows)
        columns = table_schema(self.table.uri, rows, derivation.partition_by, derivation.compared)
        return self.table.format.storable(columns)

    @property
    def still_changed(self) -> DataFrame:
        """The records that are bad for another reason than before."""
        still = identified(self.still)
        records = matching(
            still, self.changed.select(*RECORD_COLUMNS).distinct(), RECORD_COLUMNS, "left_semi"
        )
        others = matching(self.bad, self.changed, IDENTITY, "left_anti")
        return matching(records, others, IDENTITY, "left_anti").select(*self.still.columns)

    def accepting(self) -> DerivedSnapshot:
        """Return the table's newest version. Add the columns of the rows, or let theirs grow, if needed."""
        present = self.table.snapshot()
        if columns_to_grow(present, self.columns, self.derivation):
            with self.overtaken():
                grow(
                    self.spark,
                    self.table,
                    self.source,
                    self.columns,
                    self.derivation.definition.after(self.table.uri, present.newest),
                    expected=present.commit_id,
                    step_bytes=self.derivation.step_bytes,
                    by=self.by,
                )
        accept_columns(self.table.snapshot(), self.columns)
        return self.table.snapshot()

    @contextmanager
    def overtaken(self) -> Iterator[None]:
        """Raise another error for the commit of a run, after which the attempt is made again."""
        try:
            yield
        except CursorConflict as conflict:
            raise UpsertOvertaken(
                self.table.uri,
                "a run has committed while bad records were decoded again. Nothing was changed; run again, "
                "or pause the stream meanwhile",
            ) from conflict

    def newest_of(self, base: DerivedSnapshot) -> DerivedCommit:
        """Return the newest commit of a version, if the bad records that were read are bad there, too."""
        read = self.present.commit_id
        since = list(self.table.entries.since(base.newest, read, may_restart=True))
        is_rebuilt = bool(since) and since[-1].previous != read
        if base.newest is None or is_rebuilt or any(each.redriven is not None for each in since):
            raise CursorConflict(
                self.table.uri,
                "another redrive or a rebuild has committed while bad records were decoded again. This one "
                "changed nothing; run it again for those that are left",
            )
        return base.newest

    def plan(self, base: DerivedSnapshot) -> ChangedRows:
        """Return what is written to a version of the table."""
        mode, cache = self.derivation.mode, self.cache
        changed = ChangedRows(stored_rows(self.rows))
        if isinstance(mode, Upsert):
            tasks = shuffle_tasks(self.spark, 0)
            changed = upserted(self.spark, base, self.rows, mode, cache=cache, tasks=tasks, order=FOUND_BY)
        if self.is_separate:
            return changed
        return without_records(
            self.spark, base, changed=changed, records=self.changed, by=IDENTITY, cache=cache
        )


class SplitRecords:
    """Records of which some documents are bad. All of their documents are decoded, and the others left out.

    A document is known by its number, so the records must be split as they were before.

    Args:
        whole: The records, as rows of the source, with the column of their order.
    """

    def __init__(
        self, whole: DataFrame, documents: DataFrame, cache: Callable[[DataFrame], DataFrame]
    ) -> None:
        numbers = documents.groupBy(*RECORD_COLUMNS).agg(F.collect_set(DOCUMENT_NUMBER).alias(_NUMBERS))
        orders = whole.select(*RECORD_COLUMNS, F.col(ORDER_COLUMN).alias(_RECORD_ORDER))
        self._numbers = cache(orders.join(numbers, [*RECORD_COLUMNS]))
        self._documents = documents

    def bad_of(self, still: DataFrame) -> DataFrame:
        """Return the bad documents that were decoded again: those of records that could be split."""
        split = self._numbers
        unsplit = identified(still).where(F.col(DOCUMENT_NUMBER).isNull()).select(*RECORD_COLUMNS)
        split = split.join(unsplit, [*RECORD_COLUMNS], "left_anti")
        return self._documents.join(split, [*RECORD_COLUMNS], "left_semi")

    def still_of(self, still: DataFrame) -> DataFrame:
        """Return the records and documents among some that are still bad which were bad before."""
        rows = identified(still).join(self._numbers, [*RECORD_COLUMNS], "left")
        was_bad = F.array_contains(_NUMBERS, F.col(DOCUMENT_NUMBER))
        return rows.where(F.col(_NUMBERS).isNull() | was_bad).select(*still.columns)

    def rows_of(self, rows: DataFrame) -> DataFrame:
        """Return the rows among some, which have their order, of records and documents that were bad."""
        size = F.length(ORDER_COLUMN) - _NUMBER_DIGITS
        order = F.col(ORDER_COLUMN).substr(F.lit(1), size)
        number = F.col(ORDER_COLUMN).substr(size + 1, F.lit(_NUMBER_DIGITS)).cast("int")
        numbers = self._numbers.select(_RECORD_ORDER, _NUMBERS)
        found = rows.join(numbers, order == F.col(_RECORD_ORDER), "left")
        return found.where(F.col(_NUMBERS).isNull() | F.array_contains(_NUMBERS, number)).select(
            *rows.columns
        )


def _reasons_of(records: DataFrame) -> DataFrame:
    """Return the identities of bad records, with all reasons of each."""
    reasons = F.sort_array(F.collect_list("error")).alias(_REASONS)
    return identified(records).groupBy(*IDENTITY).agg(reasons)
