"""Every name of Dagster that is not part of its public API.

If the installed release lacks one of the names, each function logs a warning and takes the public way, which
is slower.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from dagster.components import DefsStateConfig

_log = logging.getLogger(__name__)

_MISSING = "Dagster %s has no %s: %s"

_MATERIALIZATION: Final = dg.DagsterEventType.ASSET_MATERIALIZATION
_OBSERVATION = dg.DagsterEventType.ASSET_OBSERVATION
_ASSET_EVENTS = {_MATERIALIZATION.value, _OBSERVATION.value}

EVENTS_OF_A_BATCH = 1000

_MAX_AHEAD_MS = 60_000
"""Milliseconds by which the times of events may be ahead of the clock. If they are more, it was set back."""


class EventTimes:
    """Gives each materialization and observation of this process its own millisecond.

    The page of an asset drops an event that has the run, the millisecond and the type of another one. As a
    filter of a step's log, this also reaches the events that Dagster itself reports.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def after(self, now: float) -> float:
        """Return a time for an event that is stored now: if necessary, one in the next free millisecond."""
        with self._lock:
            millisecond = int(now * 1000)
            if 0 <= self._last - millisecond < _MAX_AHEAD_MS:
                millisecond = self._last + 1
                now = (millisecond + 0.5) / 1000  # not at its start, which may be rounded down
            self._last = millisecond
        return now

    def filter(self, record: logging.LogRecord) -> bool:
        """Set the time of a line that is an event of an asset, and let each line pass."""
        event = getattr(record, "dagster_event", None)
        if isinstance(event, dg.DagsterEvent) and event.event_type_value in _ASSET_EVENTS:
            record.created = self.after(record.created)
        return True


_event_times = EventTimes()


def initialized(resource: dg.ConfigurableIOManager) -> AbstractContextManager[Any]:
    """Return a context with a resource as a run gets it: with the values of its environment variables.

    `process_config_and_initialize_cm` also creates an instance in memory, which takes longer than the rest.

    Args:
        resource: The resource. It must not use the instance.

    Raises:
        DagsterInvalidConfigError: A value is missing or invalid.
    """
    try:
        from dagster._config.post_process import post_process_config  # noqa: PLC0415  # it may be missing

        kind = resource._config_schema.config_type  # noqa: SLF001
        given = post_process_config(kind, resource._convert_to_config_dictionary())  # noqa: SLF001
        none: Any = None
        definition = resource.get_resource_definition()
        context = dg.InitResourceContext(given.value, none, definition, all_resource_defs={})
    except (ImportError, AttributeError, TypeError):
        _warn("post_process_config", "an instance is created for each use of a stream")
        return resource.process_config_and_initialize_cm()
    if not given.success:
        return resource.process_config_and_initialize_cm()  # raises the error
    return resource.from_resource_context_cm(context, nested_resources=resource.nested_resources)


