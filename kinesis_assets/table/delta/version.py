"""One version of a Delta table, raw or derived: what its log says about it, and commits on top of it.

Never import this module in a Spark task, see `opening`.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Field, PostCommitHookProperties, QueryBuilder, Schema, TableFeatures
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, Transaction

from kinesis_assets.errors import CommitOvertaken, TableUnreachable, TableUnsuitable
from kinesis_assets.table.data_file import TableFile
from kinesis_assets.table.delta.log import has_later_version, read_entry
from kinesis_assets.table.delta.opening import delta_errors
from kinesis_assets.table.store.storage import DAMAGED
from kinesis_assets.table.stored_table import ReadableVersion, TableTotals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from deltalake import DeltaTable
    from deltalake.table import FilterConjunctionType

    from kinesis_assets.table.stored_table import AddedFile, StoredTable


KEEP_ENTRIES = PostCommitHookProperties(cleanup_expired_logs=False)
"""For commits without a check of the clocks before. By default delta-rs deletes expired log entries by this
machine's clock, and such entries may be the only trace of a restore."""

_MAPPING = "delta.columnMapping.mode"
_READING = {"deletionVectors": "delta.enableDeletionVectors"}
_REPLACING = {"appendOnly": "delta.appendOnly", "changeDataFeed": "delta.enableChangeDataFeed"}

_INTEGERS = ("byte", "short", "integer", "long")

_TIMESTAMP_NTZ = "timestampNtz"
"""The feature of a table with a column of the type timestamp_ntz, at any depth."""


