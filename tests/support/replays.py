"""Tables with missing rows, and replays that something happens to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.single_task import fill_as_in_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.operations.replay.outcome import ReplayResult, ReplayState
    from kinesis_assets.operations.replay.run import Fill
    from kinesis_assets.operations.replay.task import FillJob, FillResult
    from support.bench import Bench

A, B, C = (f"shardId-{number:012d}" for number in range(3))


def ingest_and_lose(bench: Bench, *lost: int, count: int = 5) -> list[str]:
    """Ingest numbers into one shard, and delete some from the table. Return their sequence numbers."""
    bench.create()
    numbers = bench.put(*range(count))
    bench.run()
    bench.lose(*lost)
    return numbers


def states(result: ReplayResult) -> dict[str, tuple[ReplayState, int]]:
    """Return the state and the number of added rows of each shard."""
    return {shard_id: (outcome.state, outcome.rows) for shard_id, outcome in result.outcomes.items()}


def fill_then(act: Callable[[], object], times: int = 1) -> Fill:
    """Return a fill function that calls `act` after the rows are written, the first `times` times."""
    left = [times]

    def fill(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
        result = fill_as_in_spark(job, ranges)
        if left[0]:
            left[0] -= 1
            act()
        return result

    return fill
