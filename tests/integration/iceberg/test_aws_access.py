"""Who calls AWS Glue or a REST catalog for Iceberg tables, and in which region. Glue is moto's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import dagster as dg
import pytest

from kinesis_assets import build_kinesis_stream, derived_table
from kinesis_assets.dagster.checks.derived_evaluation import DerivedState
from kinesis_assets.dagster.derived_tables import checked_tables, consumption_of
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import TableUnreachable
from support.iceberg.fault_proxy import FaultProxy
from support.token_service import BASE_KEY, EXTERNAL_ID, ROLE

if TYPE_CHECKING:
    from pathlib import Path

    from kinesis_assets.kinesis.role import AssumedRole
    from support.http_service import Reply, Request
    from support.token_service import TokenService

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
    merged = dg.Definitions.merge(definitions, dg.Definitions(assets=[ids])).get_repository_def()
    with StreamProject("clicks", definitions).open_stream() as opened:
        assert opened.table.create_if_missing().version == 0
        created = consumption.open_table(opened).open_or_create("source", COLUMNS, [])
        (checked,) = checked_tables(merged.assets_defs_by_key, opened)
    found = DerivedState.of(checked).snapshot
    assert found is not None
    assert found.id == created.id
    assert [places_of(each["database"]) for each in (raw, derived)] == [[place], [place]]


@dataclass
class SigningProxy(FaultProxy):
    """A proxy before a REST catalog that requires the signatures of AWS.

    Attributes:
        scopes: The access key, the region and the service of each signature.
    """

    scopes: set[tuple[str, ...]] = field(default_factory=set)

    def reply(self, request: Request) -> Reply | None:
        signed = re.match(
            r"AWS4-HMAC-SHA256 Credential=(\w+)/\d+/([\w-]+)/([\w-]+)/aws4_request",
            request.headers.get("Authorization", ""),
        )
        if signed is None:
            return self.error(HTTPStatus.FORBIDDEN)
        self.scopes.add(signed.groups())
        return super().reply(request)


@pytest.mark.parametrize(
    ("stream", "catalog", "region", "is_of_role"),
    [
        ({}, {}, "eu-west-1", False),
        ({"role_arn": ROLE, "external_id": EXTERNAL_ID}, {}, "eu-west-1", True),
        (
            {},
            {"role_arn": ROLE, "external_id": EXTERNAL_ID, "region_name": "eu-central-1"},
            "eu-central-1",
            True,
        ),
    ],
    ids=["process", "role of the stream", "role and region of the catalog"],
)
def test_requests_to_a_rest_catalog_are_signed_as_the_catalog_says_and_else_as_the_stream(
    tmp_path: Path,
    rest_url: str,
    role: AssumedRole,
    sts: TokenService,
    stream: dict[str, Any],
    catalog: dict[str, Any],
    region: str,
    is_of_role: bool,
) -> None:
    del role
    with SigningProxy(rest_url) as proxy:
        signed = {"rest.sigv4-enabled": "true", "rest.signing-name": "glue"}
        database = f"lake_{uuid4().hex}"
        definitions = build_kinesis_stream(
            "clicks",
            table=str(tmp_path / "clicks"),
            region_name="eu-west-1",
            format="iceberg",
            catalog={"type": "rest", "uri": proxy.url, "database": database, **signed, **catalog},
            **stream,
        )
        with StreamProject("clicks", definitions).open_stream() as opened:
            assert opened.table.create_if_missing().version == 0
    keys = {key for key, *_ in proxy.scopes}
    assert {tuple(scope) for _, *scope in proxy.scopes} == {(region, "glue")}
    assert keys <= sts.expirations.keys() if is_of_role else keys == {BASE_KEY}


def test_a_role_that_cannot_be_assumed_is_named_when_a_rest_catalog_is_opened(
    tmp_path: Path, rest_url: str, role: AssumedRole
) -> None:
    del role
    definitions = build_kinesis_stream(
        "clicks",
        table=str(tmp_path / "clicks"),
        format="iceberg",
        catalog={
            "type": "rest",
            "uri": rest_url,
            "database": "lake",
            "rest.sigv4-enabled": "true",
            "role_arn": ROLE,
        },
    )
    with (
        StreamProject("clicks", definitions).open_stream() as opened,
        pytest.raises(TableUnreachable, match=f"role {ROLE} cannot be assumed"),
    ):
        opened.table.create_if_missing()
