"""What a consumer can ask of the table that it reads: its rows, and the commits that added them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from kinesis_assets.derive.commit_entry import REBUILD_COMMAND
from kinesis_assets.derive.cursor import Cursor, Selection
from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.errors import SourceCommitsMissing, TableOfAnotherSource, TableUnsuitable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kinesis_assets.derive.commit_entry import ReplacedFile
    from kinesis_assets.derive.cursor import BatchRecords
    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.stored_table import ReadableVersion

Arrivals = tuple["datetime | None", "datetime | None"]
"""The times after which the first row arrived, and at which the last one did; None if unknown."""


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A data file with the smallest and the greatest batch id of its rows; None if unknown."""

    file: TableFile
    first: int | None
    last: int | None

    @property
    def rows_of_one_batch(self) -> int | None:
        """The number of its rows if they have the same batch id; None otherwise, or if it is unknown."""
        return None if self.first is None or self.first != self.last else self.file.rows


@dataclass(frozen=True, slots=True)
class SourceCommit:
    """A commit of a source.

    Attributes:
        rows: Number of rows that it added; None if that has not been read.
        ranges: The ranges of their records by shard id, if the number has been read and the table is raw.
        replaced: The files, relative to the table's folder, with the rows that it replaced or deleted.
        files: The files with the rows that it added, likewise, if they are not part of the table.
        is_alone: Whether it is consumed in a step of its own.
        rewound: The shards of which it deleted rows because their positions were set back.
        floor: The first arrival date of rows that it left, if it deleted others because of their age.
        expired: The rows of other batches that it deleted because of their age, if the table is derived.
    """

    id: int
    batch_id: int
    amends: bool = False
    rows: int | None = None
    replaced: tuple[ReplacedFile, ...] = ()
    files: tuple[ReplacedFile, ...] = ()
    is_alone: bool = False
    rewound: tuple[str, ...] = ()
    floor: date | None = None
    ranges: Mapping[str, RangeStats] = field(default_factory=dict)
    expired: tuple[DeletedRows, ...] = ()

    @property
    def deleted(self) -> list[DeletedRows]:
        """The rows that it deleted."""
        found = [DeletedRows(deletion=Deletion.REWOUND, shards=self.rewound)] if self.rewound else []
        if self.floor is not None:
            found.append(DeletedRows(deletion=Deletion.EXPIRED, before=self.floor))
        return found


