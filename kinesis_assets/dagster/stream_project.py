"""Run a stream's assets and jobs in this process, with the definitions of the UI, and capture their logs."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import dagster as dg

from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.dagster_internals import initialized, job_without_checks
from kinesis_assets.dagster.events.metadata import QUIET, metadata_of_events
from kinesis_assets.dagster.io_manager import ShardIOManager
from kinesis_assets.dagster.partition_ranges import contiguous_ranges, range_tags
from kinesis_assets.dagster.settings.asset_settings import KEY_PREFIX
from kinesis_assets.dagster.stream_names import StreamNames, is_key, op_key
from kinesis_assets.errors import InvalidInput, RunCanceled, ShardsNotCommitted
from kinesis_assets.kinesis.stream import StreamAddress
from kinesis_assets.spark.session import prepare, start_session_in_background

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kinesis_assets.dagster.stream import OpenStream


@dataclass(frozen=True)
class StreamProject:
    """One stream and the definitions that contain it.

    Attributes:
        definitions: The definitions. They may contain other streams too.
    """

    stream: str
    definitions: dg.Definitions
    key_prefix: tuple[str, ...] = KEY_PREFIX

    @property
    def names(self) -> StreamNames:
        """The names of the stream's definitions."""
        return StreamNames(self.stream, self.key_prefix)

    @property
    def assets(self) -> Mapping[dg.AssetKey, dg.AssetsDefinition]:
        """All assets of the definitions."""
        return self.definitions.get_repository_def().assets_defs_by_key

    @classmethod
    def of_folder(cls, stream: str, folder: Path, otherwise: str = "") -> StreamProject:
        """Return the stream of a `defs/<stream>/defs.yaml` of a Dagster project.

        Args:
            stream: The stream's name, its asset key, or its ARN, if the YAML contains the ARN.
            folder: The project's folder, or a folder in it.
            otherwise: What else an error advises if no YAML defines the stream, as ", or ...".

        Raises:
            InvalidInput: The folder is not in a project, no YAML of the project defines the stream, several
                do, or a YAML cannot be loaded.
        """
        project = _project_of(folder)
        if project is None:
            raise InvalidInput(
                f"stream {stream}: {folder} is not in a Dagster project, so no defs.yaml defines the stream; "
                f"run the command in your project{otherwise}"
            )
        # The project need not be installed: `dg` finds its module in the same place.
        modules = str(project / "src" if (project / "src").is_dir() else project)
        if modules not in sys.path:
            sys.path.insert(0, modules)
        try:
            definitions = dg.load_from_defs_folder(path_within_project=folder)
        except Exception as error:
            innermost: BaseException = error
            while innermost.__cause__ is not None:
                innermost = innermost.__cause__
            raise InvalidInput(
                f"the definitions cannot be loaded: {' '.join(str(innermost).split())}; run `dg check defs` "
                "for details"
            ) from error
        names = _names_in(definitions, stream, otherwise)
        return cls(names.stream, definitions, names.prefix)

    @classmethod
    def from_settings(cls, stream: str, **fields: Any) -> StreamProject:
        """Return a stream that no YAML defines. Takes the arguments of `build_kinesis_stream`."""
        definitions = build_kinesis_stream(stream, **fields)
        names = _names_in(definitions, stream)
        return cls(names.stream, definitions, names.prefix)

    @contextmanager
    def open_stream(self) -> Iterator[OpenStream]:
        """Yield the stream as runs use it, and close it afterwards."""
        resource = (self.definitions.resources or {})[self.names.io_manager_key]
        with initialized(resource) as manager:
            yield manager.opened

    def materialize(self, instance: dg.DagsterInstance, shard_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Materialize the next range of some shards in this process, with one run for each partition range.

        New shards are added to the partitions of the instance. Parents must come before their children.

        Yields:
            The event metadata of each shard, whether it was committed or not; see `event_metadata`.

        Raises:
            RunCanceled: A run was interrupted. The metadata of what it had committed was yielded.
            KinesisAssetsError: A run failed as a whole, and none of its shards is known to be committed.
        """
        partitions = self.names.partitions_name
        known = instance.get_dynamic_partitions(partitions)
        new = [shard_id for shard_id in shard_ids if shard_id not in known]
        instance.add_dynamic_partitions(partitions, new)
        for range_ in contiguous_ranges([*known, *new], set(shard_ids)):
            try:
                events = self.run(instance, range_tags(range_))
            except RunCanceled as canceled:
                yield from canceled.events
                raise
            by_shard = {event["shard"]: event for event in events}
            yield from (by_shard[shard_id] for shard_id in range_)

    def run(self, instance: dg.DagsterInstance, tags: Mapping[str, str]) -> list[dict[str, Any]]:
        """Execute one run with the given tags, as a run request of the sensor would.

        Returns:
            The event metadata of each shard, in no particular order.

        Raises:
            RunCanceled: The run was interrupted.
            KinesisAssetsError: The run failed as a whole.
        """
        with self.open_stream() as stream:
            start_session_in_background(stream.settings.session_config)  # while Dagster plans the run
        everything = self.definitions.resolve_implicit_global_asset_job_def()
        job = job_without_checks(everything, [self.names.raw_key])
        return self.executed(job, instance, tags=dict(tags), run_config=QUIET)

    def executed(
        self, job: dg.JobDefinition, instance: dg.DagsterInstance, **arguments: Any
    ) -> list[dict[str, Any]]:
        """Execute a job in this process, and return the event metadata of each shard.

        Raises what `run` raises.
        """
        run_id = str(uuid4())
        try:
            # Each shard's event contains its error, if any.
            with quiet_log_capture(instance), suppress(ShardsNotCommitted):
                job.execute_in_process(instance=instance, run_id=run_id, **arguments)
        except (dg.DagsterExecutionInterruptedError, KeyboardInterrupt) as interrupt:
            # Outside of a graceful stop, Dagster has no handler for signals, or takes them for failures.
            run = instance.get_run_by_id(run_id)
            if run is not None and (run.is_failure or not run.is_finished):
                instance.report_run_canceled(run, "The command was interrupted.")
            if isinstance(interrupt, KeyboardInterrupt):
                raise
            raise RunCanceled(self.stream, metadata_of_events(instance, run_id)) from interrupt
        return metadata_of_events(instance, run_id)


def run_replay(
    project: StreamProject,
    instance: dg.DagsterInstance,
    *,
    start: str,
    end: str = "",
    shard_ids: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Run a stream's replay job in this process, and return the event metadata of each shard.

    Without shard ids, all shards are replayed.

    Raises:
        RunCanceled: The run was interrupted.
        KinesisAssetsError: The run failed as a whole, and no rows are known to be added.
    """
    from kinesis_assets.operations.replay.plan import ReplayWindow, plan_replay  # noqa: PLC0415  # only replays need it

    window = ReplayWindow.of(start, end)  # raises if the range is invalid

    def check(opened: OpenStream) -> None:
        plan_replay(opened.client, opened.table, window, shard_ids)

    config = {"start": start, "end": end, "shards": list(shard_ids)}
    return _run_job(project, instance, project.names.job("replay"), config, check)


def run_catch_up(
    project: StreamProject, instance: dg.DagsterInstance, *, shard_ids: Sequence[str] = (), by: str
) -> list[dict[str, Any]]:
    """Run a stream's catch-up job in this process. Without shard ids, all shards are moved.

    Returns:
        The facts of each shard that was moved, which have a direction, and then the event metadata of each
        shard whose records were added.

    Raises:
        RunCanceled: The run was interrupted. The next catch-up continues it.
        KinesisAssetsError: The run failed as a whole. Its jump may have been committed.
    """
    config = {"shards": list(shard_ids), "by": by}
    return _run_job(project, instance, project.names.job("catch_up"), config)


def _run_job(
    project: StreamProject,
    instance: dg.DagsterInstance,
    name: str,
    config: dict[str, Any],
    check: Callable[[OpenStream], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Run a job that reads with Spark while runs continue, and return the event metadata of each shard.

    `check` raises what the job would raise only after Spark has started.
    """
    with project.open_stream() as stream:
        # The job makes the same checks, but only after Spark has started.
        stream.table.snapshot().refuse_other_stream(stream.client.describe().identity)
        prepare(stream.settings.session_config)
        stream.table.require_writable()
        check(stream)
        start_session_in_background(stream.settings.session_config)
    run_config = {"ops": {op_key(name): {"config": config}}, **QUIET}
    return project.executed(project.definitions.resolve_job_def(name), instance, run_config=run_config)


def _names_in(definitions: dg.Definitions, stream: str, otherwise: str = "") -> StreamNames:
    """Return the names of the stream of a project that a name, an ARN or an asset key selects.

    Raises:
        InvalidInput: It selects none, or several.
    """
    managers = [each for each in (definitions.resources or {}).values() if isinstance(each, ShardIOManager)]
    if is_key(stream):
        key = StreamNames.parse(stream)
        found = [each for each in managers if each.names == key]
        named = found
    else:
        address = StreamAddress.parse(stream)
        named = [each for each in managers if each.stream == address.name]
        found = [each for each in named if address.arn in {None, each.stream_arn}]
    if not named:
        raise InvalidInput(f"stream {stream}: no defs/*/defs.yaml defines it; correct the name{otherwise}")
    if not found:
        instead = " or ".join(each.stream_arn or each.stream for each in named)
        raise InvalidInput(f"stream {stream}: defs.yaml has {instead}; give that instead")
    if len(found) > 1:
        keys = ", ".join(each.names.stream_key.to_user_string() for each in found)
        raise InvalidInput(f"stream {stream}: the project defines several; give one of {keys}")
    return found[0].names


def _project_of(folder: Path) -> Path | None:
    """Return the folder of the Dagster project that a folder is in; None if it is in none."""
    places = (folder, *folder.parents)
    names = ("pyproject.toml", "dg.toml")
    return next((place for place in places if any((place / name).is_file() for name in names)), None)


@contextmanager
def quiet_log_capture(instance: dg.DagsterInstance) -> Iterator[None]:
    """Start the processes that mirror captured logs in such a way that Ctrl-C does not reach them.

    A terminal sends Ctrl-C to every process of a command. The process with which Dagster watches the
    mirroring would print a traceback. It ends with the capture.
    """
    manager = instance.compute_log_manager
    capture_logs = manager.capture_logs

    @contextmanager
    def capture_quietly(log_key: Sequence[str]) -> Iterator[Any]:
        with ExitStack() as capture:
            # A process inherits the signals that the thread which starts it blocks.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                context = capture.enter_context(capture_logs(log_key))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield context

    manager.capture_logs = capture_quietly  # type: ignore[method-assign]
    try:
        yield
    finally:
        manager.capture_logs = capture_logs  # type: ignore[method-assign]
