"""The sensor: finds new shards, asks for runs over those that can be read, adds events that are missing.

It lists shards, and looks at the table's positions and at Dagster's runs; it never reads the stream itself.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets.dagster.commit_links import Link
from kinesis_assets.dagster.missing_events import Reconciled, missing_events
from kinesis_assets.dagster.names import raw_key, shard_partitions, stream_key
from kinesis_assets.dagster.newest_partitions import newest_partitions
from kinesis_assets.dagster.partition_ranges import (
    contiguous_spans,
    following_tags,
    span_tags,
    tagged_span,
)
from kinesis_assets.dagster.run_events import events_of
from kinesis_assets.dagster.run_liveness import Liveness
from kinesis_assets.dagster.sensor_backoff import Backoff, EndedRun
from kinesis_assets.dagster.sensor_runs import DEAD, is_ours, liveness_of, shards_of, unfinished_runs
from kinesis_assets.errors import TableError, TableMissing
from kinesis_assets.kinesis.shards import unfinished_parents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kinesis_assets.dagster.io_manager import ShardIOManager
    from kinesis_assets.dagster.sensor_backoff import Failing
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.positions import ShardPosition, StreamPositions

_log = logging.getLogger(__name__)

RUNS_PER_TICK = 3
"""Most runs that one tick asks for."""

_NOT_TOLD = "stream %s: events that may be missing are looked for again in the next tick: %s"

_NAMED = 5
"""Shards that a tick's reason names; the others are counted."""


class Cursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the sensor remembers from tick to tick. Without it nothing is lost, only looked at again.

    Attributes:
        last_asked: The last shard that a tick asked for: spans after it go first, so that with more spans
            than runs in a tick all get their turn.
        backoff: The shards whose runs fail.
        commits: How far the commits were compared with the events.
        fills: Likewise what was filled in behind the positions.
        liveness: When the unfinished runs last showed a sign of life.
    """

    last_asked: str | None = None
    backoff: Backoff = Backoff()
    commits: Reconciled = Reconciled()
    fills: Reconciled = Reconciled()
    liveness: Liveness = Liveness()

    @classmethod
    def parse(cls, text: str | None) -> Cursor:
        """Read what `encode` wrote; an older version wrote the last shard alone."""
        if not text or not text.startswith("{"):
            return cls(last_asked=text)
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return cls()

    def encode(self) -> str:
        """As JSON."""
        return msgspec.json.encode(self).decode()


def evaluate(
    manager: ShardIOManager,
    instance: dg.DagsterInstance,
    cursor: str | None,
    clock: Callable[[], float] = time.time,
) -> dg.SensorResult:
    """One tick. A shard that is new becomes a partition, told as a materialization of the stream's asset.

    Args:
        manager: The stream's I/O manager.
        instance: Where partitions, runs and events are.
        cursor: What the tick before left.
        clock: Tells the time of the tick, seconds since the epoch.
    """
    stream, partitions, now = manager.stream, shard_partitions(manager.stream), clock()
    before = Cursor.parse(cursor)
    listing, shards = manager.listed_shards()
    finished = {shard_id for shard_id, shard in shards.items() if shard.finished}
    known = newest_partitions(instance, stream, shards.keys() - finished)
    # Those read to their end before the sensor first saw them need no partition.
    needless = {*known, *finished}
    new = [shard_id for shard_id in shards if shard_id not in needless]
    keys = [*known, *new]
    # One that is no longer listed and not read to its end is asked for too: its run tells what was lost.
    readable = {
        shard_id
        for shard_id, shard in shards.items()
        if not shard.finished and not unfinished_parents(shard.parents, known=shards, finished=finished)
    }
    unfinished = unfinished_runs(instance, stream)
    liveness = liveness_of(manager, instance, unfinished, before.liveness, now)
    over = liveness.over
    living = [record for record in unfinished if record.dagster_run.run_id not in over]
    busy = shards_of(manager, living, keys, now)
    ended = _ended_runs(instance, stream, keys, before.backoff, now)
    backoff = before.backoff.after(ended, now).of(readable)
    waiting = backoff.waiting(now)
    wanted = contiguous_spans(keys, readable - busy - waiting.keys())
    spans = _after(wanted, keys, before.last_asked)[:RUNS_PER_TICK]
    missing, commits, fills = _missing_events(manager, instance, listing.summary.identity, before, over)
    after = Cursor(spans[-1][-1] if spans else before.last_asked, backoff, commits, fills, liveness)
    # Until it is finished, a run holds its one partition's place in Dagster's queue, see `following_tags`.
    held = {
        shard_id
        for record in unfinished
        if record.dagster_run.run_id in over
        for shard_id in tagged_span(record.dagster_run.tags, keys)
    }
    return dg.SensorResult(
        # Without a run key: that of a failed run would block its shards for ever.
        run_requests=[
            dg.RunRequest(asset_selection=[raw_key(stream)], tags=_tags(manager, span, held))
            for span in spans
        ],
        dynamic_partitions_requests=[partitions.build_add_request(new)] if new else [],
        asset_events=[*missing, *(_discovery(stream, shard_id, shards[shard_id]) for shard_id in new)],
        cursor=after.encode(),
        skip_reason=None if spans else _reason(waiting, liveness.dead),
    )


def _discovery(stream: str, shard_id: str, shard: ShardPosition) -> dg.AssetMaterialization:
    """A new shard, as the stream's page shows it."""
    metadata = {
        "shard": shard_id,
        "parents": ", ".join(shard.parents) or "none",
        "hash_range": " to ".join(shard.hash_range),
    }
    return dg.AssetMaterialization(stream_key(stream), partition=shard_id, metadata=metadata)


