"""The events of shards and of the stream as a whole: their metadata, and how they are made and read back.

Each fact is one entry of the metadata, whose key is words with a unit. Facts that Dagster can plot are
numbers. Those without a value are omitted. What only code needs is the last entry, as JSON. `exact_values`
returns both.
"""

from __future__ import annotations

import logging
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.errors import ShardThrottled, TableError
from kinesis_assets.ingest.outcome import ShardState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kinesis_assets.ingest.outcome import RunResult, RunTotals, ShardOutcome, StreamState
    from kinesis_assets.operations.replay.outcome import ReplayOutcome, ReplayResult
    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.stored_table import TableTotals

_log = logging.getLogger(__name__)

TOTAL_ROWS, TOTAL_BAD_RECORDS = "total rows", "total bad records"
"""The keys of the totals that the asset check of bad records reads."""

EXACT = "exact"
"""The key of the entry with positions, ids and exact numbers, by name. Positions are text in the format of
`Position.parse`. Numbers that are too large for JavaScript are text, too."""

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run config for a run whose events are read afterwards: nothing is logged to the console."""

Fact = str | float | datetime | None

_PAGE_SIZE = 500

_EVENTS = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION}


def events_of(
    instance: dg.DagsterInstance, run_id: str, *, newest_first: bool = False
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Yield the events of a run, oldest or newest first. Pages are read as needed."""
    cursor: str | None = None
    while True:
        page = instance.get_records_for_run(run_id, cursor, _EVENTS, _PAGE_SIZE, ascending=not newest_first)
        for entry in (record.event_log_entry for record in page.records):
            event = entry.asset_materialization or entry.asset_observation
            if event is not None:
                yield event
        if not page.has_more:
            return
        cursor = page.cursor


def metadata_of_events(instance: dg.DagsterInstance, run_id: str) -> list[dict[str, Any]]:
    """Return the exact values of each shard's event, in the order in which they were stored."""
    return [exact_values(event) for event in events_of(instance, run_id) if event.partition is not None]


def exact_values(event: dg.AssetMaterialization | dg.AssetObservation) -> dict[str, Any]:
    """Return what an event says, by names for code, such as `bad_records`; also of an earlier version.

    Numbers in a unit for people, such as `lag (s)`, are left out: `lag_ms` is exact.
    """
    found: dict[str, Any] = {} if event.partition is None else {"shard": event.partition}
    for name, value in event.metadata.items():
        if name == EXACT and isinstance(value.value, dict):
            found |= value.value
        elif not name.endswith(")"):
            found[name.replace(" ", "_")] = value.value
    return found


