"""Table properties: which can be set by hand, and which are refused because they break guarantees."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.set_properties import SETTABLE, parse_property, set_properties
from support.attempts import (
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    shards,
)


@pytest.mark.parametrize(
    "text",
    [
        "delta.logRetentionDuration=interval 1 days",
        "delta.deletedFileRetentionDuration= 2 weeks ",
        "delta.deletedFileRetentionDuration=interval 24 hours",
        "delta.checkpointInterval=1",
    ],
)
def test_a_safe_property_can_be_set_and_attempts_still_commit(table, text):
    freeze_all(table, shards("a"))
    name, value = parse_property(text)
    attempt = Attempt(table, current_positions(table), {"a": 2})
    set_properties(table, {name: value})
    assert attempt.commit().conflicts == {}
    assert table.snapshot().delta.metadata().configuration[name] == value
    assert name not in DeltaOperations(table).missing_properties()
    assert_rows_are_what_positions_say(table)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("delta.appendOnly=true", "delete rows"),
        ("delta.setTransactionRetentionDuration=interval 1 days", "positions"),
        ("delta.dataSkippingStatsColumns=shard_id", "replay"),
        ("delta.enableDeletionVectors=true", "protocol"),
        ("delta.enableChangeDataFeed=true", "protocol"),
        ("delta.columnMapping.mode=name", "protocol"),
        ("delta.checkpointPolicy=v2", "protocol"),
        ("delta.minWriterVersion=7", "protocol"),
        ("delta.feature.timestampNtz=supported", "protocol"),
        ("delta.isolationLevel=Serializable", "different shards"),
        ("delta.nonsense=1", "not known to be safe"),
        ("kinesis_assets.maintenance=1", "not known to be safe"),
        ("delta.LogRetentionDuration=interval 7 days", "not known to be safe"),
    ],
)
def test_an_unsafe_property_is_refused_with_the_reason_and_the_allowed_ones(text, reason):
    with pytest.raises(InvalidInput, match=reason) as refused:
        parse_property(text)
    assert ", ".join(SETTABLE) in str(refused.value)


@pytest.mark.parametrize("name", ["delta.deletedFileRetentionDuration", "delta.logRetentionDuration"])
def test_retention_properties_of_less_than_a_day_are_refused(name):
    with pytest.raises(InvalidInput, match="1 day"):
        parse_property(f"{name}=interval 23 hours")


@pytest.mark.parametrize(
    "text",
    [
        "delta.checkpointInterval=0",
        "delta.checkpointInterval=-1",
        "delta.checkpointInterval=",
        "delta.checkpointInterval",
        "delta.checkpointInterval=1_0",
        "delta.logRetentionDuration=a week",
        "delta.logRetentionDuration=interval 1 month",
        "delta.logRetentionDuration=interval 999999999 weeks",
        "=1",
        "",
    ],
)
def test_an_invalid_property_or_value_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_property(text)