def add_asset_metadata(
    step: dg.StepExecutionContext, key: dg.AssetKey, metadata: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add metadata, by partition key, to the materializations of an asset.

    `StepExecutionContext.add_asset_metadata` reads all partitions from the instance on each call.
    """
    try:
        accumulator = step._metadata_accumulator  # noqa: SLF001
        for partition_key, facts in metadata.items():
            accumulator = accumulator.with_additional_asset_metadata(
                asset_key=key, metadata=facts, partition_key=partition_key
            )
    except (AttributeError, TypeError):
        _warn("StepExecutionContext._metadata_accumulator", "metadata is added one partition at a time")
        for partition_key, facts in metadata.items():
            step.add_asset_metadata(metadata=facts, asset_key=key, partition_key=partition_key)
        return
    step._metadata_accumulator = accumulator  # noqa: SLF001


def separate_event_times(step: dg.StepExecutionContext) -> None:
    """Give each event that is logged in a step from now on its own millisecond, see `EventTimes`."""
    step.log.addFilter(_event_times)


def report_events(
    step: dg.StepExecutionContext, events: Iterable[dg.AssetMaterialization | dg.AssetObservation]
) -> None:
    """Store events of one asset in a running step, many at once.

    `AssetExecutionContext.log_event` stores each event by itself, for which PostgreSQL's event log opens two
    connections and commits three times, and keeps it in memory until the asset's body has returned. It also
    writes a line without the partition's name to the output of the run.

    Args:
        events: The events. A batch has its materializations first, and then its observations.
    """
    remaining = iter(events)
    while batch := list(islice(remaining, EVENTS_OF_A_BATCH)):
        try:
            store = step.instance.event_log_storage.store_event_batch
            collecting = _CollectingStep(step)
            for event in batch:
                _log_event(collecting, event)
        except (AttributeError, TypeError):
            _warn("EventLogStorage.store_event_batch", "the events of a run are stored one by one")
            separate_event_times(step)
            for event in batch:
                _log_event(step, event)
            continue
        # Event logs store only events of the same type at once.
        for kind in (_MATERIALIZATION, _OBSERVATION):
            if entries := [entry for entry in collecting.entries if entry.dagster_event_type == kind]:
                store(entries)


def report_outside_of_runs(instance: dg.DagsterInstance, events: Sequence[dg.AssetMaterialization]) -> None:
    """Store materializations that belong to no run, many at once."""
    try:
        from dagster._core.events import StepMaterializationData  # noqa: PLC0415  # it may be missing
        from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID  # noqa: PLC0415  # likewise

        store = instance.event_log_storage.store_event_batch
    except (ImportError, AttributeError):
        _warn("StepMaterializationData", "missing events are stored one by one")
        for event in events:
            instance.report_runless_asset_event(event)
        return
    entries = (
        _entry(
            dg.DagsterEvent(
                event_type_value=_MATERIALIZATION.value,
                event_specific_data=StepMaterializationData(event),
                job_name=RUNLESS_JOB_NAME,
            ),
            RUNLESS_RUN_ID,
        )
        for event in events
    )
    while batch := list(islice(entries, EVENTS_OF_A_BATCH)):
        store(batch)


class _CollectingStep:
    """A step whose log keeps the entries of the event log that it is given, and stores none."""

    def __init__(self, step: dg.StepExecutionContext) -> None:
        self._step = step
        self.entries: list[dg.EventLogEntry] = []
        self.log = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)

    def log_dagster_event(
        self, level: int, msg: str, dagster_event: dg.DagsterEvent, *_: Any, **__: Any
    ) -> None:
        """Keep the entry with which `DagsterLogManager.log_dagster_event` would store an event."""
        self.entries.append(_entry(dagster_event, self._step.run_id, self._step.step.key, level, msg))


def _entry(
    event: dg.DagsterEvent, run_id: str, step: str | None = None, level: int = logging.INFO, message: str = ""
) -> dg.EventLogEntry:
    """Return the entry of the event log for an event that is stored now."""
    return dg.EventLogEntry(  # type: ignore[no-untyped-call]
        error_info=None,
        level=level,
        user_message=message,
        run_id=run_id,
        timestamp=_event_times.after(time.time()),
        step_key=step,
        job_name=event.job_name,
        dagster_event=event,
    )


def _log_event(step: Any, event: dg.AssetMaterialization | dg.AssetObservation) -> None:
    if isinstance(event, dg.AssetMaterialization):
        dg.DagsterEvent.asset_materialization(step, event)
    else:
        dg.DagsterEvent.asset_observation(step, event)


def report_check(step: dg.StepExecutionContext, evaluation: dg.AssetCheckEvaluation) -> None:
    """Store the result of a check in a running step that does not declare the check."""
    try:
        dg.DagsterEvent.asset_check_evaluation(step, evaluation)
    except AttributeError:
        _warn("DagsterEvent.asset_check_evaluation", "runs report no checks; the sensor does")


def report_check_of_run(
    instance: dg.DagsterInstance, before: dg.EventLogEntry, evaluation: dg.AssetCheckEvaluation
) -> None:
    """Store a newer result of a check in the name of the run that has reported the one before."""
    event = dg.DagsterEvent(
        dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
        job_name=before.job_name or "",
        step_key=before.step_key,
        event_specific_data=evaluation,
    )
    instance.report_dagster_event(event, before.run_id)


def check_target(record: dg.EventLogRecord) -> Any:
    """Return what names a materialization as the one that a check was about.

    Without it, the UI compares times, which may be of whole seconds.
    """
    try:
        from dagster._core.definitions.asset_checks.asset_check_evaluation import (  # noqa: PLC0415  # it may be missing
            AssetCheckEvaluationTargetMaterializationData,
        )
    except ImportError:
        _warn("AssetCheckEvaluationTargetMaterializationData", "results of checks name no materialization")
        return None
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
    )


def latest_check_executions(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]
) -> Mapping[dg.AssetCheckKey, Any]:
    """Return the last execution of each check that has one, as an `AssetCheckExecutionRecord`, in one
    query.
    """
    try:
        return instance.event_log_storage.get_latest_asset_check_execution_by_key(list(keys))
    except AttributeError:
        _warn("EventLogStorage.get_latest_asset_check_execution_by_key", "each check is a query")
        found = {key: instance.get_latest_asset_check_evaluation_record(key) for key in keys}
        return {key: record for key, record in found.items() if record is not None}


def unpartitioned_materializations(
    instance: dg.DagsterInstance, key: dg.AssetKey, after: int | None, *, since: float, limit: int
) -> tuple[Sequence[dg.EventLogRecord], int | None]:
    """Return the materializations of an asset that have no partition.

    The public API can only select partitions, and reads the metadata of each materialization.

    Args:
        after: The storage id after which they were stored; None for the newest ones since a time.
        since: That time, in seconds since the epoch.
        limit: The maximum number of materializations, with and without a partition, to go through.

    Returns:
        The events, and the storage id of the last materialization that was gone through.
    """
    ascending = after is not None
    try:
        summaries: Sequence[Any] = instance.get_asset_event_summary_records(
            _MATERIALIZATION, asset_key=key, after_storage_id=after, limit=limit, ascending=ascending
        )
        found = [(each.storage_id, each.timestamp, each.partition) for each in summaries]
    except (AttributeError, TypeError):
        _warn("DagsterInstance.get_asset_event_summary_records", "all events are read in full")
        wanted = dg.AssetRecordsFilter(key, after_storage_id=after)
        records = instance.fetch_materializations(wanted, limit, ascending=ascending).records
        found = [(each.storage_id, each.timestamp, each.partition_key) for each in records]
    through = max((storage_id for storage_id, _, _ in found), default=after)
    ids = [storage_id for storage_id, time, partition in found if partition is None and time >= since]
    if not ids:
        return [], through
    page = instance.fetch_materializations(dg.AssetRecordsFilter(key, storage_ids=ids), limit=len(ids))
    return page.records, through


def job_without_checks(job: dg.JobDefinition, keys: Collection[dg.AssetKey]) -> dg.JobDefinition:
    """Return the part of a job that materializes some assets, without their checks.

    `JobDefinition.execute_in_process` executes the checks of the assets that it is given.
    """
    try:
        return job.get_subset(asset_selection=frozenset(keys), asset_check_selection=frozenset())
    except (AttributeError, TypeError):
        _warn("JobDefinition.get_subset", "the checks of the assets are executed too")
        return job


def definition_of(context: dg.AssetExecutionContext, key: dg.AssetKey) -> dg.AssetsDefinition:
    """Return the definition of an asset of the code location of a running one.

    The repository, which the public API has, is not set where a job is executed in this process.

    Raises:
        KeyError: The code location has no such asset.
    """
    try:
        return context.job_def.asset_layer.get(key).assets_def
    except AttributeError:
        _warn("JobDefinition.asset_layer", "the definition is read from the repository")
        return context.repository_def.assets_defs_by_key[key]


def assets_of_job(context: dg.AssetCheckExecutionContext) -> Collection[dg.AssetKey]:
    """Return the assets that a running job materializes, of which a run may have selected some.

    The run itself, which the public API has, names them only if it was started with a selection.
    """
    try:
        return frozenset(context.job_def.asset_layer.executable_asset_keys)
    except AttributeError:
        _warn("JobDefinition.asset_layer", "the assets of a job are those that its run names")
        return context.run.asset_selection or ()


def assets_of_location(context: dg.OpExecutionContext) -> Mapping[dg.AssetKey, dg.AssetsDefinition]:
    """Return the assets of the code location that runs an op; none where a job is executed in this
    process.
    """
    try:
        return context.repository_def.assets_defs_by_key
    except Exception as error:
        if type(error).__name__ != "CheckError":  # Dagster has no public name for it
            raise
        context.log.warning("A job that is executed in this process knows no assets of its code location.")
        return {}


def body_of(definition: dg.AssetsDefinition) -> Callable[..., Any] | None:
    """Return the function that `dg.asset` made an asset of; None for any other asset."""
    if not (definition.is_executable and isinstance(definition.node_def, dg.OpDefinition)):
        return None
    try:
        return definition.op.compute_fn.decorated_fn  # type: ignore[union-attr]
    except AttributeError:
        if not hasattr(definition, "op"):
            _warn("AssetsDefinition.op", "continuous runs include no derived tables")
        return None


def sensor_cursors(instance: dg.DagsterInstance, name: str) -> list[str | None]:
    """Return the cursors of the sensors of a given name: one for each code location that has such a sensor.

    Dagster has no public API for it. If a name is missing, the result is empty.
    """
    try:
        # A schedule has no cursor.
        return [getattr(state.instigator_data, "cursor", None) for state in _states(instance, name)]
    except AttributeError:
        _warn("DagsterInstance.all_instigator_state", f"the cursor of the sensor {name} cannot be read")
        return []


def locations_of_sensor(instance: dg.DagsterInstance, name: str, now: float) -> dict[str, str | None]:
    """Return the code locations in which a sensor of a given name was evaluated in the last few intervals.

    Each has the cursor of its sensor. Dagster has no public API for it. If a name is missing, the result is
    empty.
    """
    try:
        return {
            state.origin.repository_origin.code_location_origin.location_name: data.cursor
            for state in _states(instance, name)
            if (data := state.instigator_data) is not None
            and now - (data.last_tick_start_timestamp or 0.0) < 60 + 5 * (data.min_interval or 0)
        }
    except AttributeError:
        _warn("InstigatorState", f"the code locations with the sensor {name} are not compared")
        return {}


def _states(instance: dg.DagsterInstance, name: str) -> list[Any]:
    """Return the states of the sensors of a name; none of an instance in memory, where none is evaluated."""
    if instance.schedule_storage is None:
        return []
    return [state for state in instance.all_instigator_state() if state.instigator_name == name]


def loading_of(context: dg.ComponentLoadContext) -> object:
    """Return an object that is the same for all components that are loaded together, and for no others."""
    try:
        return context.component_tree.state_tracker
    except AttributeError:
        _warn("ComponentTree.state_tracker", "components with the same names are refused by Dagster alone")
        return context


def stored_state(config: DefsStateConfig, project_root: Path) -> bytes | None:
    """Return the state of a state-backed component as it was last stored; None if there is none.

    Dagster has no public API for it outside of `build_defs_from_state`.
    """
    try:
        from dagster._core.definitions.definitions_load_context import (  # noqa: PLC0415  # it may be missing
            DefinitionsLoadContext,
        )
        from dagster._core.storage.defs_state import DefsStateStorage  # noqa: PLC0415  # likewise

        state_path = DefinitionsLoadContext.get().state_path
        storage = DefsStateStorage.get()
    except (ImportError, AttributeError):
        _warn("DefinitionsLoadContext.state_path", "a refresh does not see the previous state of a component")
        return None
    with state_path(config, storage, project_root) as path:
        return None if path is None else path.read_bytes()


@cache
def _warn(name: str, consequence: str) -> None:
    """Log a warning, once for each missing name."""
    _log.warning(_MISSING, dg.__version__, name, consequence)
