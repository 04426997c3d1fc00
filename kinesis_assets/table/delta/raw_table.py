"""The raw table in the format Delta Lake. Its log points at the positions by transactions.

Delta refuses a commit that sets a transaction which another commit has set since the version that was opened
(Delta protocol, "Transaction Identifiers"). Never import this module in a Spark task, see `opening`.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.fs
from deltalake import ColumnProperties, PostCommitHookProperties, Schema, WriterProperties

from kinesis_assets.errors import TableUnreachable, TableUnsuitable
from kinesis_assets.table.clocks import clocks_agree
from kinesis_assets.table.column_schemas import schema_of
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.data_file import (
    DICTIONARIES,
    PARTITION_COLUMNS,
    REWRITTEN_FILES,
    ROW_GROUP_BYTES,
    STATISTICS,
    TABLE_SCHEMA,
)
from kinesis_assets.table.delta.log import (
    RewriteLog,
    applications,
    later_version_of,
    named_files,
    newest_version_of,
    rewrites_of,
)
from kinesis_assets.table.delta.opening import open_delta, open_or_create_delta
from kinesis_assets.table.delta.version import KEEP_ENTRIES, TableVersion, commit_properties
from kinesis_assets.table.format import DESCRIPTION, TableFormat
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.policy import HISTORY_RETENTION, TABLE_PROPERTIES
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER
from kinesis_assets.table.row_predicates import sql_text
from kinesis_assets.table.snapshot import NewestRow, TableSnapshot
from kinesis_assets.table.store.storage import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deltalake import CommitProperties, DeltaTable

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.row_predicates import RowPredicate
    from kinesis_assets.table.snapshot import ChainedTable, Pointers
    from kinesis_assets.table.stored_table import LogEntry, Rewrite

# Sequence numbers are stored as text. Texts of the same length sort as numbers do.
_NUMBERS = """
    SELECT stream, shard_id, max(sequence_number) AS number, count(*) AS found,
        max(approximate_arrival_timestamp) AS arrival
    FROM rows GROUP BY stream, shard_id, character_length(sequence_number)
