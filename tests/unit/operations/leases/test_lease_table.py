"""Calls to a DynamoDB table: all pages of a scan, and the errors of calls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from kinesis_assets.errors import InvalidInput, LeaseTableFailed, RoleNotAssumed
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.operations.leases import lease_table
from kinesis_assets.operations.leases.lease_table import LeaseTable

FIRST, SECOND = {"leaseKey": {"S": "a"}}, {"leaseKey": {"S": "b"}}


@pytest.fixture
def table_with(monkeypatch):
    """Return a table whose client has the given operations."""

    def table_with(**operations):
        client = SimpleNamespace(**operations)
        monkeypatch.setattr(lease_table, "sdk_client", lambda *_: client)
        return LeaseTable("clicks-app", ClientSettings())

    return table_with


def error_of(code):
    return ClientError({"Error": {"Code": code, "Message": "why"}}, "Scan")


def raising(error):
    def call(**_):
        raise error

    return call


def test_all_pages_of_a_consistent_scan_are_read(table_with):
    pages = {None: {"Items": [FIRST], "LastEvaluatedKey": FIRST}, "a": {"Items": [SECOND]}}
    asked = []

    def scan(**arguments):
        asked.append(arguments)
        start = arguments.get("ExclusiveStartKey")
        return pages[start and start["leaseKey"]["S"]]

    assert table_with(scan=scan).items() == [FIRST, SECOND]
    assert asked == [
        {"TableName": "clicks-app", "ConsistentRead": True},
        {"TableName": "clicks-app", "ConsistentRead": True, "ExclusiveStartKey": FIRST},
    ]


def test_a_page_without_items_is_not_the_last_one(table_with):
    pages = iter([{"Items": [], "LastEvaluatedKey": FIRST}, {"Items": [SECOND]}])
    assert table_with(scan=lambda **_: next(pages)).items() == [SECOND]


def test_a_scan_that_repeats_a_page_fails(table_with):
    table = table_with(scan=lambda **_: {"Items": [FIRST], "LastEvaluatedKey": FIRST})
    with pytest.raises(LeaseTableFailed, match="the same page twice"):
        table.items()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (error_of("AccessDeniedException"), "dynamodb:Scan"),
        (error_of("ResourceNotFoundException"), "aws dynamodb create-table --table-name clicks-app"),
        (error_of("ProvisionedThroughputExceededException"), "Raise its capacity, or run again"),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), "EndpointConnectionError"),
        (RoleNotAssumed("the role cannot be assumed", advice="Run again"), "Run again"),
    ],
)
def test_a_failed_call_names_the_table_and_what_to_do(table_with, error, reason):
    with pytest.raises(LeaseTableFailed, match="lease table clicks-app") as failed:
        table_with(scan=raising(error)).items()
    assert reason in str(failed.value)


def test_a_failed_write_is_an_error_unless_its_condition_is_false(table_with):
    table = table_with(
        put_item=raising(error_of("ProvisionedThroughputExceededException")),
        update_item=raising(error_of("ConditionalCheckFailedException")),
    )
    with pytest.raises(LeaseTableFailed, match="PutItem failed"):
        table.put(FIRST, "leaseKey")
    assert not table.update(FIRST, {"a": {"N": "1"}}, [], {"leaseCounter": {"N": "1"}})


def test_invalid_settings_are_bad_input():
    with pytest.raises(InvalidInput, match="lease table clicks-app"):
        LeaseTable("clicks-app", ClientSettings(endpoint_url="no url"))
