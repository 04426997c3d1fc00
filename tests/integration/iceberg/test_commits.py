"""Commits of raw tables in each catalog, and requests to a REST catalog that fail in each way."""

from __future__ import annotations

from functools import partial

import pytest

from kinesis_assets.table.iceberg.catalog import IcebergCatalog
from kinesis_assets.table.iceberg.raw_table import IcebergFormat
from kinesis_assets.table.table import PositionedTable
from support.attempts import (
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    shards,
)
from support.formats import iceberg_of
from support.iceberg import fault_proxy
from support.timing import WRITING


def table_in(catalog, folder, **changes):
    """Return a raw table in a catalog, of which three snapshots are kept."""
    named = {"type": "", "uri": None, "warehouse": None}
    properties = dict(catalog.properties) | changes
    settings = {name: properties.pop(name, default) for name, default in named.items()}
    found = IcebergCatalog(
        settings["type"],
        catalog.namespace,
        "orders",
        uri=settings["uri"],
        warehouse=settings["warehouse"],
        properties=properties,
        catalog_name=catalog.name,
        snapshots_kept=3,
    )
    return PositionedTable(str(folder / "orders"), WRITING, format=partial(IcebergFormat, catalog=found))


def test_runs_commit_in_each_catalog(iceberg_catalog, tmp_path):
    table = table_in(iceberg_catalog, tmp_path)
    frozen = freeze_all(table, shards("a", "b"))
    first, second = Attempt(table, frozen, {"a": 3}), Attempt(table, frozen, {"b": 2})
    stale = Attempt(table, frozen, {"a": 1})
    assert [first.commit().version, second.commit().version] == [2, 3]
    assert stale.commit().conflicts.keys() == {"a"}
    for _ in range(3):
        Attempt(table, current_positions(table), {"a": 1}).commit()
    assert [each.sequence_number for each in iceberg_of(table).snapshots()] == [4, 5, 6]
    assert_rows_are_what_positions_say(table)


@pytest.mark.parametrize(
    "fault",
    [
        fault_proxy.LOST_RESPONSE,
        fault_proxy.LOST_REQUEST,
        fault_proxy.CONFLICT_AFTER_SUCCESS,
        fault_proxy.ERROR_AFTER_SUCCESS,
        fault_proxy.UNAVAILABLE,
    ],
)
def test_a_request_that_fails_commits_once(rest_catalog, rest_url, tmp_path, fault):
    with fault_proxy.FaultProxy(rest_url) as proxy:
        table = table_in(rest_catalog, tmp_path, uri=proxy.url)
        frozen = freeze_all(table, shards("a"))
        sent = len(proxy.commits)
        proxy.faults.append(fault)
        assert Attempt(table, frozen, {"a": 3}).commit().version == 2
        assert len(proxy.commits) - sent == (1 if fault.lands else 2)
        assert_rows_are_what_positions_say(table)
