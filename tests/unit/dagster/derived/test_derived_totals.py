"""Rows, size and columns of derived tables, and what they gave up, in their events."""

from __future__ import annotations

import msgspec
import pytest

from kinesis_assets.dagster.derived.derived_events import (
    READ_INTERVAL,
    RunningTotals,
    derived_metadata,
    totals_of_table,
)
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.policy import DeletedRows, Deletion, OnDeleted
from support.plain_derived import PlainDerived
from support.virtual_time import VirtualTime


@pytest.fixture
def derived(tmp_path) -> PlainDerived:
    return PlainDerived(tmp_path / "numbers")


def test_the_event_has_the_rows_and_the_columns_of_the_table(derived):
    derived.append((1, 1, "a"), (2, 2, "b"))
    derived.upsert((2, 3, "b"))
    facts = totals_of_table(derived.table)
    assert (facts["dagster/row_count"], facts["dagster/size_bytes"] > 0) == (2, True)
    columns = {column.name: column for column in facts["dagster/column_schema"].columns}
    assert {name: column.type for name, column in columns.items()} == {
        "key": "bigint",
        "value": "bigint",
        "part": "string",
        "_batch_id": "bigint",
    }
    assert "commit" in columns["_batch_id"].description


def test_a_table_that_cannot_be_read_leaves_the_event_without_them(tmp_path):
    assert totals_of_table(DerivedTable(str(tmp_path / "nothing"))) == {}


def test_a_continuous_run_counts_on_and_reads_the_log_once_a_minute(derived):
    time = VirtualTime()
    totals = RunningTotals(derived.table, time.monotonic)
    counts = [totals.after(derived.append((1, 1, "a")))["dagster/row_count"]]
    derived.append((7, 7, "a"))  # by another run
    counts.append(totals.after(derived.append((2, 2, "a"), (3, 3, "a")))["dagster/row_count"])
    counts.append(totals.after(derived.upsert((3, 4, "a")))["dagster/row_count"])
    time.now += READ_INTERVAL
    counts.append(totals.after(derived.append((4, 4, "a")))["dagster/row_count"])
    assert counts == [1, 3, 3, 5]


def test_the_event_has_what_its_commits_gave_up_and_the_policies_that_decided(derived):
    expired = DeletedRows(deletion=Deletion.EXPIRED, rows=3, batch_id=7)
    again = DeletedRows(deletion=Deletion.ADDED_AGAIN, rows=2, batch_id=8)
    unknown = DeletedRows(deletion=Deletion.REWOUND)
    decided = [(OnDeleted.IGNORE, (expired, again)), (OnDeleted.REBUILD, (expired, unknown)), (None, ())]
    commits = [
        msgspec.structs.replace(derived.append((1, 1, "a")), on_deleted=policy, given_up=given_up)
        for policy, given_up in decided
    ]
    facts = derived_metadata(commits)
    assert facts["given up"] == f"{expired}; {again}; {unknown}"
    assert (facts["rows given up"], facts["on deleted"]) == (5, "ignore, rebuild")
    assert not {"given up", "rows given up", "on deleted"} & derived_metadata(commits[2:]).keys()
