"""The sensor: adds new shards as partitions, requests runs over readable shards, and adds missing events.

It lists the shards and reads the table's positions and Dagster's runs. It reads no records from the stream.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets.dagster.missing_events import ComparisonProgress, find_missing_events
from kinesis_assets.dagster.names import raw_key, shard_partitions, stream_key
from kinesis_assets.dagster.newest_partitions import newest_partitions
from kinesis_assets.dagster.partition_ranges import (
    contiguous_ranges,
    continuous_run_tags,
    range_tags,
    tagged_partitions,
)
from kinesis_assets.dagster.run_events import events_of
from kinesis_assets.dagster.run_liveness import Liveness
from kinesis_assets.dagster.sensor_backoff import Backoff, EndedRun
from kinesis_assets.dagster.sensor_runs import (
    DEAD,
    is_derived_in_a_run,
    liveness_of,
    materializes_raw,
    shards_of,
    unfinished_runs,
)
from kinesis_assets.errors import TableError, TableMissing
from kinesis_assets.kinesis.shards import unfinished_parents
from kinesis_assets.table.commit_link import CommitLink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kinesis_assets.dagster.sensor_backoff import Failing
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.amendments import Amendment
    from kinesis_assets.table.positions import ShardPosition, StreamPositions

_log = logging.getLogger(__name__)

RUNS_PER_TICK = 3
"""The maximum number of runs that a tick requests."""

_NOT_COMPARED = "stream %s: the search for missing events failed and is repeated in the next tick: %s"

_NAMED = 5
"""How many shards the reason of a skipped tick names. It counts the others."""


class Cursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the sensor remembers from tick to tick. If it is lost, the sensor only repeats work.

    Attributes:
        last_asked: The last shard that a tick requested. Partition ranges after it come first, so that each
            gets its turn if there are more ranges than runs in a tick.
        backoff: The shards whose runs fail.
        commits: How far the commits of positions were compared with the events.
        fills: The same for the commits that changed rows behind the positions.
        liveness: When the unfinished runs last showed a sign of life.
    """

    last_asked: str | None = None
    backoff: Backoff = Backoff()
    commits: ComparisonProgress = ComparisonProgress()
    fills: ComparisonProgress = ComparisonProgress()
    liveness: Liveness = Liveness()

    @classmethod
    def parse(cls, text: str | None) -> Cursor:
        """Read what `encode` returned. An older version stored only the last shard."""
        if not text or not text.startswith("{"):
            return cls(last_asked=text)
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return cls()

    def encode(self) -> str:
        """Return the cursor as JSON."""
        return msgspec.json.encode(self).decode()


def evaluate(
    opened: OpenStream,
    instance: dg.DagsterInstance,
    cursor: str | None,
    clock: Callable[[], float] = time.time,
    *,
    derived: Collection[dg.AssetKey] = (),
) -> dg.SensorResult:
    """Evaluate one tick.

    A new shard becomes a partition and is reported as a materialization of the stream's asset.

    Args:
        opened: The stream.
        instance: The instance with the partitions, runs and events.
        cursor: The cursor that the previous tick returned.
        clock: Returns the time of the tick, in seconds since the epoch.
        derived: The derived tables of the stream. One of its continuous runs includes them.
    """
    stream, partitions, now = opened.name, shard_partitions(opened.name), clock()
    before = Cursor.parse(cursor)
    listing, shards = opened.listed_shards()
    finished = {shard_id for shard_id, shard in shards.items() if shard.finished}
    known = newest_partitions(instance, stream, shards.keys() - finished)
    # A shard that was finished before the sensor first listed it needs no partition.
    not_new = {*known, *finished}
    new = [shard_id for shard_id in shards if shard_id not in not_new]
    keys = [*known, *new]
    # An unfinished shard that is no longer listed is requested too: its run reports what was lost.
    readable = {
        shard_id
        for shard_id, shard in shards.items()
        if not shard.finished and not unfinished_parents(shard.parents, known=shards, finished=finished)
    }
    unfinished = unfinished_runs(instance, stream)
    liveness = liveness_of(opened, instance, unfinished, before.liveness, now)
    over = liveness.over
    alive = [record for record in unfinished if record.dagster_run.run_id not in over]
    busy = shards_of(opened, alive, keys, now)
    ended = _ended_runs(instance, stream, keys, before.backoff, now)
    backoff = before.backoff.after(ended, now).of(readable)
    waiting = backoff.waiting(now)
    wanted = contiguous_ranges(keys, readable - busy - waiting.keys())
    ranges = _rotated(wanted, keys, before.last_asked)[:RUNS_PER_TICK]
    missing, commits, fills = _missing_events(opened, instance, listing.summary.identity, before, over)
    after = Cursor(ranges[-1][-1] if ranges else before.last_asked, backoff, commits, fills, liveness)
    # An unfinished run may block its single partition in Dagster's queue, see `continuous_run_tags`.
    blocked = {
        shard_id
        for record in unfinished
        if record.dagster_run.run_id in over
        for shard_id in tagged_partitions(record.dagster_run.tags, keys)
    }
    selections = [[raw_key(stream)] for _ in ranges]
    if (
        selections
        and opened.settings.follow_for is not None
        and not is_derived_in_a_run(opened, alive, keys, now, derived=derived, finished=finished)
    ):
        selections[0] += derived
    return dg.SensorResult(
        # There is no run key, because the key of a failed run would block its shards forever.
        run_requests=[
            dg.RunRequest(asset_selection=selection, tags=_tags(opened, range_, blocked))
            for range_, selection in zip(ranges, selections, strict=True)
        ],
        dynamic_partitions_requests=[partitions.build_add_request(new)] if new else [],
        asset_events=[*missing, *(_discovery(stream, shard_id, shards[shard_id]) for shard_id in new)],
        cursor=after.encode(),
        skip_reason=None if ranges else _reason(waiting, liveness.dead),
    )


