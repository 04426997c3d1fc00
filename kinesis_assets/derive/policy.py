"""How a derived table follows its source, and what it gives up if rows of the source were deleted."""

from __future__ import annotations

from datetime import date  # msgspec evaluates the annotations
from enum import StrEnum
from typing import NamedTuple

import msgspec

MAX_BYTES = 1 << 30
"""The default size in bytes of the source's files after which a step includes no further commit."""

TIME_ZONE = "UTC"

ROUTE_COLUMN = "route"
"""The partition column of a router with the value by which a row was routed; null if no route has it."""


class Retention(NamedTuple):
    """How long a derived table keeps rows.

    Attributes:
        column: The column with the date or the time of a row.
        days: Age after which maintenance deletes rows.
    """

    column: str
    days: int


class OnDeleted(StrEnum):
    """The policy for rows of the source that were deleted, which a run has consumed or was to consume.

    Attributes:
        FAIL: The run fails and changes nothing.
        IGNORE: It continues with the rows that are there. Rows that were derived from the others stay, and
            rows that may have been consumed before they were deleted and added again are left out.
        REBUILD: It empties the table and starts again with the rows that the source has, if these include
            all that were consumed. So it does if a column gets another type.
    """

    FAIL = "fail"
    IGNORE = "ignore"
    REBUILD = "rebuild"


class Deletion(StrEnum):
    """How rows were deleted from a source.

    Attributes:
        REWOUND: A position was set back.
        EXPIRED: They were older than the source keeps rows, before they were consumed.
        INCOMPLETE: A group of a roll-up was computed with them, and cannot be computed again without them.
        ADDED_AGAIN: They are there again in another batch, and may have been consumed before.
        FORGOTTEN: They are those of commits that are no longer recorded, or of an older release.
    """

    REWOUND = "rewound"
    EXPIRED = "expired"
    INCOMPLETE = "incomplete groups"
    ADDED_AGAIN = "added again"
    FORGOTTEN = "forgotten"


class DeletedRows(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Rows of a source that were deleted, as far as it concerns a consumer.

    Attributes:
        rows: Number of rows; None if it is unknown.
        batch_id: The batch that has or had them; None if they are not of one batch.
        through: The greatest of the batches that had them, if they are of several.
        before: They arrived before this day (UTC); None if that is unknown.
        shards: The shards with the sequence numbers of the first and last row, as far as they are known.
        groups: Number of groups of a roll-up that had them; None if they are not those of groups.
        example: One of these groups.
    """

    deletion: Deletion
    rows: int | None = None
    batch_id: int | None = None
    through: int | None = None
    before: date | None = None
    shards: tuple[str, ...] = ()
    groups: int | None = None
    example: str | None = None

    def __str__(self) -> str:
        count = "the rows" if self.rows is None else f"{self.rows} rows"
        batch = "" if self.batch_id is None else f" of batch {self.batch_id}"
        if self.through is not None:
            count, batch = f"up to {count}", f" of batches up to {self.through}"
        shards = f" of {', '.join(self.shards)}" if self.shards else ""
        if self.deletion is Deletion.REWOUND:
            return f"{count}{batch}{shards} after positions that were set back"
        if self.deletion is Deletion.ADDED_AGAIN:
            return f"{count}{batch}{shards}, which were deleted and added again"
        if self.deletion is Deletion.INCOMPLETE:
            return f"the first rows of {self.groups} groups to compute again, such as {self.example}"
        if self.deletion is Deletion.FORGOTTEN:
            return "the bad records of commits that are no longer recorded, or that an older release made"
        before = "" if self.before is None else f" that arrived before {self.before}"
        return f"{count}{batch}{shards}{before}"