"""


class DeltaSnapshot(TableVersion, TableSnapshot):
    """One version of a raw Delta table."""

    table: ChainedTable

    def __init__(self, table: ChainedTable, delta: DeltaTable, log: RewriteLog) -> None:
        super().__init__(table, delta)
        self._log = log

    def applications(self) -> frozenset[str]:
        """Return the application ids of all transactions, see `TableSnapshot`."""
        try:
            return applications(self.table.files)
        except (OSError, *DAMAGED) as error:
            raise TableUnreachable(self.table.uri, f"its log cannot be read: {error}") from None

    def version_of(self, commit_id: int) -> int | None:
        """Return the version whose commit points at a commit id, if it is among the newest hundred.

        The history of delta-rs is not used, because it fails on some values that other writers store in
        commitInfo.
        """
        return newest_version_of(self.table.files, self.version, commit_id)

    def later_version_of(self, commit_id: int) -> int | None:
        """Return the version after this one whose commit points at a commit id, see `TableSnapshot`."""
        return later_version_of(self.table.files, self.version, commit_id)

    def entries(self) -> list[LogEntry]:
        """Return the versions that the log still has, newest first."""
        return list(self._log.entries_back(0, self.version))

    def rewrites(self) -> list[Rewrite]:
        """Return the restores and overwrites that the log still shows."""
        return [rewrite for entry in self.entries() for rewrite in rewrites_of(entry)]

    def rewrites_since(self, positions: StreamPositions) -> list[Rewrite]:
        """Return the restores and overwrites after positions, see `TableSnapshot`."""
        return self._log.since(positions, self.version)

    def rewrites_between(self, base: int) -> list[Rewrite] | None:
        """Return the restores and overwrites after a version, see `TableSnapshot`."""
        return self._log.between(base, self.version)

    def deleted_since(self, positions: StreamPositions) -> int | None:
        """Return the newest version that the log no longer has, see `TableSnapshot`."""
        return self._log.deleted_since(positions, self.version)

    def named_files(self) -> set[str]:
        """Return the paths of data files that any version in the log names."""
        return named_files(self.table.files)

    def count(self, predicate: RowPredicate) -> dict[str, int]:
        """Count the rows that match a predicate, by shard id, see `TableSnapshot`."""
        query = f"SELECT shard_id, count(*) AS found FROM rows WHERE {predicate.sql} GROUP BY shard_id"  # noqa: S608
        return {row["shard_id"]: row["found"] for row in self.query(query)}

    def newest_rows(self) -> Mapping[str, Mapping[str, NewestRow]]:
        """Return the newest row of each shard, see `TableSnapshot`."""
        found: dict[str, dict[str, NewestRow]] = {}
        for row in self.query(_NUMBERS):
            shards = found.setdefault(row["stream"], {})
            other = shards.get(row["shard_id"])
            number, rows, arrival = row["number"], int(row["found"]), row["arrival"]
            if other is not None:
                number = max(number, other.sequence_number, key=int)
                rows, arrival = rows + other.rows, max(arrival, other.last_arrival)
            shards[row["shard_id"]] = NewestRow(number, 0, rows, arrival)
        numbers = {row.sequence_number for shards in found.values() for row in shards.values()}
        if not numbers:
            return found
        subs = (
            "SELECT stream, shard_id, sequence_number, max(sub_sequence_number) AS sub FROM rows "  # noqa: S608  # quoted
            f"WHERE sequence_number IN ({', '.join(map(sql_text, sorted(numbers)))}) "
            "GROUP BY stream, shard_id, sequence_number"
        )
        for row in self.query(subs):
            newest = found[row["stream"]][row["shard_id"]]
            if newest.sequence_number == row["sequence_number"]:
                found[row["stream"]][row["shard_id"]] = NewestRow(
                    newest.sequence_number, int(row["sub"]), newest.rows, newest.last_arrival
                )
        return found

    def accept_rows(self) -> bool:
        """Change the schema of a table from an older release, see `TableSnapshot`.

        Raises what `accept_null` raises.
        """
        refused = columns_without_null(self.delta)
        if refused:
            accept_null(self.delta)
        return bool(refused)

    def claim(self, identity: StreamIdentity) -> None:
        """Set a stream as the table's owner, see `TableSnapshot`."""
        self.delta.alter.set_table_properties(
            {OWNER: identity.arn}, raise_if_not_exists=False, post_commithook_properties=KEEP_ENTRIES
        )

    def _add(self, files: Sequence[DataFile], pointers: Pointers) -> None:
        if files and (refused := columns_without_null(self.delta)):
            raise TableUnsuitable(
                self.table.uri,
                f"its column {', '.join(refused)} does not accept null yet. Nothing was committed; run again",
            )
        positions = pointers.positions
        self._write(
            files,
            properties=_properties(pointers),
            hooks=PostCommitHookProperties(
                cleanup_expired_logs=positions is not None and may_clean_up(positions)
            ),
        )

    def _delete(self, predicate: RowPredicate, pointers: Pointers) -> int:
        files = self.data_files()
        row_bytes = sum(file.size for file in files) // max(1, sum(file.rows or 0 for file in files))
        metrics = self.delta.delete(
            predicate.sql,
            writer_properties=writer_properties(row_bytes),
            commit_properties=_properties(pointers),
            post_commithook_properties=KEEP_ENTRIES,
        )
        return int(metrics["num_deleted_rows"])


_PAGE_ROWS = 1024
_PAGE_BYTES = 1 << 20
"""The maximum size of a Parquet page: in rows, and in bytes."""