def _discovery(stream: str, shard_id: str, shard: ShardPosition) -> dg.AssetMaterialization:
    """Return the event of a new shard for the stream's asset page."""
    metadata = {
        "shard": shard_id,
        "parents": ", ".join(shard.parents) or "none",
        "hash_range": " to ".join(shard.hash_range),
    }
    return dg.AssetMaterialization(stream_key(stream), partition=shard_id, metadata=metadata)


def _rotated(ranges: list[list[str]], keys: Sequence[str], last: str | None) -> list[list[str]]:
    """Move the ranges that start after the last requested shard to the front."""
    if last not in keys:
        return ranges
    after = set(keys[keys.index(last) + 1 :])
    return sorted(ranges, key=lambda range_: range_[0] not in after)


def _tags(opened: OpenStream, range_: Sequence[str], blocked: Collection[str]) -> dict[str, str]:
    """Return the tags of the run that is requested over a range. Runs that are over may block some shards."""
    if opened.settings.follow_for is None:
        return range_tags(range_, as_range=not set(range_).isdisjoint(blocked))
    return continuous_run_tags(range_, opened.settings.follow_for, opened.handover)


def _ended_runs(
    instance: dg.DagsterInstance, stream: str, keys: Sequence[str], before: Backoff, now: float
) -> Iterator[EndedRun]:
    """Yield the runs of the raw asset that succeeded or failed and are not yet counted.

    Canceled runs are left out: they do not show whether their shards fail.
    """
    since = before.since(now)
    ended = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE],
        updated_after=datetime.fromtimestamp(since, UTC),
    )
    for record in instance.get_run_records(ended):
        run = record.dagster_run
        if run.run_id in before.counted:  # it may have many events
            continue
        # A run whose tags were changed later was counted when it ended.
        if not materializes_raw(instance, run, stream) or (
            record.end_time is not None and record.end_time < since
        ):
            continue
        range_ = tagged_partitions(run.tags, keys)
        # The events are read only for a failed run.
        done = range_ if run.is_success else _materialized_by(instance, stream, run.run_id)
        failed = [shard_id for shard_id in range_ if shard_id not in done]
        yield EndedRun(run.run_id, record.update_timestamp.timestamp(), failed, done)


def _materialized_by(instance: dg.DagsterInstance, stream: str, run_id: str) -> set[str]:
    """Return the shards whose last event of a run is a materialization."""
    last: dict[str, bool] = {}
    for event in events_of(instance, run_id, newest_first=True):
        if event.asset_key == raw_key(stream) and event.partition is not None:
            last.setdefault(event.partition, isinstance(event, dg.AssetMaterialization))
    return {shard_id for shard_id, materialized in last.items() if materialized}


def _missing_events(
    opened: OpenStream,
    instance: dg.DagsterInstance,
    identity: StreamIdentity,
    before: Cursor,
    over: Collection[str],
) -> tuple[list[dg.AssetMaterialization], ComparisonProgress, ComparisonProgress]:
    """Find the events of runs that died between the commit and its event.

    If the table cannot be read, the tick requests runs anyway and the next tick repeats the search: events
    only mirror the table.

    Returns:
        The events, and the progress for the cursor's `commits` and `fills`.
    """
    try:
        snapshot = opened.table.snapshot()
    except TableMissing:
        return [], before.commits, before.fills
    except TableError as error:
        _log.warning(_NOT_COMPARED, opened.name, error)
        return [], before.commits, before.fills
    events: list[dg.AssetMaterialization] = []

    def compare(
        newest: Callable[[], StreamPositions | Amendment | None],
        link_at: Callable[[int], CommitLink],
        done: ComparisonProgress,
    ) -> ComparisonProgress:
        try:
            last = newest()
            found, progress = find_missing_events(
                instance, opened.name, link_at, last.commit_id if last else None, done, dead=over
            )
        except TableError as error:
            _log.warning(_NOT_COMPARED, opened.name, error)
            return done
        events.extend(found)
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
    return events, commits, fills


def _reason(waiting: Mapping[str, Failing], dead: Collection[str]) -> str:
    """Return why a tick requests no run."""
    dead_runs = [DEAD % run_id for run_id in sorted(dead)]
    if not waiting:
        return "; ".join(["every readable shard has an unfinished run", *dead_runs])
    first = sorted(waiting.items(), key=lambda item: item[1].until)
    named = [_waits(shard_id, failing) for shard_id, failing in first[:_NAMED]]
    more = [f"{len(first) - _NAMED} more wait"] if len(first) > _NAMED else []
    return "; ".join(["every other readable shard has an unfinished run", *named, *more, *dead_runs])


def _waits(shard_id: str, failing: Failing) -> str:
    """Return why a shard waits, and until when."""
    until = datetime.fromtimestamp(failing.until, UTC)
    runs = "its last run" if failing.runs == 1 else f"its last {failing.runs} runs"
    return f"{shard_id} waits until {until:%Y-%m-%dT%H:%M:%SZ}: {runs} failed, the last was {failing.run_id}"