def shard_events(
    key: dg.AssetKey, stream: str, result: RunResult
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Yield an event for each shard: a materialization, or an observation if the shard failed."""
    for shard_id, outcome in result.outcomes.items():
        metadata = event_metadata(stream, outcome, result)
        if outcome.error is None:
            yield dg.AssetMaterialization(key, partition=shard_id, metadata=metadata)
        else:
            reason = str(outcome.error)
            yield dg.AssetObservation(key, partition=shard_id, description=reason, metadata=metadata)


def is_failure(event: dg.AssetObservation) -> bool:
    """Return whether a shard's event is that of a failure. Throttling between rows is none."""
    facts = exact_values(event)
    is_throttled = facts.get("error_class") == ShardThrottled.__name__
    return facts.get("state") == ShardState.FAILED and not (is_throttled and facts.get("rows"))


def facts_metadata(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that a job reports, by names for code, as metadata."""
    return {name.replace("_", " "): value for name, value in facts.items() if value is not None}


def event_metadata(stream: str, outcome: ShardOutcome, result: RunResult) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event after a run."""
    return _metadata(
        stream,
        outcome.state,
        outcome.stats,
        error=outcome.error,
        facts={
            "lag (s)": seconds_of(outcome.lag_ms),
            "time to loss (h)": hours_of(outcome.time_to_loss_ms),
            "first arrival": outcome.facts.first_arrival,
            "last arrival": outcome.facts.last_arrival,
            "speed (MB/s)": None if outcome.stats is None else _speed(outcome.stats.bytes, result.seconds),
            "bad records": outcome.facts.bad_records,
            "outside hash range": outcome.facts.outside_hash_range or None,
            "gaps": "; ".join(map(str, outcome.facts.gaps)) or None,
        },
        exact={
            "seconds": round(result.seconds, 3),
            "outside_hash_range": outcome.facts.outside_hash_range,
            "lag_ms": outcome.lag_ms,
            "time_to_loss_ms": outcome.time_to_loss_ms,
            "files": outcome.files,
            "table_version": result.version,
            "batch_id": str(result.batch_id),
        },
    )


def replay_metadata(
    stream: str, outcome: ReplayOutcome, result: ReplayResult
) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event after a replay."""
    return _metadata(
        stream,
        outcome.state,
        outcome.stats,
        error=outcome.error,
        facts={
            "speed (MB/s)": None if outcome.stats is None else _speed(outcome.stats.bytes, result.seconds),
            "gaps filled": outcome.gaps_filled or None,
        },
        exact={
            "seconds": round(result.seconds, 3),
            "table_version": result.version,
            "batch_id": str(result.batch_id) if outcome.rows else None,
        },
    )


def commit_metadata(
    stream: str, state: str, stats: RangeStats, batch_id: int
) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event as far as it can be derived from a commit in the table.

    The state is that of the event of the run or replay that made the commit.
    """
    return _metadata(stream, state, stats, exact={"batch_id": str(batch_id)})


def seek_metadata(facts: Mapping[str, Any]) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of the event of a shard that was moved, from what `facts_of_moves` returns."""
    people = {"direction": facts["direction"], "rows removed": facts["rows_removed"], "gap": facts["gap"]}
    return _values(people) | exact_entry({name: facts[name] for name in ("from", "to", "applied")})


def totals_metadata(
    totals: RunTotals | None,
    state: StreamState | None,
    table: TableTotals | None,
    by_get_records: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of the event of the stream as a whole.

    The keys differ from those of shards, because Dagster plots equal keys of all events in one diagram.

    Args:
        totals: The totals of a run's shards; None if rows were added in another way.
        state: The state of all shards; None if it is not known.
        table: The totals of the table; None if they are not known.
        by_get_records: Why shards are read with GetRecords instead of a consumer, by shard id.
    """
    facts: dict[str, Fact] = {} if state is None else _state_facts(state)
    if totals is not None:
        facts = {
            TOTAL_ROWS: totals.rows,
            "total size (MB)": megabytes_of(totals.bytes),
            **facts,
            "newest arrival": totals.last_arrival,
            TOTAL_BAD_RECORDS: totals.bad_records,
            "total speed (MB/s)": _speed(totals.bytes, totals.seconds),
            "duration (s)": round(totals.seconds, 3),
        }
    if by_get_records:
        facts["shards read with GetRecords"] = len(by_get_records)
        facts["read with GetRecords because"] = next(iter(by_get_records.values()))
    return _values(facts) | table_metadata(table)


def _state_facts(state: StreamState) -> dict[str, Fact]:
    return {
        "worst lag (s)": seconds_of(state.lag_ms),
        "shards with unknown lag": state.unknown_lags or None,
        "least time to loss (h)": hours_of(state.time_to_loss_ms),
        "open shards": state.open,
        "shards behind": state.behind,
        "failed shards": state.failed,
    }


def table_metadata(table: TableTotals | None) -> dict[str, dg.MetadataValue[Any]]:
    """Return the totals of a table under Dagster's own keys; nothing if they are not known."""
    if table is None:
        return {}
    return _values({"dagster/row_count": table.rows, "dagster/size_bytes": table.bytes})


def totals_of_raw(table: PositionedTable) -> TableTotals | None:
    """Return the totals of a raw table; None if it cannot be read."""
    try:
        return table.snapshot().totals()
    except TableError as error:
        _log.warning("the event does not have the rows of the table: %s", error)
        return None


def seconds_of(milliseconds: int | None) -> float | None:
    """Return milliseconds in seconds."""
    return None if milliseconds is None else milliseconds / 1000


def hours_of(milliseconds: int | None) -> float | None:
    """Return milliseconds in hours, rounded to the second digit."""
    return None if milliseconds is None else round(milliseconds / 3_600_000, 2)


def megabytes_of(size: int) -> float:
    """Return bytes in MB."""
    return round(size / 1e6, 6)


def _speed(size: int, seconds: float) -> float | None:
    return round(size / 1e6 / seconds, 3) if size and seconds else None


def _metadata(
    stream: str,
    state: str,
    stats: RangeStats | None,
    *,
    exact: Mapping[str, object],
    facts: Mapping[str, Fact] = {},
    error: Exception | None = None,
) -> dict[str, dg.MetadataValue[Any]]:
    """Return the metadata of a shard's event.

    Args:
        exact: The exact values that not every event has.
        facts: The facts for people that not every event has. Dagster shows them in their order.
    """
    rows, size = (0, 0) if stats is None else (stats.rows, stats.bytes)
    found: dict[str, Fact] = {
        "state": str(state),
        **({} if error is None else {"error": str(error), "error class": type(error).__name__}),
        "rows": rows,
        "size (MB)": megabytes_of(size),
        **facts,
    }
    return _values(found) | exact_entry({"stream": stream, "bytes": size, **_range_values(stats), **exact})


def exact_entry(values: Mapping[str, object]) -> dict[str, dg.MetadataValue[Any]]:
    """Return the entry with the exact values of an event, without those that are None."""
    known = {name: value for name, value in values.items() if value is not None}
    return {EXACT: dg.MetadataValue.json(known)}


def _range_values(stats: RangeStats | None) -> dict[str, str | None]:
    if stats is None:
        return {}
    return {
        "from": str(stats.start),
        "through": str(stats.through),
        "first_sequence_number": stats.first_sequence_number,
        "last_sequence_number": stats.last_sequence_number,
        "checksum": str(stats.checksum) if stats.rows else None,
    }


def _values(facts: Mapping[str, Fact]) -> dict[str, dg.MetadataValue[Any]]:
    return {name: _value(value) for name, value in facts.items() if value is not None}


def _value(value: str | float | datetime) -> dg.MetadataValue[Any]:
    if isinstance(value, str):
        return dg.MetadataValue.text(value)
    if isinstance(value, datetime):
        return dg.MetadataValue.timestamp(value)
    return dg.MetadataValue.int(value) if isinstance(value, int) else dg.MetadataValue.float(value)