class Source(ABC):
    """One version of a table that a consumer reads.

    Attributes:
        keeps_rows: Whether rows stay until an amendment deletes them. Otherwise a commit may replace earlier
            rows.
        date_column: The partition column with the date by which rows expire; None if they do not.
        order_columns: The columns by which the rows of a commit are ordered, see `RowOrder`.
        replaces: The columns that identify the rows which a table that appends those of this one removes,
            because a commit replaced them; none if they stay there.
    """

    batch_column: ClassVar[str]
    keeps_rows: ClassVar[bool]
    date_column: ClassVar[str | None] = None
    order_columns: Sequence[str] = ()
    replaces: ClassVar[Sequence[str]] = ()

    def __init__(self, snapshot: ReadableVersion) -> None:
        self.uri = snapshot.uri
        self.folder = snapshot.folder
        self.snapshot = snapshot
        snapshot.refuse_unreadable()

    @property
    def id(self) -> str:
        """The table's id, from its metadata."""
        return self.snapshot.id

    @property
    def origin_id(self) -> str:
        """The id of the source that a table records which consumes this one."""
        return self.id

    @property
    def schema(self) -> Mapping[str, Any]:
        """The columns of the rows, as in Delta's metadata."""
        return self.snapshot.schema

    @property
    @abstractmethod
    def end(self) -> Cursor:
        """The cursor after all rows of this version."""

    @property
    def start(self) -> Cursor:
        """The cursor before all rows that this version has."""
        return msgspec.structs.replace(self.end, history=-1, unread=self._first_date)

    @property
    def _first_date(self) -> date | None:
        """The first date of the rows of this version, the last possible one without rows; None if unknown."""
        if self.date_column is None:
            return None
        dates = {file.partition[self.date_column] for file in self.snapshot.data_files()}
        return None if None in dates else min(dates, default=date.max)

    @property
    def forgotten(self) -> list[DeletedRows]:
        """The rows before `start` that the table had once, as far as they are part of what it stands for."""
        return []

    @property
    def expired_rows(self) -> int:
        """Number of rows that a derived table has deleted because of their age since it was last started."""
        return 0

    def accepted(self, cursor: Cursor) -> Cursor:
        """Return the position of a consumer in this table.

        Raises:
            TableOfAnotherSource: It belongs to another table.
        """
        if cursor.source != self.id:
            raise TableOfAnotherSource(
                self.uri,
                f"has the id {self.id}, but the position belongs to the table with the id {cursor.source}; "
                "nothing was changed. Correct the source, or start again without a position",
            )
        return cursor

    def ranked_files(self, selection: Selection) -> list[RankedFile]:
        """Return the files that may have selected rows."""
        column = self.batch_column
        files = self.snapshot.data_files([column])
        if any(file.nulls[column] for file in files):
            raise TableUnsuitable(
                self.uri,
                f"has rows without a {column}, which another program added, so it is unknown whether they "
                "were consumed. Nothing was changed. Delete them, or give them the one of a commit",
            )
        found = [RankedFile(file, file.smallest[column], file.greatest[column]) for file in files]
        return [each for each in found if selection.may_include(each.first, each.last)]

    def files_of(self, commits: Sequence[SourceCommit]) -> list[RankedFile]:
        """Return the files that may have rows of some commits."""
        return self.ranked_files(Selection(only=frozenset(commit.batch_id for commit in commits)))

    @abstractmethod
    def commits_since(self, cursor: Cursor, limit: int | None = None) -> list[SourceCommit]:
        """Return the commits after a cursor, oldest first.

        Args:
            limit: Return at most this many of the commits that added new rows, the newest ones, and do not
                read those before them; None for all.

        Raises:
            SourceCommitsMissing: The commits are no longer recorded.
            TableUnreachable: A file cannot be read at present.
        """

    @abstractmethod
    def with_rows(self, commits: Sequence[SourceCommit]) -> list[SourceCommit]:
        """Return commits with the number of their rows. Raises the errors of `commits_since`."""

    @property
    def expiry_column(self) -> str | None:
        """The column by whose date rows expire; None if they do not."""
        return self.date_column

    @property
    def floor(self) -> date | None:
        """The first date of the rows that the table keeps, in that column; None if it keeps all."""
        return None

    def recorded_batches(self) -> tuple[int, ...]:
        """Return the batch ids of the commits that are recorded, oldest first, after all that are not."""
        return ()

    def added_again(self, cursor: Cursor, commits: Sequence[SourceCommit]) -> tuple[BatchRecords, ...]:
        """Return the records that commits after a cursor added again, and its consumer may have consumed."""
        del cursor, commits
        return ()

    def was_restored(self, after: Cursor, through: Cursor) -> bool:
        """Return whether a restore or an overwrite was accepted between two positions of a consumer."""
        del after, through
        return False

    def arrivals(self, commit: SourceCommit, shard_id: str) -> Arrivals:
        """Return the bounds of the arrival times of a shard's rows that a commit added, if they are known."""
        del commit, shard_id
        return None, None

    def rewound_rows(self, commits: Sequence[SourceCommit]) -> int:
        """Return how many rows some commits deleted because positions were set back."""
        del commits
        return 0


def commits_missing(table: str, cursor: Cursor, reason: str) -> SourceCommitsMissing:
    """Return the error for a source that does not record all commits since a cursor."""
    return SourceCommitsMissing(
        table,
        f"the commits since {cursor} are not recorded: {reason}. Nothing was changed. Run {REBUILD_COMMAND} "
        "for the table that is derived from it",
    )


def of_amendment(amendment: Amendment, before: Amendment | None) -> SourceCommit:
    """Return the commit of an amendment, which follows another one."""
    return SourceCommit(
        amendment.commit_id,
        amendment.batch_id,
        amends=True,
        rows=sum(range_.rows for range_ in amendment.filled.values()),
        rewound=amendment.rewound,
        floor=amendment.floor if _expires(amendment, before) else None,
        ranges=amendment.filled,
    )


def _expires(amendment: Amendment, before: Amendment | None) -> bool:
    """Return whether an amendment may have deleted rows because of their age.

    Maintenance does so too without raising the floor, if rows have landed below it.
    """
    if amendment.floor is None or amendment.lowered_from is not None:
        return False
    if before is None or before.floor != amendment.floor:
        return True
    is_other = amendment.filled or amendment.rewound
    return not is_other and (amendment.accepted, amendment.cleared) == (before.accepted, before.cleared)
