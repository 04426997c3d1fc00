"""The events that a tick of the sensor adds for commits of a stream's table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kinesis_assets.dagster.dagster_internals import report_outside_of_runs
from kinesis_assets.dagster.events.missing_events import ComparisonProgress, find_missing_events
from kinesis_assets.errors import TableError
from kinesis_assets.table.positions.commit_link import CommitLink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import dagster as dg

    from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.snapshot import TableSnapshot

_log = logging.getLogger(__name__)

_NOT_COMPARED = "stream %s: the search for missing events failed and is repeated in the next tick: %s"


def report_missing_events(
    instance: dg.DagsterInstance,
    names: StreamNames,
    snapshot: TableSnapshot | None,
    identity: StreamIdentity,
    before: Cursor,
    *,
    ended: Collection[str],
) -> tuple[ComparisonProgress, ComparisonProgress]:
    """Store the events of runs that died between the commit and its event.

    If a file of the table cannot be read, the tick requests runs anyway and the next tick repeats the search:
    events only mirror the table. The daemon, which stores the other events of a tick, cannot set their times.

    Args:
        instance: The instance with the events.
        names: The names of the stream's definitions.
        snapshot: The newest version of the stream's table; None if the table does not exist.
        identity: The stream.
        before: The cursor of the previous tick.
        ended: The runs that commit nothing more.

    Returns:
        The progress for the cursor's `commits` and `fills`.
    """
    if snapshot is None:
        return before.commits, before.fills

    def compare(
        newest: Callable[[], StreamPositions | Amendment | None],
        link_at: Callable[[int], CommitLink],
        done: ComparisonProgress,
    ) -> ComparisonProgress:
        try:
            last = newest()
            found, progress = find_missing_events(
                instance, names, link_at, last.commit_id if last else None, done, dead=ended
            )
        except TableError as error:
            _log.warning(_NOT_COMPARED, names.stream, error)
            return done
        report_outside_of_runs(instance, found)
        return progress

    commits = compare(
        lambda: snapshot.positions(identity, or_older=True),
        lambda commit_id: CommitLink.of_positions(snapshot.positions_at(commit_id)),
        before.commits,
    )
    fills = compare(
        lambda: snapshot.amendment(identity),
        lambda commit_id: CommitLink.of_amendment(snapshot.amendment_at(commit_id)),
        before.fills,
    )
    return commits, fills
