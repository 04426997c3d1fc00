"""Fixtures of the contract's tests: pipelines on HTTP, Spark, Delta and Dagster."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.harness.waiting import SECONDS
from support.formats import raw_table
from support.pipeline import Pipeline
from support.timing import WRITING

if TYPE_CHECKING:
    from collections.abc import Callable

    import dagster as dg
    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.raw_table import PositionedTable
    from support.fixtures.stream import Clocked

KILLED_RUN = Path(__file__).with_name("killed_run.py")


@pytest.fixture
def table(place: str) -> PositionedTable:
    """The table of the pipeline, which its first run creates. A failed commit is retried at once."""
    return raw_table(f"{place}/table", WRITING)


@pytest.fixture
def pipeline(
    stream: str,
    kinesis: Any,
    settings: ClientSettings,
    table: PositionedTable,
    spark: SparkSession,
    ephemeral_instance: dg.DagsterInstance,
) -> Pipeline:
    """A pipeline whose stream the test creates."""
    del spark  # runs in this process share the session
    return Pipeline(kinesis, settings, stream, table, instance=ephemeral_instance)


@pytest.fixture
def clocked_pipeline(
    stream: str,
    clocked: Clocked,
    table: PositionedTable,
    spark: SparkSession,
    ephemeral_instance: dg.DagsterInstance,
) -> Pipeline:
    """A pipeline whose stream the test creates, on a service whose clock the test controls."""
    del spark  # runs in this process share the session
    return Pipeline(
        clocked.kinesis, clocked.settings, stream, table, clocked.clock, instance=ephemeral_instance
    )


@pytest.fixture
def kill_run_at(pipeline: Pipeline) -> Callable[[str], None]:
    """Runs the pipeline in a process of its own, which kills itself at a point: see `killed_run.py`."""

    def kill(point: str) -> None:
        command = [sys.executable, str(KILLED_RUN), point, pipeline.run_in_process()]
        done = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    return kill
