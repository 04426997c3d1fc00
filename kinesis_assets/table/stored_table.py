"""A table in its folder, of any format: where it is, by which clock it is written, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.role import AssumedRole


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
