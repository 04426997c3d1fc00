"""Streams whose records are read and replayed on a hostile server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from kinesis_assets.table.raw_table import PositionedTable
from support.hostile_spark import HostileBench
from support.table_folder import copy_table
from support.timing import READING, WRITING

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings


@pytest.fixture(scope="session")
def unread(kinesis: Any, settings: ClientSettings, tmp_path_factory: pytest.TempPathFactory) -> HostileBench:
    """Two shards with three records each, the first of which was read. For tests that commit nothing."""
    table = PositionedTable(str(tmp_path_factory.mktemp("unread") / "table"), WRITING)
    bench = HostileBench(kinesis, replace(settings, timing=READING), "unread", table)
    for shard_id in bench.create(2):
        bench.put(0, 1, 2, shard_id=shard_id)
    bench.run(max_records=1)
    return bench


def with_copied_table(bench: HostileBench, table: PositionedTable) -> HostileBench:
    return replace(bench, table=copy_table(bench.table, table))


@pytest.fixture
def partly_read(unread: HostileBench, table: PositionedTable) -> HostileBench:
    """As `unread`, with a table of its own."""
    return with_copied_table(unread, table)


@pytest.fixture(scope="session")
def emptied(unread: HostileBench, tmp_path_factory: pytest.TempPathFactory) -> HostileBench:
    """Six records that were read, and a table that lost their rows. For tests that commit nothing."""
    bench = with_copied_table(
        unread, PositionedTable(str(tmp_path_factory.mktemp("emptied") / "table"), WRITING)
    )
    bench.run()
    DeltaTable(bench.table.uri).delete()
    return bench


@pytest.fixture
def replayable(emptied: HostileBench, table: PositionedTable) -> HostileBench:
    """As `emptied`, with a table of its own."""
    return with_copied_table(emptied, table)