def _after(spans: list[list[str]], keys: Sequence[str], last: str | None) -> list[list[str]]:
    if last not in keys:
        return spans
    after = set(keys[keys.index(last) + 1 :])
    return sorted(spans, key=lambda span: span[0] not in after)


def _tags(manager: ShardIOManager, span: Sequence[str], held: Collection[str]) -> dict[str, str]:
    """Those of the run that is asked for over a span; runs that are over hold some shards."""
    if manager.follow_for is None:
        return span_tags(span, as_range=not set(span).isdisjoint(held))
    return following_tags(span, manager.follow_for, manager.handover)


def _ended_runs(
    instance: dg.DagsterInstance, stream: str, keys: Sequence[str], before: Backoff, now: float
) -> Iterator[EndedRun]:
    """Our runs that succeeded or failed and were not counted; a canceled one tells nothing of its shards."""
    since = before.since(now)
    asked = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE],
        updated_after=datetime.fromtimestamp(since, UTC),
    )
    for record in instance.get_run_records(asked):
        run = record.dagster_run
        if run.run_id in before.counted:  # its events may be many
            continue
        # One that was only tagged anew counted long ago.
        if not is_ours(instance, run, stream) or (record.end_time is not None and record.end_time < since):
            continue
        span = tagged_span(run.tags, keys)
        # Only for a run that failed is it asked which shards it did materialize.
        done = span if run.is_success else _materialized_by(instance, stream, run.run_id)
        failed = [shard_id for shard_id in span if shard_id not in done]
        yield EndedRun(run.run_id, record.update_timestamp.timestamp(), failed, done)


def _materialized_by(instance: dg.DagsterInstance, stream: str, run_id: str) -> set[str]:
    """The shards of which the last that a run told is a materialization; one that followed told of many."""
    last: dict[str, bool] = {}
    for event in events_of(instance, run_id, newest_first=True):
        if event.asset_key == raw_key(stream) and event.partition is not None:
            last.setdefault(event.partition, isinstance(event, dg.AssetMaterialization))
    return {shard_id for shard_id, materialized in last.items() if materialized}


def _missing_events(
    manager: ShardIOManager,
    instance: dg.DagsterInstance,
    identity: StreamIdentity,
    before: Cursor,
    over: Collection[str],
) -> tuple[list[dg.AssetMaterialization], Reconciled, Reconciled]:
    """The events of runs that died between their commit and its event.

    Events only mirror the table: where it cannot be read for them, runs are asked for all the same, and the
    next tick looks again.
    """
    try:
        snapshot = manager.positioned_table().snapshot()
    except TableMissing:
        return [], before.commits, before.fills
    except TableError as error:
        _log.warning(_NOT_TOLD, manager.stream, error)
        return [], before.commits, before.fills
    events: list[dg.AssetMaterialization] = []

    def look(
        newest: Callable[[], StreamPositions | Past | None], link_at: Callable[[int], Link], done: Reconciled
    ) -> Reconciled:
        try:
            last = newest()
            found, compared = missing_events(
                instance, manager.stream, link_at, last.token if last else None, done, dead=over
            )
        except TableError as error:
            _log.warning(_NOT_TOLD, manager.stream, error)
            return done
        events.extend(found)
        return compared

    commits = look(
        lambda: snapshot.positions(identity, or_older=True),
        lambda token: Link.of_positions(snapshot.positions_at(token)),
        before.commits,
    )
    fills = look(
        lambda: snapshot.past(identity), lambda token: Link.of_past(snapshot.past_at(token)), before.fills
    )
    return events, commits, fills


def _reason(waiting: Mapping[str, Failing], dead: Collection[str]) -> str:
    """Why a tick asks for no run."""
    said = [DEAD % run_id for run_id in sorted(dead)]
    if not waiting:
        return "; ".join(["every readable shard has an unfinished run", *said])
    first = sorted(waiting.items(), key=lambda item: item[1].until)
    named = [_waits(shard_id, failing) for shard_id, failing in first[:_NAMED]]
    more = [f"{len(first) - _NAMED} more wait"] if len(first) > _NAMED else []
    return "; ".join(["every other readable shard has an unfinished run", *named, *more, *said])


def _waits(shard_id: str, failing: Failing) -> str:
    until = datetime.fromtimestamp(failing.until, UTC)
    runs = "its last run" if failing.runs == 1 else f"its last {failing.runs} runs"
    return f"{shard_id} waits until {until:%Y-%m-%dT%H:%M:%SZ}: {runs} failed, the last was {failing.run_id}"
