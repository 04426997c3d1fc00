"""Who calls AWS Glue for Iceberg tables, and in which region. Glue and STS are moto's."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest

from kinesis_assets import build_kinesis_stream, derived_table
from kinesis_assets.dagster.consumption import consumption_of
from kinesis_assets.dagster.in_process import StreamProject

if TYPE_CHECKING:
    from pathlib import Path

PROCESS, STREAM, CATALOG = "123456789012", "111122223333", "444455556666"
"""The accounts of the process, of the role of the stream and of the role of the catalog."""

COLUMNS = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}

REGIONS = ("eu-west-1", "eu-central-1")
"""The region of the stream, and another one."""


def role_in(account: str) -> str:
    return f"arn:aws:iam::{account}:role/lake"


@pytest.fixture
def endpoint(moto: str, no_kept_credentials: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """The endpoint of moto, to which the environment leads."""
    del no_kept_credentials
    for service in ("GLUE", "STS"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", moto)
    return moto


def places_of(database: str) -> list[tuple[str, str]]:
    """Return the accounts and regions whose Glue has a database."""
    found = []
    for account, region in product((PROCESS, STREAM, CATALOG), REGIONS):
        sts = boto3.client("sts", region_name=region)
        keys = sts.assume_role(RoleArn=role_in(account), RoleSessionName="tests")["Credentials"]
        glue = boto3.client(
            "glue",
            region_name=region,
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )
        if any(each["Name"] == database for each in glue.get_databases()["DatabaseList"]):
            found.append((account, region))
    return found


@pytest.mark.parametrize(
    ("stream", "catalog", "place"),
    [
        ({}, {}, (PROCESS, "eu-west-1")),
        ({"role_arn": role_in(STREAM)}, {}, (STREAM, "eu-west-1")),
        ({"role_arn": role_in(STREAM)}, {"region_name": "eu-central-1"}, (STREAM, "eu-central-1")),
        ({"role_arn": role_in(STREAM)}, {"role_arn": role_in(CATALOG)}, (CATALOG, "eu-west-1")),
        (
            {},
            {"role_arn": role_in(CATALOG), "external_id": "shop", "region_name": "eu-central-1"},
            (CATALOG, "eu-central-1"),
        ),
    ],
    ids=["process", "stream", "region of the catalog", "role of the catalog", "both of the catalog"],
)
def test_tables_are_created_as_the_catalog_says_and_else_as_the_stream(
    tmp_path: Path, endpoint: str, stream: dict[str, Any], catalog: dict[str, Any], place: tuple[str, str]
) -> None:
    del endpoint
    raw, derived = ({"type": "glue", "database": f"lake_{uuid4().hex}", **catalog} for _ in range(2))
    definitions = build_kinesis_stream(
        "clicks",
        table=str(tmp_path / "clicks"),
        region_name="eu-west-1",
        format="iceberg",
        catalog=raw,
        **stream,
    )

    @derived_table(source="clicks", table=str(tmp_path / "ids"), table_format="iceberg", catalog=derived)
    def ids(rows):
        return rows

    consumption = consumption_of(ids)
    assert consumption is not None
    with StreamProject("clicks", definitions).open_stream() as opened:
        assert opened.table.create_if_missing().version == 0
        created = consumption.open_table(opened).open_or_create("source", COLUMNS, [])
    assert created.version == 0
    assert [places_of(each["database"]) for each in (raw, derived)] == [[place], [place]]
