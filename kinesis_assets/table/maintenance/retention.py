"""Deletes expired rows, and raises or lowers the floor: the first arrival date that is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit_loop import Try, commit_amendment
from kinesis_assets.table.maintenance.steps import State, Step, totals
from kinesis_assets.table.positions.amendments import next_amendment
from kinesis_assets.table.row_predicates import ArrivedBefore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot


_IN_THE_FUTURE = (
    "the floor is in the future: a maintenance with a wrong clock raised it. Lower it with "
    "`kinesis-assets maintain --lower-floor`, then replay what the stream still has"
)


@dataclass(frozen=True, slots=True)
class Needed:
    """Rows that are kept longer than the retention, because derived tables have not consumed them.

    Attributes:
        since: The first arrival date (UTC) of such rows; None if there are none.
        by: The derived tables.
        days: For how many more days they are kept at most.
    """

    since: date | None = None
    by: tuple[str, ...] = ()
    days: int = 0

    def first_kept(self, wanted: date) -> date:
        """Return the first arrival date that is kept if the retention alone would keep rows from a day on."""
        if self.since is None:
            return wanted
        return max(wanted - timedelta(days=self.days), min(wanted, self.since))

    def reason(self, kept: date) -> str:
        """Return why rows from a day on are kept."""
        if self.since == date.min:
            return f"it is unknown what {', '.join(self.by)} have consumed; see their next runs"
        return (
            f"rows that arrived from {self.since} on are not consumed by {', '.join(self.by)}; those from "
            f"{kept} on are kept for now, for at most {self.days} more days"
        )


NOT_NEEDED = Needed()


def expire(
    table: PositionedTable,
    identity: StreamIdentity,
    wanted: date,
    now: datetime,
    *,
    by: str | None = None,
    dry_run: bool = False,
) -> Iterator[Step]:
    """Delete the rows that arrived before a day, and raise the floor to that day.

    A higher floor is kept, but rows from *wanted* on are not deleted because of it: a wrong clock may have
    raised it.

    Args:
        wanted: The first arrival date (UTC) that is kept.
        now: The current time, from `AgreedClock`.
        by: The run or person that is recorded as deleting the rows.

    Yields:
        The step, if it is due; and a step that is left, if the floor is in the future.

    Raises as `commit_amendment`.
    """
    batch_id = new_id(table.clock)
    floor = wanted

    def prepare(snapshot: TableSnapshot, amendment: Amendment | None) -> Try[Step | None]:
        nonlocal floor
        before = None if amendment is None else amendment.floor
        floor = wanted if before is None else max(wanted, before)
        # Whole days are deleted, so that files are removed and none is rewritten.
        old = [file for file in snapshot.data_files() if file.partition["arrival_date"] < wanted]
        if not old and floor == before:
            return Try(None)
        step = Step("expire", f"before {wanted}", State.DONE, *totals(old))
        if dry_run:
            return Try(replace(step, state=State.PLANNED))
        change = next_amendment(amendment, floor=floor, batch_id=batch_id, at=now, by=by, clock=table.clock)
        if not old:
            commit = partial(snapshot.commit, [], identity=identity, amendment=change)
            return Try(step, change.commit_id, commit)
        # Rows of these days that land in the meantime are deleted by the next maintenance.
        remove = partial(snapshot.remove, ArrivedBefore(wanted), identity=identity, amendment=change)
        return Try(step, change.commit_id, remove)

    expected = table.snapshot().amendment(identity)
    step, _ = commit_amendment(table, identity, expected, batch_id, prepare)
    if step is not None:
        yield step
    if floor > now.date():
        yield Step("expire", f"floor {floor}", State.LEFT, reason=_IN_THE_FUTURE)


def lower_floor(
    table: PositionedTable,
    identity: StreamIdentity,
    floor: date,
    now: datetime,
    *,
    by: str | None = None,
    dry_run: bool = False,
) -> Step:
    """Lower the floor, so that a replay can add rows of days that the retention has deleted.

    No row is deleted or restored. A maintenance with `retention_days` raises the floor again, to that many
    days before the current one.

    Args:
        floor: The first arrival date (UTC) that is kept from now on.
        by: The run or person that is recorded as lowering it.

    Raises:
        InvalidInput: There is no floor, or it is not above that day. Nothing was changed. Other errors are
            those of `commit_amendment`.
    """
    batch_id = new_id(table.clock)

    def prepare(snapshot: TableSnapshot, amendment: Amendment | None) -> Try[Step]:
        before = None if amendment is None else amendment.floor
        if before is None or before <= floor:
            reason = (
                "it has no floor, so there is none to lower"
                if before is None
                else f"its floor is {before}, so it cannot be lowered to {floor}; give an earlier date"
            )
            raise InvalidInput(f"table {table.uri}: nothing was changed: {reason}")
        step = Step("lower floor", f"from {before} to {floor}", State.DONE)
        if dry_run:
            return Try(replace(step, state=State.PLANNED))
        change = next_amendment(
            amendment, floor=floor, batch_id=batch_id, at=now, by=by, lowered_from=before, clock=table.clock
        )
        return Try(step, change.commit_id, partial(snapshot.commit, [], identity=identity, amendment=change))

    expected = table.snapshot().amendment(identity)
    step, _ = commit_amendment(table, identity, expected, batch_id, prepare)
    return step
