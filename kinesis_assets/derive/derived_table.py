"""A derived table: a table whose log points at an entry with how much of its source it has consumed.

Its format opens and creates it, see `DerivedFormat`. That of Delta Lake is here. Its log points at the entry
by a transaction.

A table whose rows may not be those before its position is refused until it is rebuilt. A RESTORE reverts
files but not transactions, so the position is ahead of the rows afterwards, as in `table.delta.log`. A
copy of the rows has no position at all.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from kinesis_assets.derive.column_types import needs_files
from kinesis_assets.derive.commit_entry import (
    ENTRIES_FOLDER,
    REBUILD_COMMAND,
    DeletionFile,
    DerivedCommit,
    decode_entry,
    entry_path,
)
from kinesis_assets.derive.cursor import Selection
from kinesis_assets.derive.data_files import BATCH_COLUMN, listed_columns
from kinesis_assets.errors import (
    PositionsMissing,
    PositionsUnreadable,
    TableMissing,
    TableOfAnotherSource,
    TableRewritten,
    TableUnsuitable,
)
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.delta.log import RewriteLog
from kinesis_assets.table.delta.opening import open_delta, open_or_create_delta
from kinesis_assets.table.delta.version import TableVersion, commit_properties
from kinesis_assets.table.maintenance.delta_operations import checkpoint, vacuum
from kinesis_assets.table.ownership import DERIVED
from kinesis_assets.table.partition_field import partition_fields
from kinesis_assets.table.policy import HISTORY_PROPERTIES, STATISTICS_PROPERTY, TablePolicy
from kinesis_assets.table.store.chain import Chain
from kinesis_assets.table.store.suitability import check_conditional_puts
from kinesis_assets.table.stored_table import StoredTable, WritableVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kinesis_assets.derive.data_files import DerivedFile
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.format import DerivedIn
    from kinesis_assets.table.maintenance.steps import Step
    from kinesis_assets.table.stored_table import AddedFile, Rewrite

SOURCE_PROPERTY = "kinesis_assets.source"
"""The property of a derived table with the id of its source table."""


_TIMESTAMP_NTZ = '"timestamp_ntz"'
"""The type in a schema, at any depth."""

CommitEntries = Chain[DerivedCommit]

_WAY_OUT = f"Restore the original file; or run {REBUILD_COMMAND}, which derives all rows again without it"


class DerivedTable(StoredTable):
    """A derived table, which may not exist yet.

    Attributes:
        format: Its format.
        entries: The entries of its commits; caches those it has read.

    Args:
        format: Returns its format; None for Delta Lake.

    The other arguments and the errors are those of `StoredTable`. The role accesses the source of the table
    too.
    """

    def __init__(
        self,
        uri: str,
        policy: TablePolicy = TablePolicy(),
        role: AssumedRole | None = None,
        format: DerivedIn | None = None,  # noqa: A002  # as in Spark
    ) -> None:
        super().__init__(uri, policy, role)
        self.entries = Chain(uri, lambda: self.files, entry_path, decode_entry, way_out=_WAY_OUT)
        self.format: DerivedFormat = DeltaDerived(self) if format is None else format.of(self)

    def snapshot(self) -> DerivedSnapshot:
        """Open the newest version of the table.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The table's log cannot be read.
            TableUnsuitable: The table is not a derived table.
        """
        opened = self.format.open()
        if SOURCE_PROPERTY not in opened.properties:
            raise TableUnsuitable(
                self.uri, "was not created as a derived table; use a table of its own for each derived table"
            )
        return opened

    def existing(self) -> DerivedSnapshot | None:
        """Open the newest version as `snapshot` does; None if the table does not exist."""
        try:
            return self.snapshot()
        except TableMissing:
            return None

    def columns_in_log(self, partition_by: Sequence[str]) -> Sequence[str]:
        """Return the partition columns that files lack. The log has an empty text in them as null.

        Args:
            partition_by: The setting `partition_by` of the table.
        """
        return () if self.format.has_partition_columns else partition_by

    def open_or_create(
        self, source: str, schema: dict[str, Any], partition_by: Sequence[str]
    ) -> DerivedSnapshot:
        """Open the table; create it if it does not exist. Of several processes, one creates it.

        Args:
            source: The id of the source table.

        Raises:
            StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
            TableOfAnotherSource: The table belongs to another source.
            TableUnsuitable: The table is not a derived table, or has other partitions.
        """
        snapshot = self.format.create({SOURCE_PROPERTY: source}, schema, partition_by)
        snapshot.check_identity(source, partition_by)
        return snapshot


class DerivedSnapshot(WritableVersion):
    """One version of a derived table."""

    table: DerivedTable

    @property
    def registrable(self) -> TableVersion | None:
        """This version, as it is registered in the AWS Glue Data Catalog; None if its format is not."""
        return None

    @property
    def commit_id(self) -> int | None:
        """The commit id of the newest commit, at whose entry the log points; None if there is none."""
        return self.commit_id_of(DERIVED)

    @property
    def newest(self) -> DerivedCommit | None:
        """The entry of the newest commit; None if nothing has been consumed yet.

        Raises:
            PositionsUnreadable: The file that the log points at is missing, damaged or of another commit.
        """
        return None if self.commit_id is None else self.table.entries.at(self.commit_id)

    def deletions(self, order_by: Sequence[str]) -> tuple[DeletionFile, ...]:
        """Return the files with the deletions that it remembers, if they are compared by these columns.

        Raises the errors of `newest`.
        """
        known = None if self.newest is None else self.newest.deletions
        return known.files if known is not None and known.order_by == tuple(order_by) else ()

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of a new file of this version, see `DerivedFormat`."""
        return self.table.format.file_schema(self.schema, self)

    @property
    def is_empty(self) -> bool:
        """Whether it has no rows and remembers no deletions. Only then its columns can get any types."""
        return (self.newest is None or self.newest.deletions is None) and not self.data_files()

    def check_identity(self, source: str, partition_by: Sequence[str]) -> None:
        """Check that the table belongs to a source and has some partitions.

        Args:
            partition_by: The setting `partition_by` of the table.

        Raises:
            TableOfAnotherSource: The table belongs to another source.
            TableUnsuitable: The table has other partitions.
        """
        owner = self.properties.get(SOURCE_PROPERTY)
        if owner != source:
            raise TableOfAnotherSource(
                self.table.uri,
                f"was derived from the table with the id {owner}, but the source now has the id {source}; "
                "nothing was changed. Correct the source, or use another table",
            )
        wanted = [str(field) for field in partition_fields(partition_by)]
        if self.partition_by != wanted:
            raise TableUnsuitable(
                self.table.uri,
                f"is partitioned by {self.partition_by}, and not by {wanted}; use another table for other "
                "partitions",
            )

    def commit(
        self,
        entry: DerivedCommit,
        added: Iterable[DerivedFile] = (),
        removed: Iterable[TableFile] = (),
        *,
        exclusive: bool,
        columns: dict[str, Any] | None = None,
    ) -> None:
        """Add and remove files and point the log at a new commit entry, in one atomic commit.

        The entry is first written to a new file. The other arguments and the errors are those of `write`.
        """
        self.table.entries.write(entry)
        self.write(added, removed, {DERIVED: entry.commit_id}, exclusive=exclusive, columns=columns)

    def replace(self, added: Iterable[DerivedFile], removed: Iterable[TableFile]) -> None:
        """Replace files by others with the same rows, if no other commit was made after this version.

        Raises as `write`.
        """
        self.write(added, removed, {}, exclusive=True)


