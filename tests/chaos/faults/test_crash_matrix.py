"""A run is killed by SIGKILL at any point, and the next ordinary run leaves each record exactly once.

These runs do not need Spark (see `one_run.py`), so that there can be many. `test_crashes_of_spark.py` kills
the processes of Spark, and `test_killed_operations.py` replays, seeks and maintenance.

The long profile, with `LONG_KILLS` kills at random points, is `FAULTS=long pytest tests/chaos/faults`, or
`make faults`. A failure names its seed; `FAULTS_SEED` repeats it. With `FORMAT=s3tables` the table is in a
stub of Amazon S3 Tables.
"""

from __future__ import annotations

import os
import random
import signal
from itertools import product
from typing import TYPE_CHECKING

import pytest

from chaos.faults.kills import most
from chaos.faults.site.fault_points import DRIVER, MOMENTS, WORKER, Fault

if TYPE_CHECKING:
    from chaos.faults.bench import FaultBench

pytestmark = pytest.mark.any_format

# A first run creates the table and freezes the stream: the first pass of each point.
FIRST = [Fault("", point, moment) for point, moment in product(DRIVER | WORKER, MOMENTS)]

# Points that a first run passes twice: the commit with rows after that of the freeze, and the second page.
LATER = [
    Fault("", point, moment, 2)
    for point, moment in product(["get records", "commit request", "write positions"], MOMENTS)
]

LONG_KILLS = 200


@pytest.mark.parametrize("fault", most(FIRST + LATER), ids=str)
def test_the_run_after_a_killed_run_leaves_each_record_exactly_once(bench: FaultBench, fault: Fault) -> None:
    bench.create(2)
    bench.put_many(60)
    assert bench.run_with_fault(fault).code == -signal.SIGKILL
    bench.put_many(40)
    bench.assert_next_run_recovers()


def test_an_ordinary_run_passes_every_point(bench: FaultBench) -> None:
    bench.create(2)
    bench.put_many(60)
    process = bench.start(Fault("")).wait()
    assert {fact["state"] for fact in process.report["shards"].values()} == {"committed"}
    passed = {(moment, point) for _, moment, point in process.fault.passed}
    assert passed == set(product(MOMENTS, DRIVER | WORKER))


def test_repeated_kills_leave_each_record_exactly_once(bench: FaultBench) -> None:
    """Random points and passes on one table: each run resumes from the state that the killed one has left."""
    kills = LONG_KILLS if os.environ.get("FAULTS") == "long" else 6
    seed = int(os.environ.get("FAULTS_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"FAULTS_SEED={seed}")  # noqa: T201  # pytest shows it where it fails
    chance = random.Random(seed)
    bench.create(2)
    done = 0
    while done < kills:
        bench.put_many(chance.randrange(1, 60))
        if chance.random() < 0.1:
            _reshard(bench, chance)
        fault = Fault(
            "", chance.choice(sorted(DRIVER | WORKER)), chance.choice(MOMENTS), chance.choice([1, 1, 1, 2, 3])
        )
        process = bench.start(fault, max_records=chance.choice([10, 1000])).wait()
        if process.fault.happened:
            assert process.code == -signal.SIGKILL, process.err
            done += 1
        elif process.code:
            pytest.fail(process.err)
        if bench.has_positions:
            bench.assert_rows_equal_positions()
    bench.run()
    bench.assert_next_run_recovers()


def _reshard(bench: FaultBench, chance: random.Random) -> None:
    leaves = [
        shard_id
        for shard_id, shard in bench.listed().items()
        if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
    ]
    if len(leaves) < 6:
        bench.split(chance.choice(leaves))
