"""A derived table: a Delta table whose log points at an entry with how much of its source it has consumed.

Refuses a derived table whose rows may not be those before its position, until it is rebuilt. A RESTORE
reverts files but not transactions, so the position is ahead of the rows afterwards, as in
`table.delta.rewrites`. A copy of the rows has no position at all.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from kinesis_assets.derive.commit_entry import (
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
from kinesis_assets.table.delta.opening import open_delta, open_or_create
from kinesis_assets.table.delta.rewrites import RewriteLog
from kinesis_assets.table.delta.version import TableVersion, arrow_schema, commit_properties
from kinesis_assets.table.ownership import DERIVED
from kinesis_assets.table.policy import HISTORY_PROPERTIES, STATISTICS_PROPERTY, TablePolicy
from kinesis_assets.table.store.chain import Chain
from kinesis_assets.table.stored_table import StoredTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kinesis_assets.derive.data_files import DerivedFile
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.data_file import TableFile

SOURCE_PROPERTY = "kinesis_assets.source"
"""The property of a derived table with the id of its source table."""


CommitEntries = Chain[DerivedCommit]

_WAY_OUT = f"Restore the original file; or run {REBUILD_COMMAND}, which derives all rows again without it"


class DerivedTable(StoredTable):
    """A derived table, which may not exist yet.

    Attributes:
        rewrites: The restores and overwrites in its log.
        entries: The entries of its commits; caches those it has read.

    The arguments and errors are those of `StoredTable`. The role accesses the source of the table too.
    """

    def __init__(
        self, uri: str, policy: TablePolicy = TablePolicy(), role: AssumedRole | None = None
    ) -> None:
        super().__init__(uri, policy, role)
        self.rewrites = RewriteLog(uri, self.files)
        self.entries = Chain(uri, lambda: self.files, entry_path, decode_entry, way_out=_WAY_OUT)

    def snapshot(self) -> DerivedSnapshot:
        """Open the newest version of the table.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The table's log cannot be read.
            TableUnsuitable: The table is not a derived table.
        """
        opened = DerivedSnapshot(self, open_delta(self.uri, self.folder))
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

    def open_or_create(
        self, source: str, schema: dict[str, Any], partition_by: Sequence[str]
    ) -> DerivedSnapshot:
        """Open the table; create it if it does not exist. Of several processes, one creates it.

        Args:
            source: The id of the source table.

        Raises:
            StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
            TableOfAnotherSource: The table belongs to another source.
            TableUnsuitable: The table is not a derived table, or has other partition columns.
        """
        stored = [field for field in arrow_schema(schema) if field.name not in partition_by]
        snapshot = open_or_create(
            self.snapshot,
            self.uri,
            self.folder,
            schema,
            self.clock,
            partition_by=partition_by,
            configuration=HISTORY_PROPERTIES
            | {SOURCE_PROPERTY: source, STATISTICS_PROPERTY: ",".join(listed_columns(stored))},
        )
        snapshot.check_identity(source, partition_by)
        return snapshot


class DerivedSnapshot(TableVersion):
    """One version of a derived table."""

    table: DerivedTable

    @property
    def commit_id(self) -> int | None:
        """The commit id of the newest commit, at whose entry the log points; None if there is none."""
        return self.commit_id_of(DERIVED)

    @cached_property
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
    def is_empty(self) -> bool:
        """Whether it has no rows and remembers no deletions. Only then its columns can get any types."""
        return (self.newest is None or self.newest.deletions is None) and not self.data_files()

    def check_identity(self, source: str, partition_by: Sequence[str]) -> None:
        """Check that the table belongs to a source and has some partition columns.

        Raises:
            TableOfAnotherSource: The table belongs to another source.
            TableUnsuitable: The table has other partition columns.
        """
        owner = self.properties.get(SOURCE_PROPERTY)
        if owner != source:
            raise TableOfAnotherSource(
                self.table.uri,
                f"was derived from the table with the id {owner}, but the source now has the id {source}; "
                "nothing was changed. Correct the source, or use another table",
            )
        if self.partition_columns != list(partition_by):
            raise TableUnsuitable(
                self.table.uri,
                f"is partitioned by {self.partition_columns}, and not by {list(partition_by)}; use "
                "another table for other partition columns",
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

        The entry is first written to a new file. Delta refuses the commit if another one has written the
        same transaction entry since this version. An error does not mean that the commit failed, because its
        response may have been lost.

        Args:
            exclusive: Refuse the commit after any other commit since this version, even after a compaction.
            columns: The schema that the table gets, as in Delta's metadata; None to keep its own. All files
                of this version must be removed, or none, see `growth`, and the commit must be exclusive.

        Raises:
            CommitOvertaken: Another commit was made after this version.
        """
        self.table.entries.write(entry)
        properties = commit_properties({DERIVED: entry.commit_id}, exclusive=exclusive)
        self._write(added, removed, properties=properties, columns=columns)

    def replace(self, added: Iterable[DerivedFile], removed: Iterable[TableFile]) -> None:
        """Replace files by others with the same rows, if no other commit was made after this version.

        Raises:
            CommitOvertaken: Another commit was made. As in `commit`, an error does not prove that this one
                was not.
        """
        self._write(added, removed, properties=commit_properties({}, exclusive=True), data_change=False)


_MAX_COMMITS = 100
"""Maximum number of commits that are searched for one with rows; each takes reading a file."""


def refuse_rewritten(snapshot: DerivedSnapshot) -> None:
    """Check that no restore or overwrite came after the newest commit.

    If another engine has deleted entries of the log, the rows are examined instead.
    """
    newest = snapshot.newest
    if newest is None:
        return
    rewrites = snapshot.table.rewrites.between(newest.examined, snapshot.version)
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