class TableVersion(ReadableVersion):
    """One version of a Delta table.

    Attributes:
        delta: The table, opened by delta-rs. Only the folder `table` uses it.
    """

    def __init__(self, table: StoredTable, delta: DeltaTable) -> None:
        self.table = table
        self.uri = table.uri
        self.folder = table.folder
        self.delta = delta
        self._found: dict[str, int | None] | None = None

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.delta.version()

    @property
    def registrable(self) -> TableVersion:
        """This version, as it is registered in the AWS Glue Data Catalog."""
        return self

    @property
    def id(self) -> str:
        """The id that the table got when it was created."""
        return str(self.delta.metadata().id)

    @property
    def created(self) -> float:
        """When the table was created, in seconds since the epoch."""
        return self.delta.metadata().created_time / 1000

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, by name."""
        return self.delta.metadata().configuration

    @property
    def partition_by(self) -> list[str]:
        """The names of the partition columns."""
        return self.delta.metadata().partition_columns

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The table's schema, as in Delta's metadata."""
        found: dict[str, Any] = json.loads(self.delta.schema().to_json())
        return found

    def data_files(self, columns: Sequence[str] = ()) -> list[TableFile]:
        """Return the data files of this version, with the smallest and greatest values of some columns."""
        actions = pa.table(self.delta.get_add_actions(flatten=True))
        partition = {f"partition.{name}": name for name in self.partition_by}
        wanted = [
            "path",
            "size_bytes",
            "num_records",
            *partition,
            *(f"{bound}.{name}" for bound in ("min", "max", "null_count") for name in columns),
        ]
        # A column of statistics that no file has is missing.
        actions = actions.select([name for name in wanted if name in actions.column_names])
        days = [
            pa.field(field.name, pa.int32())
            if pa.types.is_date32(field.type) and field.name not in partition
            else field
            for field in actions.schema
        ]
        rows = actions.cast(pa.schema(days)).to_pylist()
        return [
            TableFile(
                path=unquote(row["path"]),  # the paths of the log are percent-encoded
                size=row["size_bytes"],
                rows=row.get("num_records"),
                partition={name: row[key] for key, name in partition.items()},
                smallest={name: row.get(f"min.{name}") for name in columns},
                greatest={name: row.get(f"max.{name}") for name in columns},
                nulls={name: row.get(f"null_count.{name}") for name in columns},
            )
            for row in rows
        ]

    def totals(self) -> TableTotals:
        """Return the totals of this version. No data file is read."""
        actions = pa.table(self.delta.get_add_actions()).select(["size_bytes", "num_records"])
        counts = actions["num_records"]
        rows = None if counts.null_count else pc.sum(counts).as_py() or 0
        return TableTotals(rows, pc.sum(actions["size_bytes"]).as_py() or 0, actions.num_rows)

    def query(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query in SQL, for which this version is the table `rows`.

        Raises:
            TableUnreachable: The rows cannot be read.
        """
        try:
            found = QueryBuilder().register("rows", self.delta).execute(query).read_all()
        except (DeltaError, OSError) as error:
            raise TableUnreachable(self.uri, f"its rows cannot be read: {error}") from None
        rows: list[dict[str, Any]] = pa.table(found).to_pylist()
        return rows

    def commit_id_of(self, application: str) -> int | None:
        """Return the version of the newest transaction of an application, if there is one.

        delta-rs reads the log again for each transaction. Most commits set the one that is wanted, so the
        newest log entry is read first, and each transaction is looked up once.

        Raises:
            TableUnreachable: The log cannot be read at present.
        """
        if self._found is None:
            self._found = {}
            with suppress(OSError, *DAMAGED):  # delta-rs reads it, or raises
                entry = read_entry(self.table.files, self.version)
                self._found |= {} if entry is None else entry.transactions
        if application not in self._found:
            with delta_errors(self.uri, "opened"):
                self._found[application] = self.delta.transaction_version(application)
        return self._found[application]

    def refuse_unreadable(self) -> None:
        """Check that the table has no deletion vectors and no column mapping, see `ReadableVersion`."""
        self._refuse(_READING)

    def refuse_irreplaceable(self) -> None:
        """Check that files can be replaced by others, see `WritableVersion`."""
        self._refuse(_READING | _REPLACING)

    def _refuse(self, features: Mapping[str, str]) -> None:
        properties = self.properties
        found = [name for name, key in features.items() if properties.get(key, "false").lower() == "true"]
        # The protocol lists a feature also if only old files have it. delta-rs lists none for old protocols.
        named = {str(name) for name in self.delta.protocol().reader_features or ()}
        found += [name for name in _READING if name in named and name not in found]
        if properties.get(_MAPPING, "none").lower() != "none":
            found.append("columnMapping")
        if found:
            raise TableUnsuitable(
                self.uri,
                f"uses {', '.join(found)}, with which its files cannot be read or replaced one by one; "
                "nothing was changed. Remove the feature, or copy the rows to a table without it",
            )

    def add_columns(self, fields: Iterable[Mapping[str, Any]]) -> None:
        """Add columns to the table, see `WritableVersion`."""
        columns = [Field.from_json(json.dumps(field)) for field in fields]
        with delta_errors(self.uri, "changed", writes=True), self._overtaken():
            self.delta.alter.add_columns(columns, post_commithook_properties=KEEP_ENTRIES)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table. Raises as `add_columns`."""
        with delta_errors(self.uri, "changed", writes=True), self._overtaken():
            self.delta.alter.set_table_properties(dict(properties), post_commithook_properties=KEEP_ENTRIES)

    def allow_timestamp_ntz(self) -> None:
        """Add the feature of tables with columns of the type timestamp_ntz. Raises as `add_columns`.

        A write transaction adds no feature, and a table that lacks the one of its columns cannot be opened.
        """
        if _TIMESTAMP_NTZ in (self.delta.protocol().writer_features or ()):
            return
        with delta_errors(self.uri, "changed", writes=True), self._overtaken():
            self.delta.alter.add_feature(
                TableFeatures.TimestampWithoutTimezone,
                allow_protocol_versions_increase=True,
                post_commithook_properties=KEEP_ENTRIES,
            )

    def _write(
        self,
        added: Iterable[AddedFile],
        removed: Iterable[TableFile] = (),
        *,
        properties: CommitProperties,
        data_change: bool = True,
        columns: Mapping[str, Any] | None = None,
        hooks: PostCommitHookProperties = KEEP_ENTRIES,
    ) -> None:
        """Add and remove files in one atomic commit. An error does not mean that the commit failed.

        Args:
            properties: The properties of the commit, see `commit_properties`.
            data_change: Whether the rows change; otherwise they are only moved to other files.
            columns: The schema that the table gets, as in Delta's metadata; None to keep its own. Then either
                all files of this version must be removed, or none, and none only if the table is empty or
                has a partition column of integers.
            hooks: What delta-rs does after the commit.

        Raises:
            CommitOvertaken: Another commit was made after this version.
        """
        removed = list(removed)
        filters = None if columns is None else self._overwrite_filter(removed)
        now = time.time_ns() // 1_000_000  # by this machine's clock, as delta-rs uses it
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values=file.partition,
                modification_time=now,
                data_change=data_change,
                stats=file.statistics,
            )
            for file in added
        ]
        actions += (
            RemoveAction(
                path=file.path,
                data_change=data_change,
                deletion_timestamp=now,
                size=file.size,
                partition_values=file.partition_texts,
            )
            for file in removed
            if columns is None  # an overwrite removes them itself
        )
        with self._overtaken():
            self.delta.create_write_transaction(
                actions,
                mode="append" if columns is None else "overwrite",
                schema=self.delta.schema() if columns is None else Schema.from_json(json.dumps(columns)),
                partition_by=self.partition_by,
                partition_filters=filters,
                commit_properties=properties,
                post_commithook_properties=hooks,
            )

    def _overwrite_filter(self, removed: Sequence[TableFile]) -> FilterConjunctionType | None:
        """Return the filter with which an overwrite of the columns removes some files, and no others.

        Raises:
            ValueError: There is none.
        """
        present = {file.path for file in self.data_files()}
        if present == {file.path for file in removed}:
            return None
        integers = [
            field["name"]
            for field in self.schema["fields"]
            if field["name"] in self.partition_by and field["type"] in _INTEGERS
        ]
        if removed or not integers:
            raise ValueError(f"table {self.uri}: its columns cannot be changed without its other files")
        return [(integers[0], "=", "0"), (integers[0], "=", "1")]  # no file is in both partitions

    @contextmanager
    def _overtaken(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            if has_later_version(self.table.files, self.version):
                raise CommitOvertaken(self.uri, str(error)) from None
            raise


def commit_properties(
    transactions: Mapping[str, int], audit: Mapping[str, str] | None = None, *, exclusive: bool = False
) -> CommitProperties:
    """Return the properties of a commit.

    Args:
        transactions: The versions of the transactions that it sets, by application. Delta refuses the commit
            if another one has set one of them since (Delta protocol, "Transaction Identifiers").
        audit: What the log entry says besides.
        exclusive: Refuse the commit after any other commit, even after a compaction.
    """
    return CommitProperties(
        app_transactions=[Transaction(name, version) for name, version in transactions.items()],
        custom_metadata=None if audit is None else dict(audit),
        max_commit_retries=0 if exclusive else None,
    )
