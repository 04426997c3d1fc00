"""The catalogs of the tests: tables are stored, one of two commits wins, faults happen where a test says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import requests
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ForbiddenError

from support.iceberg import catalogs
from support.iceberg.fault_proxy import (
    CONFLICT_AFTER_SUCCESS,
    ERROR_AFTER_SUCCESS,
    LOST_REQUEST,
    LOST_RESPONSE,
)
from support.iceberg.plain_table import arrow_of, commit, create


def load(catalog):
    return catalog.load().load_table(f"{catalog.namespace}.orders")


def items(table):
    return sorted(table.scan().to_arrow()["item"].to_pylist())


@pytest.fixture
def proxied(rest_proxy):
    """A proxy, and the catalog behind it."""
    return rest_proxy, catalogs.over_rest(rest_proxy.url, {})


@pytest.fixture(params=["glue", "s3tables"])
def aws_catalog(request):
    return request.getfixturevalue(f"{request.param}_catalog")


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


def test_the_catalogs_of_aws_refuse_a_commit_on_an_older_snapshot(aws_catalog):
    create(aws_catalog).append(arrow_of(range(3)))
    table = load(aws_catalog)
    load(aws_catalog).append(arrow_of([7]))
    with pytest.raises(CommitFailedException, match="main"):
        commit(table, writer="late")
    assert items(load(aws_catalog)) == [0, 1, 2, 7]


def test_glue_refuses_an_update_of_an_older_version(glue_proxy, glue_catalog):
    table = create(glue_catalog)
    with ThreadPoolExecutor() as pool:
        with glue_proxy.delayed():
            late = [pool.submit(commit, load(glue_catalog), **{name: "set"}) for name in ("a", "b")]
            for _ in late:
                glue_proxy.wait_for_commit()
        errors = [each.exception() for each in late]
    assert sorted(map(type, errors), key=str) == [type(None), CommitFailedException]
    assert len({"a", "b"} & load(glue_catalog).properties.keys()) == 1
    assert table.metadata.last_updated_ms < load(glue_catalog).metadata.last_updated_ms


def test_a_lost_response_of_glue_looks_like_a_conflict_because_the_sdk_tries_again(glue_proxy, glue_catalog):
    create(glue_catalog)
    glue_proxy.faults.append(LOST_RESPONSE)
    with pytest.raises(CommitFailedException, match="concurrent update"):
        commit(load(glue_catalog), writer="unlucky")
    assert load(glue_catalog).properties["writer"] == "unlucky"


def test_a_table_bucket_refuses_requests_without_a_signature(s3tables_catalog):
    unsigned = replace(
        s3tables_catalog, properties={**s3tables_catalog.properties, "rest.sigv4-enabled": "false"}
    )
    with pytest.raises(ForbiddenError):
        unsigned.load()
