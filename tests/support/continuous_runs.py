"""Continuous runs of a project in this process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.partition_ranges import continuous_run_tags
from kinesis_assets.errors import TableMissing
from support.formats import rows_of
from support.stream_names import raw_key, shard_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kinesis_assets.dagster.stream_project import StreamProject

AssetEvent = dg.AssetMaterialization | dg.AssetObservation

MATERIALIZATION = dg.DagsterEventType.ASSET_MATERIALIZATION


class ContinuousRuns:
    """Runs of a project in this process, and what they recorded.

    Args:
        project: The definitions of the stream.
        instance: The instance that stores the runs.
        derived: The names of the derived tables that the runs include.
    """

    def __init__(
        self, project: StreamProject, instance: dg.DagsterInstance, derived: Sequence[str] = ()
    ) -> None:
        self.project = project
        self.instance = for_runs_in_threads(instance)
        self.assets = [raw_key(project.stream), *map(dg.AssetKey, derived)]

    def add(self, *shard_ids: str) -> None:
        partitions = shard_partitions(self.project.stream)
        self.instance.add_dynamic_partitions(str(partitions.name), list(shard_ids))

    def run(self, tags: Mapping[str, str]) -> dg.DagsterRun:
        job = self.project.definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=self.instance, tags=dict(tags), asset_selection=self.assets, raise_on_error=False
        )
        run = self.instance.get_run_by_id(result.run_id)
        assert run is not None
        return run

    def run_continuously(self, *shard_ids: str, seconds: float) -> dg.DagsterRun:
        self.add(*shard_ids)
        return self.run(continuous_run_tags(shard_ids, seconds, 0.0))

    def start_continuously(self, *shard_ids: str, seconds: float) -> Callable[[], dg.DagsterRun]:
        """Start a continuous run in a thread, and return a function that waits for the run."""
        runs: list[dg.DagsterRun] = []
        thread = threading.Thread(
            target=lambda: runs.append(self.run_continuously(*shard_ids, seconds=seconds)), daemon=True
        )
        thread.start()

        def join() -> dg.DagsterRun:
            thread.join()
            return runs[0]

        return join

    def with_started_step(self) -> list[dg.DagsterRun]:
        """Return the runs whose step has started."""
        return [run for run in self.instance.get_runs() if self._records(run, dg.DagsterEventType.STEP_START)]

    def asset_events(self, run: dg.DagsterRun, of_type: dg.DagsterEventType) -> list[AssetEvent]:
        """Return the events of a run, in order."""
        entries = [record.event_log_entry for record in self._records(run, of_type)]
        found = [entry.asset_materialization or entry.asset_observation for entry in entries]
        return [event for event in found if event is not None]

    def _records(self, run: dg.DagsterRun, of_type: dg.DagsterEventType) -> Sequence[dg.EventLogRecord]:
        return self.instance.get_records_for_run(run.run_id, of_type=of_type, ascending=True).records

    def events(
        self, run: dg.DagsterRun, of_type: dg.DagsterEventType = MATERIALIZATION
    ) -> list[tuple[str | None, Any, Any]]:
        """Return shard, rows and batch id of each event of a run about the raw asset, in order."""
        return [
            (event.partition, event.metadata["rows"].value, exact_values(event)["batch_id"])
            for event in self.asset_events(run, of_type)
            if event.asset_key == raw_key(self.project.stream) and event.partition is not None
        ]

    def rows(self) -> list[tuple[str, ...]]:
        """Return shard, sequence number and batch id of all rows in the table."""
        columns = ["shard_id", "sequence_number", "batch_id"]
        with self.project.open_stream() as opened:
            try:
                opened.table.snapshot()
            except TableMissing:
                return []
            found = rows_of(opened.table, columns).to_pylist()
        return sorted(tuple(str(row[name]) for name in columns) for row in found)


def for_runs_in_threads(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """Return an instance whose runs do not configure Python's logging.

    `logging.config` waits for the locks of all handlers while it holds the lock of the module. A run that
    logs in another thread holds the former and waits for the latter, which is a deadlock.
    """
    setattr(instance, "get_yaml_python_handlers", list)  # noqa: B010  # a method, which no type checker lets set
    return instance