class DerivedFormat(ABC):
    """Opens and creates one derived table.

    Attributes:
        has_partition_columns: Whether files have the partition columns.
    """

    has_partition_columns: ClassVar[bool]

    @abstractmethod
    def open(self) -> DerivedSnapshot:
        """Open the newest version of the table, or of one that is not derived.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The table's log cannot be read.
        """

    @abstractmethod
    def create(
        self, properties: Mapping[str, str], schema: Mapping[str, Any], partition_by: Sequence[str]
    ) -> DerivedSnapshot:
        """Open the table as `DerivedTable.snapshot` does; create it if it does not exist.

        Of several processes, one creates it.

        Args:
            properties: The properties of a new table, besides those that the format needs.
            schema: The columns of a new table, as in Delta's metadata.

        Raises:
            StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
            TableNotWritable: The table cannot be created because writing is refused.
            TableUnreachable: The table can be neither opened nor created.
        """

    @abstractmethod
    def check_store(self) -> None:
        """Check that a new table can be committed to, before rows are computed.

        Raises:
            StoreUnsuitable: The store ignores the condition of a conditional put.
        """

    @abstractmethod
    def storable(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return columns with wider types in place of those that the format lacks, as in Delta's metadata."""

    @abstractmethod
    def can_grow(self, old: Any, new: Any) -> bool:
        """Return whether the type of a column can become another one that holds its values."""

    @abstractmethod
    def needs_files(self, old: Any, new: Any) -> bool:
        """Return whether files must be rewritten when the type of a column becomes another one."""

    @abstractmethod
    def file_schema(self, schema: Mapping[str, Any], present: DerivedSnapshot | None) -> pa.Schema:
        """Return the columns of a file as Arrow writes them.

        Args:
            schema: The columns that the table has or gets, as in Delta's metadata.
            present: The version of the table that has them or gets them; None for a new table.
        """

    def steps_before(self, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
        """Perform the steps of a maintenance that come before those of all formats, and yield each of them.

        Raises:
            ClocksDisagree: The clocks differ.
        """
        del clock, dry_run
        yield from ()

    def steps_after(self, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
        """Perform the steps that come after compaction. Yields and raises as `steps_before`."""
        del clock, dry_run
        yield from ()


class _DeltaSnapshot(TableVersion, DerivedSnapshot):
    """One version of a derived Delta table.

    Args:
        log: The restores and overwrites in the table's log.
    """

    table: DerivedTable

    def __init__(self, table: DerivedTable, delta: Any, log: RewriteLog) -> None:
        super().__init__(table, delta)
        self._log = log

    def rewrites_since(self, base: int, commit_id: int) -> list[Rewrite] | None:
        """Return the restores and overwrites after a version, see `WritableVersion`."""
        del commit_id
        return self._log.between(base, self.version)

    def is_compacted_since(self, base: int) -> bool:
        """Return whether later versions only moved rows, see `WritableVersion`."""
        return self._log.are_compactions(base, self.version)

    def refuse_partition_change(self, columns: Mapping[str, Any]) -> None:
        """Check nothing: partition columns are known by their names, see `WritableVersion`."""
        del columns

    def complete_properties(self) -> None:
        """List the structs among the columns with statistics, see `listed_columns`.

        Tables of older releases list none. Raises as `add_columns`.
        """
        listed = self.properties.get(STATISTICS_PROPERTY)
        if listed is None:
            return
        names = listed.split(",")
        structs = {
            field["name"]
            for field in self.schema["fields"]
            if not isinstance(field["type"], str) and field["type"]["type"] == "struct"
        }
        wanted = listed_columns(arrow_schema(self.schema)) if structs - {*names} else []
        missing = [name for name in wanted if name in structs and name not in names]
        if missing:
            self.set_properties({STATISTICS_PROPERTY: ",".join([*names, *missing])})

    def prepare_columns(self, columns: Mapping[str, Any]) -> None:
        """Make the properties and features those that a table with other columns needs.

        The property of columns with statistics must stay true: readers find no rows by one that files lack.
        Raises as `add_columns`.
        """
        listed = self.properties.get(STATISTICS_PROPERTY, "").split(",")
        kept = [name for name in listed if name in listed_columns(arrow_schema(columns))]
        if _TIMESTAMP_NTZ in json.dumps(columns):
            self.allow_timestamp_ntz()
        if len(kept) < len(listed):
            self.set_properties({STATISTICS_PROPERTY: ",".join(kept)})

    def write(
        self,
        added: Iterable[AddedFile],
        removed: Iterable[TableFile],
        pointers: Mapping[str, int],
        *,
        exclusive: bool,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        """Add and remove files and set pointers, see `WritableVersion`."""
        properties = commit_properties(pointers, exclusive=exclusive)
        self._write(added, removed, properties=properties, data_change=bool(pointers), columns=columns)


class DeltaDerived(DerivedFormat):
    """Derived tables in the format Delta Lake."""

    has_partition_columns: ClassVar = False

    def __init__(self, table: DerivedTable) -> None:
        self._table = table
        self._log = RewriteLog(table.uri, table.files)

    def open(self, creator: str = "the first run") -> DerivedSnapshot:
        """Open the newest version, see `DerivedFormat`.

        Args:
            creator: What creates the table, for an error.
        """
        table = self._table
        return _DeltaSnapshot(table, open_delta(table.uri, table.folder, creator), self._log)

    def create(
        self, properties: Mapping[str, str], schema: Mapping[str, Any], partition_by: Sequence[str]
    ) -> DerivedSnapshot:
        """Open the table; create it if it does not exist, see `DerivedFormat`."""
        table = self._table
        stored = [field for field in arrow_schema(schema) if field.name not in partition_by]
        return open_or_create_delta(
            table,
            table.snapshot,
            schema,
            commits=ENTRIES_FOLDER,
            partition_by=partition_by,
            configuration=HISTORY_PROPERTIES
            | {**properties, STATISTICS_PROPERTY: ",".join(listed_columns(stored))},
        )

    def check_store(self) -> None:
        """Check that the store compares and sets, see `DerivedFormat`."""
        check_conditional_puts(self._table.uri, self._table.folder)

    def storable(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the columns, all of whose types Delta has, see `column_types.is_storable`."""
        return schema

    def can_grow(self, old: Any, new: Any) -> bool:
        """Return that it can: the files are rewritten if need be, see `derive.type_widening`."""
        del old, new
        return True

    def needs_files(self, old: Any, new: Any) -> bool:
        """Return whether files must be rewritten for some reader, see `DerivedFormat`."""
        return needs_files(old, new)

    def file_schema(self, schema: Mapping[str, Any], present: DerivedSnapshot | None) -> pa.Schema:
        """Return the columns, which readers find in a file by their names, see `DerivedFormat`."""
        del present
        return arrow_schema(schema)

    def steps_after(self, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
        """Delete files that no version names, and write a checkpoint of the log, see `DerivedFormat`.

        After a vacuum, files stay readable for as long as their versions do.
        """
        yield from vacuum(self._table, clock, dry_run=dry_run)
        if not dry_run:
            yield from checkpoint(self._table, clock)


_MAX_COMMITS = 100
"""Maximum number of commits that are searched for one with rows; each takes reading a file."""


def refuse_rewritten(snapshot: DerivedSnapshot) -> None:
    """Check that no restore or overwrite came after the newest commit.

    If another engine has deleted entries of the log, the rows are examined instead.
    """
    newest = snapshot.newest
    if newest is None:
        return
    rewrites = snapshot.rewrites_since(newest.examined, newest.commit_id)
    if rewrites is None:
        cause = "a version whose log entry was deleted" if _rows_are_missing(snapshot, newest) else ""
    else:
        cause = ", ".join(map(str, reversed(rewrites)))
    if cause:
        raise TableRewritten(
            snapshot.table.uri,
            f"{cause} replaced rows but not the position in the source, so rows may be missing or doubled; "
            f"nothing was read or changed. Run {REBUILD_COMMAND} to derive all rows again",
        )


def refuse_unknown_rows(snapshot: DerivedSnapshot) -> None:
    """Check that a table whose log points at no commit entry has no rows."""
    if snapshot.commit_id is None and snapshot.data_files():
        raise PositionsMissing(
            snapshot.table.uri,
            "it has rows, but no position in its source, so it is unknown which rows of the source they were "
            "derived from; it may be a copy. Nothing was changed. Use an empty table, or run "
            f"{REBUILD_COMMAND} to delete these rows and derive all again",
        )


def _rows_are_missing(snapshot: DerivedSnapshot, newest: DerivedCommit) -> bool:
    """Return whether all rows of the newest commit with rows are missing."""
    commits = islice(snapshot.table.entries.back_from(newest), _MAX_COMMITS)
    with suppress(PositionsUnreadable):  # an earlier entry was pruned
        for commit in commits:
            if commit.rows:
                batch = Selection(only=frozenset([commit.batch_id]))
                return not any(
                    batch.may_include(file.smallest[BATCH_COLUMN], file.greatest[BATCH_COLUMN])
                    for file in snapshot.data_files([BATCH_COLUMN])
                )
            if commit.deleted:
                return False  # it may have deleted the rows of an earlier one
    return False
