"""A continuous run is killed at any point of a later iteration; the next run leaves each record exactly once.

Its state from earlier iterations (the list of shards, the position of each) is lost with it.
"""

from __future__ import annotations

import signal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.waiting import wait_until
from chaos.faults.kills import WRITING, most
from chaos.faults.site.fault_points import DRIVER, MOMENTS, WORKER, Fault

if TYPE_CHECKING:
    from chaos.faults.bench import FaultBench, Process

pytestmark = pytest.mark.any_format

REPORTED, MORE = "reported", "more"
"""See `one_continuous_run.py`."""

PASSED = (DRIVER | WORKER).keys() - {"create table", "freeze"}
"""What an iteration passes once there are a table and positions."""

KILLS = [
    Fault("", point, moment, since=MORE)
    for point, moment in product(sorted(PASSED), MOMENTS)
    if moment == "before" or point in WRITING
]


def put_between(bench: FaultBench, process: Process) -> None:
    """Put the records of the later iterations after the first one."""
    folder = Path(process.fault.folder)
    wait_until((folder / REPORTED).exists, process.process, interval=0.01)
    bench.put_many(40)
    (folder / MORE).touch()


@pytest.mark.parametrize("fault", most(KILLS), ids=str)
def test_the_run_after_a_killed_continuous_run_leaves_each_record_exactly_once(
    bench: FaultBench, fault: Fault
) -> None:
    bench.create(2)
    bench.put_many(20)
    process = bench.start(fault, program="one_continuous_run.py")
    put_between(bench, process)
    assert process.wait().code == -signal.SIGKILL, process.err
    bench.put_many(20)
    bench.assert_next_run_recovers()


KILLS_BY_SUBSCRIPTION = [
    Fault("", "subscribe", "before"),
    Fault("", "subscribe", "after"),
    *(
        Fault("", point, moment, since=MORE)
        for point, moment in product(("receive events", "commit request"), MOMENTS)
    ),
    Fault("", "close data file", "after", since=MORE),
]


@pytest.mark.parametrize("fault", most(KILLS_BY_SUBSCRIPTION), ids=str)
def test_the_run_after_a_killed_run_with_a_consumer_leaves_each_record_exactly_once(
    bench: FaultBench, fault: Fault
) -> None:
    bench.create(2)
    bench.put_many(20)
    bench.client.register_consumer("lake", bench.client.describe().identity.arn)
    process = bench.start(fault, program="one_continuous_run.py", consumer="lake")
    if fault.since:
        put_between(bench, process)
    assert process.wait().code == -signal.SIGKILL, process.err
    bench.put_many(20)
    bench.assert_next_run_recovers()


def test_a_later_iteration_passes_every_point(bench: FaultBench) -> None:
    bench.create(2)
    bench.put_many(20)
    process = bench.start(Fault(""), program="one_continuous_run.py")
    wait_until((Path(process.fault.folder) / REPORTED).exists, process.process)
    first = len(process.fault.passed)
    put_between(bench, process)
    assert process.wait().code == 0, process.err
    passed = {(moment, point) for _, moment, point in process.fault.passed[first:]}
    # It waits for more records while it reports the first ones, after all points.
    assert passed == set(product(MOMENTS, PASSED))
    bench.assert_exactly_once()