def writer_properties(row_bytes: int) -> WriterProperties:
    """Return settings with which delta-rs writes files as `DataFileWriter` does: statistics and row groups.

    Args:
        row_bytes: Mean size of a row in the files, in bytes. delta-rs limits row groups and pages by their
            rows, but memory use depends on their bytes.
    """
    return WriterProperties(
        compression=REWRITTEN_FILES.codec,
        compression_level=REWRITTEN_FILES.level,
        max_row_group_size=max(1, ROW_GROUP_BYTES // max(1, row_bytes)),
        write_batch_size=max(1, min(_PAGE_ROWS, _PAGE_BYTES // max(1, row_bytes))),
        default_column_properties=ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE"),
        column_properties={
            name: ColumnProperties(
                dictionary_enabled=name in DICTIONARIES,
                statistics_enabled="CHUNK" if name in STATISTICS else "NONE",
            )
            for name in {*STATISTICS, *DICTIONARIES}
        },
    )


_TOKEN_KEY = "kinesis_assets.token"  # noqa: S105  # the stored name of a commit id
_AMENDMENT_KEY = "kinesis_assets.past_token"  # likewise, of an amendment

_CLEAN_UP_EVERY = 100
"""One in this many commits deletes expired log entries, which takes as long as a commit."""

_OLDEST_LISTING = HISTORY_RETENTION / 3
"""No attempt commits with an older listing of its shards, see `commit.MAX_ATTEMPT_AGE`."""


def _properties(pointers: Pointers) -> CommitProperties:
    """Return the properties of a commit.

    A pointer is a transaction in the name of the stream. Its version is the commit id, which names the file.
    """
    audit = {}
    if pointers.positions is not None:
        audit[_TOKEN_KEY] = str(pointers.positions.commit_id)
    if pointers.amendment is not None:
        audit[_AMENDMENT_KEY] = str(pointers.amendment.commit_id)
    return commit_properties(pointers.commit_ids, audit)


def may_clean_up(positions: StreamPositions) -> bool:
    """Return whether the commit of positions may delete expired log entries.

    delta-rs compares ages with this machine's clock, from which the id of the commit was drawn. If that clock
    disagrees with the service time of the last listing, nothing is deleted until the next maintenance.
    """
    if positions.generation % _CLEAN_UP_EVERY or positions.listed_at is None:
        return False
    drawn = datetime.fromtimestamp(time_of_id(positions.commit_id), UTC)
    return clocks_agree(positions.listed_at, drawn, age=_OLDEST_LISTING)


# Tables of older releases forbid null in a column that may be null now. delta-rs does not compare the files
# of a commit with the table's schema: it would add a file with nulls to such a table, and its readers might
# fail or return wrong values. So rows are committed only through a version whose schema accepts null wherever
# this release may write it. The schema is changed by a separate commit; existing files are valid under the
# new one. Delta refuses every commit that is based on a version before the change, and it is tried again;
# this includes commits of an older release. Of several concurrent changes, one is committed.
_MAY_BE_NULL = frozenset(field.name for field in Schema.from_arrow(TABLE_SCHEMA).fields if field.nullable)


def columns_without_null(delta: DeltaTable) -> list[str]:
    """Return the columns in which a table forbids null although this release may write it."""
    return [
        field.name for field in delta.schema().fields if field.name in _MAY_BE_NULL and not field.nullable
    ]


def accept_null(delta: DeltaTable) -> None:
    """Change the schema to accept null in these columns, by one commit for each.

    Source: https://docs.delta.io/latest/delta-batch.html#change-column-comment-or-ordering (ALTER COLUMN)

    Raises:
        CommitFailedError: Another commit changed the table's metadata.
        DeltaError, OSError: The commit failed, or its response was lost.
    """
    for name in columns_without_null(delta):
        delta.alter.drop_column_not_null(name, post_commithook_properties=KEEP_ENTRIES)


class DeltaFormat(TableFormat):
    """Raw tables in the format Delta Lake."""

    def __init__(self, table: ChainedTable) -> None:
        self._table = table
        self.rewrites = RewriteLog(table.uri, table.files)

    def open(self) -> DeltaSnapshot:
        """Open the newest version, see `TableFormat`."""
        table = self._table
        try:
            opened = DeltaSnapshot(table, open_delta(table.uri, table.folder), self.rewrites)
        except TableUnreachable:
            self._refuse_a_file()
            raise
        found, wanted = (
            {field["name"]: field["type"] for field in schema["fields"]}
            for schema in (opened.schema, schema_of(TABLE_SCHEMA))
        )
        wrong = [name for name, kind in wanted.items() if found.get(name) != kind]
        if wrong or opened.partition_by != PARTITION_COLUMNS:
            raise TableUnsuitable(
                table.uri,
                f"not a raw Kinesis table (wrong or missing: {', '.join(wrong) or 'its partition column'}); "
                "use a separate table for the stream",
            )
        return opened

    def create(self, opened: Callable[[], TableSnapshot], owner: StreamIdentity | None) -> TableSnapshot:
        """Open the table, or create an empty one, see `TableFormat`."""
        return open_or_create_delta(
            self._table,
            opened,
            schema_of(TABLE_SCHEMA),
            commits=POSITIONS_FOLDER,
            partition_by=PARTITION_COLUMNS,
            configuration=TABLE_PROPERTIES | ({} if owner is None else {OWNER: owner.arn}),
            description=DESCRIPTION,
        )

    def _refuse_a_file(self) -> None:
        files = self._table.files
        if not isinstance(files.base_fs, pyarrow.fs.LocalFileSystem):
            return
        with suppress(OSError):  # the caller reports its own error
            path = files.base_path.rstrip("/")
            if files.base_fs.get_file_info(path).type is pyarrow.fs.FileType.File:
                raise TableUnsuitable(self._table.uri, "is a file, not a folder; use a folder for the table")
