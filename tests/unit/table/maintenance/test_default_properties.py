"""Properties of new tables, and of tables of older releases."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable, Schema

from kinesis_assets.table.data_file import PARTITION_COLUMNS, STATISTICS, TABLE_SCHEMA
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.steps import State
from support.attempts import freeze_all, shards
from support.maintained_table import steps_of


def test_a_new_table_declares_its_log_retention_and_statistics_columns(empty):
    configuration = DeltaTable(empty.folder.uri).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 1 days"
    assert configuration["delta.deletedFileRetentionDuration"] == "interval 1 days"
    assert configuration["delta.dataSkippingStatsColumns"].split(",") == STATISTICS


def create_with(table, properties):
    """Create the table as an older release did."""
    DeltaTable.create(
        table.folder.uri,
        Schema.from_arrow(TABLE_SCHEMA),
        partition_by=PARTITION_COLUMNS,
        configuration=properties,
    )


def test_an_older_table_gets_only_its_missing_properties(table):
    create_with(table, {"delta.logRetentionDuration": "interval 90 days"})
    freeze_all(table, shards("a"))
    (step,) = [step for (name, _), step in steps_of(table).items() if name == "set properties"]
    assert step.of == "delta.checkpointInterval, delta.dataSkippingStatsColumns"
    assert step.state is State.DONE
    configuration = DeltaTable(table.folder.uri).metadata().configuration
    assert configuration["delta.logRetentionDuration"] == "interval 90 days"
    assert configuration["delta.dataSkippingStatsColumns"].split(",") == STATISTICS


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ({}, {"delta.logRetentionDuration", "delta.deletedFileRetentionDuration"}),
        ({"delta.logRetentionDuration": "interval 1 days"}, {"delta.deletedFileRetentionDuration"}),
        ({"delta.logRetentionDuration": "interval 7 days"}, set()),
        ({"delta.deletedFileRetentionDuration": "interval 30 days"}, set()),
    ],
)
def test_an_older_table_keeps_its_longer_history_retention(table, own, missing):
    create_with(table, own)
    missing_properties = DeltaOperations(table).missing_properties().keys()
    assert {name for name in missing_properties if "Retention" in name} == missing
