"""A deployment in which time passes only for the service, and each requested run takes no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.testing import Clock
from support.daemon import FIRST, LAST, PARTITION, Daemon, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dagster as dg

    from kinesis_assets.dagster.stream_project import StreamProject

INTERVAL = 300
"""Seconds between two ticks, by default."""


class VirtualDeployment:
    """A sensor and its runs, which are executed at once.

    Attributes:
        clock: The clock of Dagster's machines. It stands still, because runs are recorded by the machine's.
        daemon: The sensor.
        runs: The time, in seconds since the start, and the shards of each run.
        interval: Seconds between two ticks.
    """

    interval = INTERVAL

    def __init__(self, project: StreamProject, instance: dg.DagsterInstance, service: Clock) -> None:
        self.clock = Clock()
        self.daemon = Daemon(project, instance)
        self.daemon.clock = self.clock
        self.runs: list[tuple[int, tuple[str, ...]]] = []
        self._service = service
        self._start = service.seconds

    def tick(self, status: Status = Status.SUCCESS) -> list[tuple[str, ...]]:
        """Evaluate the sensor, execute the runs that it requests, and return their shards.

        Args:
            status: How the runs end. Only successful ones commit anything.
        """
        requests = self.daemon.tick().run_requests or ()
        return [self._execute(dict(request.tags), status) for request in requests]

    def pass_time(self, seconds: float) -> list[tuple[int, tuple[str, ...]]]:
        """Let time pass, with a tick at each interval, and return the runs."""
        before = len(self.runs)
        for _ in range(int(seconds / self.interval)):
            self._service.advance(self.interval)
            self.tick()
        return self.runs[before:]

    def _execute(self, tags: dict[str, str], status: Status) -> tuple[str, ...]:
        shard_ids = self._shards_of(tags)
        self._run(tags, shard_ids, status)
        self.runs.append((round(self._service.seconds - self._start), shard_ids))
        return shard_ids

    def _run(self, tags: dict[str, str], shard_ids: Sequence[str], status: Status) -> None:
        """Execute a run without recording its events."""
        run = self.daemon.run(tags)
        if status is Status.SUCCESS:
            self.daemon.commit(shard_ids, run.run_id)
        self.daemon.end(run, status)

    def _shards_of(self, tags: dict[str, str]) -> tuple[str, ...]:
        keys = self.daemon.partition_keys()
        first, last = tags.get(FIRST, tags.get(PARTITION)), tags.get(LAST, tags.get(PARTITION))
        return tuple(keys[keys.index(str(first)) : keys.index(str(last)) + 1])
