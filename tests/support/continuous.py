"""A run that follows, without Dagster and Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kinesis_assets.ingest.continuous_run import ContinuousRun
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run_timing import RunTiming
from support.single_task import land_as_in_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.ingest.outcome import RunResult

A, B, C, D = (f"shardId-{number:012d}" for number in range(4))

PACE = RunTiming(20.0, commit_interval=0.05)


@dataclass
class Followed:
    """A run that follows, what it tells, and what happens before each of its landings."""

    bench: Any
    pace: RunTiming = PACE
    by: str = "run"
    policy: ReadPolicy = field(default_factory=ReadPolicy)
    before: dict[int, Callable[[], object]] = field(default_factory=dict)
    last_round: int | None = None
    told: list[RunResult] = field(default_factory=list)
    rounds: int = 0

    def __post_init__(self) -> None:
        bench = self.bench
        self.follow = ContinuousRun(
            self.land, bench.client, bench.table, self.policy, self.pace, report=self.told.append, by=self.by
        )

    def land(self, job, ranges, allowance):
        self.rounds += 1
        self.before.pop(self.rounds, lambda: None)()
        landing = land_as_in_spark(job, ranges, allowance)
        if self.rounds == self.last_round:
            self.follow.stop()
        return landing

    def run(self, *asked: str) -> Followed:
        bench = self.bench
        self.follow.run(plan_run(bench.client, bench.table, asked=asked, policy=self.policy))
        return self

    @property
    def events(self) -> list[dict[str, tuple[str, int]]]:
        """State and rows of each shard, each time that something was told."""
        return [
            {shard_id: (str(outcome.state), outcome.rows) for shard_id, outcome in result.outcomes.items()}
            for result in self.told
        ]
