"""The role of a stream's settings is that of its client and of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets import KinesisResource, build_kinesis_stream, derived_table
from kinesis_assets.dagster.derived_tables import consumption_of
from support.stream_names import io_manager_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kinesis_assets.dagster.io_manager import ShardIOManager

READER = "arn:aws:iam::111122223333:role/reader"
ARN = "arn:aws:kinesis:eu-west-1:444455556666:stream/clicks"
RUN_ID = "8f0ce1a8-9d2a-4f0c-8a53-0a1b2c3d4e5f"


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint of S3, so that the region of the bucket is not looked up."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")


def manager_of(stream: str = ARN, **settings: Any) -> ShardIOManager:
    definitions = build_kinesis_stream(stream, table="s3://lake/clicks", **settings)
    return (definitions.resources or {})[io_manager_key("clicks")]


def test_without_a_role_none_is_assumed() -> None:
    opened = manager_of().opened
    assert opened.role is None
    assert opened.table.folder.role is None


def test_the_table_and_the_stream_have_the_same_role_with_the_region_of_the_stream() -> None:
    opened = manager_of(role_arn=READER, external_id="shop-4711", profile_name="base").opened
    assert opened.role is not None
    assert opened.table.folder.role == opened.role
    assert (opened.role.arn, opened.role.external_id) == (READER, "shop-4711")
    assert (opened.role.region_name, opened.role.profile_name) == ("eu-west-1", "base")


def test_a_derived_table_has_the_role_of_its_stream() -> None:
    manager = manager_of(role_arn=READER)

    @derived_table(source="clicks", table="s3://lake/orders")
    def orders(rows: DataFrame) -> DataFrame:
        return rows

    consumption = consumption_of(orders)
    assert consumption is not None
    assert consumption.open_table(manager.opened).folder.role == manager.opened.role


def test_a_run_is_in_the_name_of_its_sessions() -> None:
    manager = manager_of(role_arn=READER)
    run = dg.DagsterRun("job", run_id=RUN_ID)
    nothing: Any = None
    context = dg.InitResourceContext({}, nothing, nothing, all_resource_defs={}, dagster_run=run)
    manager.setup_for_execution(context)
    assert manager.opened.role is not None
    assert manager.opened.role.session_name == f"clicks-{RUN_ID}"


def test_without_a_run_the_name_of_its_sessions_says_what_assumes_the_role() -> None:
    role = manager_of(role_arn=READER).opened.role
    assert role is not None
    assert role.session_name == "kinesis-assets-clicks"


def test_a_configured_name_is_that_of_all_sessions() -> None:
    role = manager_of(role_arn=READER, session_name="production").opened.role
    assert role is not None
    assert role.session_name == "production"


def test_a_role_from_an_environment_variable_is_known_when_a_run_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resource = KinesisResource(role_arn=dg.EnvVar("ROLE_OF_THE_TESTS"), external_id="shop-4711")
    monkeypatch.setenv("ROLE_OF_THE_TESTS", READER)
    role = resource.process_config_and_initialize().role_for("clicks")
    assert role is not None
    assert role.arn == READER
