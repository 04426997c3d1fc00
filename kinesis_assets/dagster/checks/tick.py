"""The checks of a raw table in a tick of the sensor."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.evaluation import ChecksProgress, Evaluation
from kinesis_assets.dagster.checks.reports import Reports
from kinesis_assets.errors import KinesisAssetsError, reason_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import dagster as dg

    from kinesis_assets.dagster.stream import ListedShards, OpenStream

_log = logging.getLogger(__name__)

_NOT_EVALUATED = "stream %s: the checks cannot be evaluated, and are in the next tick: %s"


def check_events(
    opened: OpenStream,
    instance: dg.DagsterInstance,
    listed: ListedShards,
    *,
    before: ChecksProgress,
    now: float,
    waiting: Collection[str],
) -> tuple[list[dg.AssetCheckEvaluation], ChecksProgress]:
    """Evaluate the checks, and return the results that are to be reported.

    Args:
        opened: The stream.
        instance: The instance with the events.
        listed: The stream's shards and its table.
        before: What the checks remember of the previous tick.
        now: The time of the tick, in seconds since the epoch.
        waiting: The shards that wait to be read, see `Evaluation`.

    Returns:
        The results, and what the checks remember.
    """
    names = opened.checks.reading_no_rows
    if not names:
        return [], before
    try:
        evaluation = Evaluation(
            opened,
            instance,
            listed.listing,
            listed.snapshot,
            listed.shards,
            machine_time=datetime.fromtimestamp(now, UTC),
            waiting=waiting,
            before=before,
        )
    except KinesisAssetsError as error:
        _log.warning(_NOT_EVALUATED, opened.name, reason_of(error))
        return [], before
    reports = Reports.of(instance, opened.names.raw_key, names)
    return [*reports.due(evaluation.results, now)], evaluation.progress
