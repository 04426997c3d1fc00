"""A table in its folder, of any format: where it is, by which clock it is written, and how large it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.data_file import TableFile


class StoredTable:
    """A table, raw or derived, which may not exist yet.

    Attributes:
        uri: The table's path or URI, as given.
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

    @abstractmethod
    def data_files(self, columns: Sequence[str] = ()) -> list[TableFile]:
        """Return the data files of this version.

        Args:
            columns: The columns whose smallest and greatest values are returned.
        """

    @abstractmethod
    def refuse_unreadable(self) -> None:
        """Check that every row of a data file is a row of the table, under the same column names.

        Raises:
            TableUnsuitable: Some are deleted, or columns have other names in the files.
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
