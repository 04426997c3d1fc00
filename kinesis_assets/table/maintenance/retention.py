"""The table's own retention: the floor, the first arrival date that is kept, and the rows below it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.amendments import following
from kinesis_assets.table.commit_ids import draw_token
from kinesis_assets.table.commit_loop import until_told
from kinesis_assets.table.maintenance.steps import State, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date, datetime

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.table import PositionedTable, StandingFile


_IN_THE_FUTURE = (
    "the floor is in the future: a maintenance with a wrong clock raised it. Lower it with "
    "`kinesis-assets maintain --lower-floor`, then replay what the stream still has"
)


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

    A floor that is higher already stays, but no row of a day from *wanted* on is deleted because of it: a
    clock that was wrong once may have raised it.

    Args:
        table: The table of one stream.
        identity: Which stream.
        wanted: The first arrival date (UTC) that is kept.
        now: The present, as `AgreedClock` gives it.
        by: Who, for the record of that.
        dry_run: Change nothing.

    Yields:
        The step, unless nothing is due; and one that is left, if the floor is in the future.

    Raises:
        CommitFailed: The tries are used up.
        CommitUnknown: The table cannot be read after a try.
    """
    batch_id = draw_token()
    tried: dict[int, Step] = {}
    floor = wanted

    def look(*, and_try: bool) -> tuple[Step | None] | None:
        nonlocal floor
        snapshot = table.snapshot()
        past = snapshot.past(identity)
        before = None if past is None else past.floor
        floor = wanted if before is None else max(wanted, before)
        # By whole days, so that it is a matter of the log alone and no file is written again.
        old = [file for file in snapshot.standing_files() if file.arrival_date < wanted.isoformat()]
        if not old and floor == before:
            return (None if past is None else tried.get(past.token),)
        step = Step("expire", f"before {wanted}", State.DONE, *sizes(old))
        if dry_run:
            return (replace(step, state=State.PLANNED),)
        if not and_try:
            return None
        change = following(past, floor=floor, batch_id=batch_id, at=now, by=by)
        tried[change.token] = step
        if not old:
            snapshot.commit([], identity=identity, past=change)
        else:
            # The day is this program's own text: nothing from outside is in the predicate.
            snapshot.remove(f"arrival_date < '{wanted}'", identity=identity, past=change)
        # Rows of such days may be landing all the while: those are the next maintenance's.
        return (step,)

    (step,) = until_told(table, look)
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
    """Lower the floor, so that a replay can fill in days again that the retention has deleted.

    It deletes nothing and brings nothing back by itself. A maintenance with `retention_days` raises the floor
    again, to that many days before today.

    Args:
        table: The table of one stream.
        identity: Which stream.
        floor: The first arrival date (UTC) that is kept from now on.
        now: When.
        by: Who lowers it, for the record.
        dry_run: Change nothing.

    Raises:
        InvalidInput: There is no floor, or none above that day. Nothing was changed.
        CommitFailed: The tries are used up.
        CommitUnknown: The table cannot be read after a try.
    """
    batch_id = draw_token()
    tried: Step | None = None

    def look(*, and_try: bool) -> Step | None:
        nonlocal tried
        snapshot = table.snapshot()
        past = snapshot.past(identity)
        before = None if past is None else past.floor
        if before is None or before <= floor:
            if tried is not None:
                return tried
            found = "it has no floor" if before is None else f"its floor is {before}"
            raise InvalidInput(
                f"table {table.uri}: {found}, so it cannot be lowered to {floor}; nothing was changed"
            )
        step = Step("lower floor", f"from {before} to {floor}", State.DONE)
        if dry_run:
            return replace(step, state=State.PLANNED)
        if and_try:
            tried = step
            change = following(past, floor=floor, batch_id=batch_id, at=now, by=by, lowered_from=before)
            snapshot.commit([], identity=identity, past=change)
        return None

    return until_told(table, look)


def sizes(files: Sequence[StandingFile]) -> tuple[int, int, int]:
    """The rows, the number and the bytes of some files."""
    return sum(file.rows for file in files), len(files), sum(file.size for file in files)
