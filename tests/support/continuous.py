"""A continuous run without Dagster and Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kinesis_assets.ingest.continuous_run import ContinuousRun, RunTiming
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from support.single_task import land_as_in_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.ingest.outcome import RunResult


TIMING = RunTiming(3600.0, commit_interval=0.05)
"""A run that only `last_iteration` ends, or that is over because nothing is left to read."""


@dataclass
class RunHarness:
    """A continuous run, the results that it reports, and actions before each of its iterations."""

    bench: Any
    timing: RunTiming = TIMING
    by: str = "run"
    policy: ReadPolicy = field(default_factory=ReadPolicy)
    before: dict[int, Callable[[], object]] = field(default_factory=dict)
    last_iteration: int | None = None
    results: list[RunResult] = field(default_factory=list)
    iterations: int = 0

    def __post_init__(self) -> None:
        bench = self.bench
        self.continuous_run = ContinuousRun(
            self.land,
            bench.client,
            bench.table,
            self.policy,
            self.timing,
            report=self.results.append,
            by=self.by,
        )

    def land(self, job, ranges, allowance):
        self.iterations += 1
        self.before.pop(self.iterations, lambda: None)()
        landing = land_as_in_spark(job, ranges, allowance)
        if self.iterations == self.last_iteration:
            self.continuous_run.stop()
        return landing

    def run(self, *shard_ids: str) -> RunHarness:
        bench = self.bench
        self.continuous_run.run(plan_run(bench.client, bench.table, asked=shard_ids, policy=self.policy))
        return self

    @property
    def events(self) -> list[dict[str, tuple[str, int]]]:
        """State and rows of each shard in each reported result."""
        return [
            {shard_id: (str(outcome.state), outcome.rows) for shard_id, outcome in result.outcomes.items()}
            for result in self.results
        ]
