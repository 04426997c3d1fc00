"""A derived table, the routes of a router and separated records as sources; and which source a path names."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from kinesis_assets.derive.commit_entry import ENTRIES_FOLDER, REBUILD_COMMAND
from kinesis_assets.derive.cursor import RECORD_COLUMNS, Cursor, Selection
from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    COMMIT_ORDER_COLUMN,
    ERRORS_FOLDER,
    FOUND_COLUMN,
    router_and_values,
)
from kinesis_assets.derive.derived_table import (
    SOURCE_PROPERTY,
    DeltaDerived,
    DerivedTable,
    refuse_rewritten,
    refuse_unknown_rows,
)
from kinesis_assets.derive.policy import ROUTE_COLUMN, DeletedRows, Deletion
from kinesis_assets.derive.raw_source import RawSource
from kinesis_assets.derive.source import RankedFile, Source, SourceCommit, commits_missing
from kinesis_assets.errors import PositionsUnreadable, TableOfAnotherSource, TableUnsuitable
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER
from kinesis_assets.table.column_schemas import schema_of
from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.format import DerivedIn
from kinesis_assets.table.maintenance.pruning import files_by_id
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from kinesis_assets.derive.commit_entry import DerivedCommit, Floor
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.format import SourceFormat

_PARALLEL_READS = 16


def open_source(
    uri: str,
    role: AssumedRole | None = None,
    format: SourceFormat | None = None,  # noqa: A002  # as that of a table
) -> Source:
    """Open the newest version of a raw or derived table.

    Args:
        uri: The table's path or URI; or that of the folder with the records that a typed table has separated;
            or what `routes_folder` returned.
        format: Returns the format of the table; None for a table in the format Delta Lake.

    Raises:
        InvalidInput: The path or URI is invalid.
        TableMissing: The table does not exist.
        TableUnreachable: The table's log cannot be read.
        TableUnsuitable: The table is neither raw nor derived, or its features prevent reading it by files.
        TableRewritten: The table was restored or overwritten.
        PositionsMissing: The table is derived, and has rows but no position.
    """
    of_derived = format if isinstance(format, DerivedIn) else None
    if uri.endswith(f"/{ERRORS_FOLDER}"):
        typed = DerivedTable(uri.removesuffix(f"/{ERRORS_FOLDER}"), role=role, format=of_derived)
        return ErrorsSource(typed.snapshot())
    if (routed := router_and_values(uri)) is not None:
        router, values = routed
        return RoutesSource(DerivedTable(router, role=role, format=of_derived).snapshot(), values)
    if isinstance(format, DerivedIn):
        return DerivedSource(DerivedTable(uri, role=role, format=format).snapshot())
    if format is not None:
        return RawSource(PositionedTable(uri, role=role, format=format))
    snapshot = DeltaDerived(DerivedTable(uri, role=role)).open("the first run of its own asset")
    if SOURCE_PROPERTY in snapshot.properties:
        return DerivedSource(snapshot)
    return RawSource(PositionedTable(uri, role=role))


class DerivedSource(Source):
    """One version of a derived table.

    Raises the errors of `open_source`.
    """

    batch_column = BATCH_COLUMN
    keeps_rows = False
    snapshot: DerivedSnapshot

    def __init__(self, snapshot: DerivedSnapshot) -> None:
        super().__init__(snapshot)
        refuse_unknown_rows(snapshot)
        refuse_rewritten(snapshot)

    @property
    def end(self) -> Cursor:
        """The cursor after all rows of this version."""
        newest = self.snapshot.newest
        return Cursor(source=self.id, commit=None if newest is None else newest.commit_id)

    @property
    def expiry_column(self) -> str | None:
        """The column by whose date rows expire; None if they do not."""
        return None if self._floor is None else self._floor.column

    @property
    def floor(self) -> date | None:
        """The first date of the rows that the table keeps, in that column; None if it keeps all."""
        return None if self._floor is None else self._floor.first

    @property
    def expired_rows(self) -> int:
        """Number of rows that the table has deleted because of their age, see `Source`."""
        return 0 if self._floor is None else self._floor.rows

    @property
    def _floor(self) -> Floor | None:
        newest = self.snapshot.newest
        return None if newest is None else newest.floor

    def commits_since(self, cursor: Cursor, limit: int | None = None) -> list[SourceCommit]:
        """Return the commits after a cursor, see `Source`."""
        since = self.snapshot.table.entries.since(self.snapshot.newest, cursor.commit)
        try:
            found = [
                SourceCommit(
                    entry.commit_id,
                    entry.batch_id,
                    rows=self._rows_of(entry),
                    replaced=entry.replaced,
                    expired=entry.expired,
                )
                for entry in islice(since, limit)
            ]
        except PositionsUnreadable as error:
            raise commits_missing(self.uri, cursor, str(error)) from error
        return found[::-1]

    def _rows_of(self, entry: DerivedCommit) -> int:
        return entry.rows

    def recorded_batches(self) -> tuple[int, ...]:
        """Return the batch ids of the commits that are recorded, see `Source`."""
        # A chain has up to 100,000 entries, which would take long one after the other.
        ids = files_by_id(self.snapshot.table.files, ENTRIES_FOLDER)
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            links = dict(zip(ids, pool.map(self._link, ids), strict=True))
        found: list[int] = []
        each = self.snapshot.commit_id
        while each is not None and (link := links.get(each)) is not None:
            each, batch_id = link
            found.append(batch_id)
        return tuple(found[::-1])

    def _link(self, commit_id: int) -> tuple[int | None, int] | None:
        """Return the commit before one, and its batch id; None if its entry cannot be used."""
        try:
            entry = self.snapshot.table.entries.at(commit_id)
        except PositionsUnreadable:  # it was pruned, or the process that wrote it was killed
            return None
        return entry.previous, entry.batch_id

    def with_rows(self, commits: Sequence[SourceCommit]) -> list[SourceCommit]:
        """Return commits with the number of their rows, see `Source`."""
        return list(commits)


_ROUTER_ORDER = (COMMIT_ORDER_COLUMN, *RECORD_COLUMNS, DOCUMENT_NUMBER)
"""The columns of a router by which its rows have the order that they have in its source."""


class RoutesSource(DerivedSource):
    """The rows of a router with some values of its column `route`.

    Its commits are those of the router, of which only these rows count, and only their files are read.
    """

    def __init__(self, snapshot: DerivedSnapshot, values: Collection[str]) -> None:
        super().__init__(snapshot)
        self._values = values
        if snapshot.partition_by != [ROUTE_COLUMN]:
            raise TableUnsuitable(
                self.uri, f"is not partitioned by {ROUTE_COLUMN}, so it is no router; correct the source"
            )
        columns = {field["name"] for field in self.schema["fields"]}
        self.order_columns = [name for name in _ROUTER_ORDER if name in columns]

    def ranked_files(self, selection: Selection) -> list[RankedFile]:
        """Return the files that may have selected rows."""
        files = super().ranked_files(selection)
        return [each for each in files if each.file.partition[ROUTE_COLUMN] in self._values]

    def _rows_of(self, entry: DerivedCommit) -> int:
        return sum(entry.routed.get(value, 0) for value in self._values)


class ErrorsSource(DerivedSource):
    """The records that a typed table could not decode, and that its commits have separated.

    Its commits are those of the table with such records, and its redrives, each of which names the records
    that it removes or replaces. Each names the one before it, so others are not read. They are recorded for
    as long as all commits of the table.

    The arguments and errors are those of `DerivedSource`.
    """

    replaces = (*RECORD_COLUMNS, DOCUMENT_NUMBER)

    @property
    def origin_id(self) -> str:
        """The id of the source of the typed table, from which older releases derived its table of errors."""
        return self.snapshot.properties[SOURCE_PROPERTY]

    @property
    def schema(self) -> Mapping[str, Any]:
        """The columns of the records.

        They are those of the raw table that a table of errors has, those that decoding may add, and the batch
        ids of the commits of this table.
        """
        fields = [field for field in TABLE_SCHEMA if field.name not in {"stream", RawSource.batch_column}]
        added = {
            "schema_id": pa.string(),
            DOCUMENT_NUMBER: pa.int32(),
            FOUND_COLUMN: pa.int64(),
            BATCH_COLUMN: pa.int64(),
        }
        return schema_of(pa.schema([*fields, *(pa.field(name, kind) for name, kind in added.items())]))

    @property
    def end(self) -> Cursor:
        """The cursor after all records of this version."""
        newest = self.snapshot.newest
        return Cursor(source=self.id, commit=None if newest is None else newest.last_errors)

    @property
    def _floor(self) -> None:
        """Nothing: the records do not expire with the rows of the table."""
        return

    @cached_property
    def start(self) -> Cursor:
        """The cursor before all records that are known, after those of older releases and pruned commits."""
        end = self.end
        each, entries = end.commit, self.snapshot.table.entries
        with suppress(PositionsUnreadable):
            while each is not None and (entry := entries.at(each)).records_errors:
                each = entry.errors_before
        return msgspec.structs.replace(end, commit=each)

    @property
    def forgotten(self) -> list[DeletedRows]:
        """The records of earlier commits, which are not known."""
        return [] if self.start.commit is None else [DeletedRows(deletion=Deletion.FORGOTTEN)]

    def accepted(self, cursor: Cursor) -> Cursor:
        """Return the position of a table of errors, also if an older release derived it on its own.

        Such a table continues only after the very records that the typed table had decoded.

        Raises:
            TableOfAnotherSource: It had decoded others, or the position belongs to another table.
        """
        if cursor.source != self.origin_id:
            return super().accepted(cursor)
        start, reached = self.start, None
        with suppress(PositionsUnreadable):
            reached = None if start.commit is None else self.snapshot.table.entries.at(start.commit).cursor
        if reached == cursor:
            return start
        raise TableOfAnotherSource(
            self.uri,
            f"an older release derived its table of errors up to the position {cursor}, but this table up to "
            f"{reached or 'one that is not recorded'}, so a record in between would be in both tables or in "
            "neither. Nothing was changed. If this table has no commit of this release yet, run both with "
            f"the older one until they have consumed everything; otherwise run {REBUILD_COMMAND} for both",
        )

    def commits_since(self, cursor: Cursor, limit: int | None = None) -> list[SourceCommit]:
        """Return the commits after a cursor, see `Source`."""
        found: list[SourceCommit] = []
        each = self.end.commit
        try:
            while each is not None and each != cursor.commit and len(found) != limit:
                entry = self.snapshot.table.entries.at(each)
                if not entry.records_errors:
                    raise commits_missing(self.uri, cursor, "an older release made them")
                rows = sum(file.rows for file in entry.errors)
                replaced = () if entry.redriven is None else entry.redriven.files
                found.append(
                    SourceCommit(
                        each,
                        entry.batch_id,
                        rows=rows,
                        replaced=replaced,
                        files=entry.errors,
                        is_alone=bool(replaced),
                    )
                )
                each = entry.errors_before
        except PositionsUnreadable as error:
            raise commits_missing(self.uri, cursor, str(error)) from error
        if each is None and cursor.commit is not None:
            raise commits_missing(self.uri, cursor, "it was rebuilt")
        return found[::-1]

    def files_of(self, commits: Sequence[SourceCommit]) -> list[RankedFile]:
        """Return the files with the records of some commits."""
        return [
            RankedFile(file.as_data_file(), commit.batch_id, commit.batch_id)
            for commit in commits
            for file in commit.files
        ]
