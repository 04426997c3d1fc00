"""Tables for tests of maintenance."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS
from kinesis_assets.table.policy import VACUUM_RETENTION
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import Attempt, current_positions, freeze_all, land, records, shards
from support.table_folder import copy_table, set_age
from support.timing import WRITING


@pytest.fixture
def empty(table):
    """A table with the initial positions of shards a and b."""
    freeze_all(table, shards("a", "b"))
    return table


@pytest.fixture(scope="session")
def original_busy(tmp_path_factory):
    table = PositionedTable(str(tmp_path_factory.mktemp("busy") / "table"), WRITING)
    freeze_all(table, shards("a", "b"))
    for _ in range(2 * DEFAULT_LIMITS.small_files):
        Attempt(table, current_positions(table), {"a": 3, "b": 2}).commit()
    return table


@pytest.fixture
def busy(original_busy, table):
    """A table with many small files of a past day."""
    return copy_table(original_busy, table)


@pytest.fixture(scope="session")
def original_filled(tmp_path_factory):
    table = PositionedTable(str(tmp_path_factory.mktemp("filled") / "table"), WRITING)
    freeze_all(table, shards("a"))
    for _ in range(3):
        Attempt(table, current_positions(table), {"a": 2}).commit()
    (orphan,) = land(table, new_id(), {"a": records(100, 1)})
    set_age(table, VACUUM_RETENTION + timedelta(hours=1), orphan.path)
    DeltaOperations(table).checkpoint()
    return table


@pytest.fixture
def filled(original_filled, table):
    """A table with rows that arrived ten days before `NOW`, and an old uncommitted file."""
    return copy_table(original_filled, table)
