"""The commits of a source: the rows that they added, and those that they deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinesis_assets.derive.policy import DeletedRows, Deletion

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from kinesis_assets.derive.commit_entry import ReplacedFile
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.range_stats import RangeStats


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
