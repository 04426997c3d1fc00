"""The catalogs of the tests: tables are stored, one of two commits wins, faults happen where a test says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from support.iceberg import catalogs
from support.iceberg.fault_proxy import (
    CONFLICT_AFTER_SUCCESS,
    ERROR_AFTER_SUCCESS,
    LOST_REQUEST,
    LOST_RESPONSE,
    FaultProxy,
)
from support.iceberg.plain_table import arrow_of, commit, create


def load(catalog):
    return catalog.load().load_table(f"{catalog.namespace}.orders")


def items(table):
    return sorted(table.scan().to_arrow()["item"].to_pylist())


@pytest.fixture
def proxied(rest_catalog):
    """A proxy, and the catalog behind it."""
    with FaultProxy(rest_catalog.properties["uri"]) as proxy:
        yield proxy, catalogs.over_rest(proxy.url, {})


def test_rows_that_were_appended_are_read(iceberg_catalog):
    create(iceberg_catalog).append(arrow_of(range(3)))
    assert items(load(iceberg_catalog)) == [0, 1, 2]


def test_a_commit_on_an_older_snapshot_is_refused(iceberg_catalog):
    table = create(iceberg_catalog)
    load(iceberg_catalog).append(arrow_of([1]))
    with pytest.raises(CommitFailedException, match="main"):
        commit(table, writer="late")
    assert "writer" not in load(iceberg_catalog).properties


def test_a_warehouse_can_be_in_a_bucket(rest_catalog_in_bucket):
    table = create(rest_catalog_in_bucket)
    table.append(arrow_of(range(3)))
    assert items(load(rest_catalog_in_bucket)) == [0, 1, 2]
    assert table.location().startswith("s3://")


@pytest.mark.parametrize(
    ("fault", "error", "lands"),
    [
        (LOST_RESPONSE, requests.ConnectionError, True),
        (LOST_REQUEST, requests.ConnectionError, False),
        (CONFLICT_AFTER_SUCCESS, CommitFailedException, True),
        (ERROR_AFTER_SUCCESS, CommitStateUnknownException, True),
    ],
)
def test_a_commit_fails_with_or_without_success(proxied, fault, error, lands):
    proxy, catalog = proxied
    table = create(catalog)
    proxy.faults.append(fault)
    with pytest.raises(error):
        commit(table, writer="unlucky")
    assert ("writer" in load(catalog).properties) == lands
    commit(load(catalog), writer="lucky")
    assert len(proxy.commits) == 2


def test_a_table_is_loaded_as_it_was(proxied):
    proxy, catalog = proxied
    commit(create(catalog), writer="first")
    before = load(catalog)
    commit(before, writer="second")
    with proxy.stale():
        assert load(catalog).properties["writer"] == "first"
    assert load(catalog).properties["writer"] == "second"


def test_commits_are_delayed(proxied):
    proxy, catalog = proxied
    table = create(catalog)
    with ThreadPoolExecutor() as pool:
        with proxy.delayed():
            done = pool.submit(commit, table, writer="delayed")
            proxy.wait_for_commit()
            assert "writer" not in load(catalog).properties
        done.result()
    assert load(catalog).properties["writer"] == "delayed"
