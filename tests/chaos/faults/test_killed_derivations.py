"""A worker of a derivation is killed while it writes a data file, or the driver while columns grow.

`chaos/derived` has the driver's other steps.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from chaos.faults.site.fault_points import Fault
from kinesis_assets.derive.data_files import GROWTH_FOLDER
from kinesis_assets.derive.derivation import Derivation
from support.derived import DerivedBench, identified, identities, numbered
from support.formats import derived_at, source_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chaos.faults.bench import FaultBench


pytestmark = pytest.mark.any_format


@pytest.fixture
def derived(bench: FaultBench, spark: SparkSession, tmp_path: Path) -> DerivedBench:
    """The rows of a table with records of two shards, not derived yet."""
    bench.create(2)
    bench.put_many(60)
    assert bench.run().errors == {}
    derivation = Derivation(bench.table.uri, identified, source_format=source_format(bench.table))
    return DerivedBench(spark, derived_at(str(tmp_path / "derived")), derivation)


def assert_next_run_recovers(bench: FaultBench, derived: DerivedBench) -> None:
    bench.put_many(40)
    assert bench.run().errors == {}
    derived.run()
    assert identities(derived) == Counter(bench.acknowledged)


@pytest.mark.parametrize("point", ["close derived file"])
def test_the_task_of_a_killed_worker_is_retried_and_committed_once(
    bench: FaultBench, derived: DerivedBench, point: str
) -> None:
    process = bench.run_with_fault(
        Fault("", point, "after"), program="one_derivation.py", target=derived.table.uri
    )
    assert process.report == [60]
    assert identities(derived) == Counter(bench.acknowledged)
    written = set(Path(derived.table.uri).glob("*.parquet"))
    assert len(written) > len(derived.table.snapshot().data_files())
    assert_next_run_recovers(bench, derived)


@pytest.mark.thorough
def test_workers_that_die_at_every_attempt_commit_nothing(bench: FaultBench, derived: DerivedBench) -> None:
    fault = Fault("", "write derived file", "after", always=True)
    failed = bench.run_with_fault(fault, program="one_derivation.py", target=derived.table.uri)
    assert failed.err.splitlines()[-1].startswith("LandingFailed"), failed.err
    assert not derived.exists
    assert_next_run_recovers(bench, derived)


@pytest.mark.delta
@pytest.mark.thorough
def test_a_growth_whose_driver_was_killed_between_its_steps_is_continued(
    bench: FaultBench, derived: DerivedBench
) -> None:
    for _ in range(2):
        bench.put_many(10)
        assert bench.run().errors == {}
        derived.run(transform=partial(numbered, "INT"))
    bench.put_many(10)
    assert bench.run().errors == {}
    target = derived.table.uri
    fault = Fault("", "record copies", "after")
    killed = bench.run_with_fault(
        fault, program="one_derivation.py", target=target, kind="BIGINT", max_bytes=1
    )
    assert killed.code == -signal.SIGKILL
    (record,) = Path(target, GROWTH_FOLDER).iterdir()
    copies = {copy["path"] for file in json.loads(record.read_text())["files"] for copy in file["copies"]}
    derived.run(transform=partial(numbered, "BIGINT"), max_bytes=1)
    assert identities(derived) == Counter(bench.acknowledged)
    assert derived.rows["number"].type == pa.int64()
    assert copies <= {file.path for file in derived.table.snapshot().data_files()}, "it was copied again"
