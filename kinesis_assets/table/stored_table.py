"""A table in its folder, of any format: where it is, and what a version of it and its log say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kinesis_assets.table.data_file import WrittenFile
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.data_file import TableFile


class AddedFile(WrittenFile, Protocol):
    """The part of a data file's description that the table stores."""

    @property
    def partition(self) -> Mapping[str, str | None]:
        """The value of each partition, by name, as `partition_texts` returns it and Delta's log stores it."""

    @property
    def statistics(self) -> str:
        """The file's statistics as in the Delta protocol, in JSON."""


class StoredTable(ABC):
    """A table, raw or derived, which may not exist yet.

    Attributes:
        uri: The table's path or URI, as given.
        folder: The folder of the table, see also `keep_rows_at`.
        files: A file system whose root is that folder.

    Args:
        role: The role that accesses a table on S3; None for the credentials of the process.

    Raises:
        InvalidInput: The path or URI is invalid.
    """

    def __init__(
        self, uri: str, policy: TablePolicy = TablePolicy(), role: AssumedRole | None = None
    ) -> None:
        self.uri = uri
        self.policy = policy
        self.folder = TableFolder.at(uri, role)
        self.files = self.folder.open()

    @abstractmethod
    def snapshot(self) -> ReadableVersion:
        """Open the newest version of the table.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The table's log cannot be read.
            TableUnsuitable: It is another kind of table.
        """

    def keep_rows_at(self, location: str, region: str) -> None:
        """Read and write all but the folder `_kinesis` at a location that the table's catalog has chosen.

        The folder that tasks get, and the file system, are those of both places from now on. The region is
        that of the bucket.
        """
        rows = TableFolder(location.rstrip("/"), self.folder.role, region=region)
        if self.folder.rows != rows:
            self.folder = replace(self.folder, rows=rows)
            self.files = self.folder.open()

    @property
    def clock(self) -> Clock:
        """The clock by which the table is written."""
        return self.policy.clock


class ReadableVersion(ABC):
    """One version of a table, raw or derived, of any format: what its readers need."""

    uri: str
    folder: TableFolder

    @property
    @abstractmethod
    def version(self) -> int:
        """The number of the version. Later versions have greater numbers."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The id that the table got when it was created."""

    @property
    @abstractmethod
    def created(self) -> float:
        """When the table was created, in seconds since the epoch. No row of it was committed before."""

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, Any]:
        """The columns of its rows, as in Delta's metadata, those of partitions included."""

    @property
    @abstractmethod
    def properties(self) -> Mapping[str, str]:
        """The table's properties, by name."""

    @abstractmethod
    def totals(self) -> TableTotals:
        """Return the totals of this version. No data file is read."""

    @abstractmethod
    def commit_id_of(self, application: str) -> int | None:
        """Return the commit id that the log points at for an application, if there is one.

        Raises:
            TableUnreachable: The log cannot be read at present.
        """

    @abstractmethod
    def data_files(self, columns: Sequence[str] = ()) -> list[TableFile]:
        """Return the data files of this version, with the smallest and greatest values of some columns."""

    @abstractmethod
    def refuse_unreadable(self) -> None:
        """Check that every row of a data file is a row of the table, under the same column names.

        Raises:
            TableUnsuitable: Some are deleted, or columns have other names in the files.
        """


class WritableVersion(ReadableVersion):
    """One version of a derived table, of any format: what its commits need of the format.

    A change is tried once. An error does not mean that it failed, because its response may have been lost.
    """

    @property
    @abstractmethod
    def partition_by(self) -> list[str]:
        """Its partitions, as in the setting `partition_by`: of a Delta table, the partition columns."""

    @abstractmethod
    def refuse_irreplaceable(self) -> None:
        """Check that files can be replaced by others. Raises also as `refuse_unreadable`.

        Raises:
            TableUnsuitable: The table forbids deletions, or records them.
        """

    @abstractmethod
    def rewrites_since(self, base: int, commit_id: int) -> list[Rewrite] | None:
        """Return the restores and overwrites after a version; None if the log lacks a version since then.

        Args:
            commit_id: The commit id at which the log points.

        Raises:
            TableUnreachable: The log cannot be read.
        """

    @abstractmethod
    def is_compacted_since(self, base: int) -> bool:
        """Return whether the versions after one and up to this only moved rows from files to others.

        Raises as `rewrites_since`.
        """

    @abstractmethod
    def refuse_partition_change(self, columns: Mapping[str, Any]) -> None:
        """Check that the table keeps its partitions if it gets other columns while it has no rows.

        Args:
            columns: As in Delta's metadata, those of the partitions among them.

        Raises:
            SchemaChangeRefused: It does not.
        """

    @abstractmethod
    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Add columns, as in Delta's metadata, to the table, or let the type of one grow that it has.

        Raises:
            CommitOvertaken: Another commit was made after this version.
            TableNotWritable: Writing is refused.
            TableUnreachable: The table cannot be changed at present.
        """

    @abstractmethod
    def complete_properties(self) -> None:
        """Set properties that the columns of this version need and that it lacks. Raises as `add_columns`."""

    @abstractmethod
    def prepare_columns(self, columns: Mapping[str, Any]) -> None:
        """Make properties and features those that a table needs which gets other columns.

        The columns are as in Delta's metadata. Raises as `add_columns`.
        """

    @abstractmethod
    def write(
        self,
        added: Iterable[AddedFile],
        removed: Iterable[TableFile],
        pointers: Mapping[str, int],
        *,
        exclusive: bool,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        """Add and remove files and set pointers, in one atomic commit.

        It is refused if another commit has set one of the pointers since this version.

        Args:
            added: New files. Without pointers, they have the same rows as those that are removed.
            pointers: The commit ids at which the log points afterwards, by application.
            exclusive: Refuse the commit after any other commit since this version, even after a compaction.
            columns: The columns that the table gets, as in Delta's metadata; None to keep its own. All files
                of this version must be removed, or none, see `derive.type_widening`, and the commit must be
                exclusive.

        Raises:
            CommitOvertaken: Another commit was made after this version.
        """


@dataclass(frozen=True, slots=True)
class TableTotals:
    """The totals of one version of a table.

    Attributes:
        rows: Number of rows; None if the log does not have the number of each file.
        bytes: Size of the data files.
    """

    rows: int | None
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What the log says about one version of a table.

    Attributes:
        operation: The operation's name, as its writer stored it, such as RESTORE; empty if it is unknown.
        mode: The mode of a write, such as Overwrite; empty for other operations.
        at: When the version was written, by the writer's clock; None if that is unknown.
        transactions: The transactions that it sets: version by application id.
        changes_rows: Whether it adds or removes rows. A compaction does not.
        changes_table: Whether it changes the columns, the properties or the protocol.
    """

    version: int
    operation: str
    mode: str
    at: datetime | None
    transactions: Mapping[str, int]
    changes_rows: bool
    changes_table: bool


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A version that replaced rows of the table.

    Attributes:
        operation: The operation's name, as its writer stored it.
        at: When the version was written, by the writer's clock; None if the writer did not store a time.
    """

    version: int
    operation: str
    at: datetime | None

    def __str__(self) -> str:
        at = "" if self.at is None else f", {self.at:%Y-%m-%dT%H:%M:%SZ}"
        return f"version {self.version} ({self.operation}{at})"
