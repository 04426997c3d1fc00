"""A run that follows, killed at any point of a later look: the next run leaves each record exactly once.

What it has from the look before (its list of shards, the position at which it left each) dies with it.
"""

from __future__ import annotations

import signal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.faults.bench import await_true
from chaos.faults.site.fault_points import DRIVER, MOMENTS, WORKER, Fault

if TYPE_CHECKING:
    from chaos.faults.bench import FaultBench, Process

TOLD, MORE = "told", "more"
"""See `one_follow.py`."""

PASSED = (DRIVER | WORKER).keys() - {"create table", "freeze"}
"""What a look passes once there are a table and positions."""

WRITING = {"close data file", "open positions file", "commit request"}
"""After the others, all outside is as it is before the next."""

KILLS = [
    Fault("", point, moment, since=MORE)
    for point, moment in product(sorted(PASSED), MOMENTS)
    if moment == "before" or point in WRITING
]


def put_between(bench: FaultBench, process: Process) -> None:
    """Put the records of the later looks after the first."""
    folder = Path(process.fault.folder)
    await_true((folder / TOLD).exists)
    bench.put_many(40)
    (folder / MORE).touch()


@pytest.mark.parametrize("fault", KILLS, ids=str)
def test_the_run_after_one_that_followed_leaves_each_record_exactly_once(
    bench: FaultBench, fault: Fault
) -> None:
    bench.create(2)
    bench.put_many(20)
    process = bench.begin(fault, program="one_follow.py")
    put_between(bench, process)
    assert process.wait().code == -signal.SIGKILL, process.err
    bench.put_many(20)
    bench.assert_next_run_mends_all()


def test_every_point_is_passed_in_a_later_look(bench: FaultBench) -> None:
    bench.create(2)
    bench.put_many(20)
    process = bench.begin(Fault(""), program="one_follow.py")
    await_true((Path(process.fault.folder) / TOLD).exists)
    first = len(process.fault.passed)
    put_between(bench, process)
    assert process.wait().code == 0, process.err
    passed = {(moment, point) for _, moment, point in process.fault.passed[first:]}
    # It waits for more records in the midst of what tells of the first ones, after all points.
    assert passed == set(product(MOMENTS, PASSED))
    bench.assert_exactly_once()
