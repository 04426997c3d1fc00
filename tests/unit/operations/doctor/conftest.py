"""Streams and tables that a doctor examines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.table.raw_table import PositionedTable
from support.doctor_bench import DoctorBench
from support.table_folder import copy_table
from support.timing import READING, WRITING

if TYPE_CHECKING:
    import dagster as dg


@pytest.fixture
def bench(kinesis, settings, stream: str, table: PositionedTable) -> DoctorBench:
    """A stream that the test creates, and a table that does not exist yet."""
    return DoctorBench(kinesis, replace(settings, timing=READING), stream, table)


@pytest.fixture
def growing(bench: DoctorBench) -> DoctorBench:
    """Two shards that were read in three commits, in a stream that the test may change."""
    bench.ingest()
    return bench


@pytest.fixture(scope="session")
def original_ingested(kinesis, settings, tmp_path_factory: pytest.TempPathFactory) -> DoctorBench:
    table = PositionedTable(str(tmp_path_factory.mktemp("ingested") / "table"), WRITING)
    bench = DoctorBench(kinesis, replace(settings, timing=READING), "ingested", table)
    bench.ingest()
    return bench


@pytest.fixture
def ingested(original_ingested: DoctorBench, table: PositionedTable) -> DoctorBench:
    """Two shards that were read in three commits, and a table of its own; the stream is shared."""
    return replace(original_ingested, table=copy_table(original_ingested.table, table))


@pytest.fixture
def instance(instance_in_memory: dg.DagsterInstance) -> dg.DagsterInstance:
    """An empty Dagster instance for each test."""
    return instance_in_memory
