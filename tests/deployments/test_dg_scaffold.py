"""`dg scaffold defs` writes a YAML that passes `dg check`, and `dg list` shows the components."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml

from kinesis_assets import KinesisStreamComponent
from kinesis_assets.testing import LocalKinesis
from support.dg_project import DgProject
from support.fixtures.stream import boto3_of
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAM, TABLE, ACCOUNT = (f"kinesis_assets.Kinesis{kind}Component" for kind in ("Stream", "Table", "Account"))

INVALID = f"""\
type: {STREAM}
attributes:
  stream: orders
  table: orders
  on_data_loss: ignore
  max_records: many
"""


@pytest.fixture
def project(tmp_path: Path) -> DgProject:
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    return DgProject.create(tmp_path, env | {"LAKE": "s3://lake"})


def test_scaffolded_components_pass_their_own_checks(project: DgProject) -> None:
    stream = ("--stream", "orders", "--table", "{{ env.LAKE }}/orders", "--start", "LATEST")
    project.checked("scaffold", "defs", STREAM, "orders", *stream, "--max-records", "1000")
    columns = ("--record-format", "json", "--schema", "order_id BIGINT, at TIMESTAMP")
    upsert = ("--key", "order_id", "--order-by", "at", "--max-bad-share", "0.1")
    table = ("--source", "orders", "--table", "s3://lake/typed")
    project.checked("scaffold", "defs", TABLE, "typed_orders", *table, *columns, *upsert)

    assert yaml.safe_load((project.defs / "orders" / "defs.yaml").read_text()) == {
        "type": STREAM,
        "attributes": {
            "stream": "orders",
            "table": "{{ env.LAKE }}/orders",
            "start": "LATEST",
            "max_records": 1000,
        },
    }
    assert yaml.safe_load((project.defs / "typed_orders" / "defs.yaml").read_text()) == {
        "type": TABLE,
        "attributes": {
            "name": "typed_orders",
            "source": "orders",
            "table": "s3://lake/typed",
            "key": ["order_id"],
            "order_by": ["at"],
            "max_bad_share": 0.1,
            "format": "json",
            "schema": "order_id BIGINT, at TIMESTAMP",
        },
    }
    assert "validated successfully" in project.checked("check", "yaml")
    assert "typed_orders" in project.checked("list", "defs")  # it loads all definitions


def test_a_setting_that_does_not_fit_is_refused_and_writes_nothing(project: DgProject) -> None:
    done = project.dg("scaffold", "defs", STREAM, "clicks", "--stream", "page views", "--table", "clicks")
    assert done.returncode != 0
    assert_mentions(done.stdout, "stream name", "'page views'")
    assert not list(project.defs.iterdir())


def test_check_yaml_names_the_line_and_the_choices(project: DgProject) -> None:
    path = project.defs / "orders" / "defs.yaml"
    path.parent.mkdir()
    path.write_text(INVALID)
    line = INVALID.splitlines().index("  on_data_loss: ignore") + 1
    done = project.dg("check", "yaml")
    assert done.returncode != 0
    assert f"defs.yaml:{line}" in done.stdout
    assert "'ignore'" in done.stdout
    assert f"defs.yaml:{line + 1}" in done.stdout
    assert "'many'" in done.stdout


@pytest.mark.thorough
def test_the_components_are_listed_with_their_summaries(project: DgProject) -> None:
    listed = project.checked("list", "components", "--json")
    for name in (STREAM, TABLE, ACCOUNT):
        assert f'"{name}"' in listed
    assert str(KinesisStreamComponent.__doc__).splitlines()[0] in listed


@pytest.fixture
def shop() -> Iterator[LocalKinesis]:
    with LocalKinesis() as local:
        for name in ("shop-orders", "shop-clicks", "other"):
            boto3_of(local).create_stream(StreamName=name, ShardCount=1)
        yield local


@pytest.mark.thorough
def test_the_streams_of_an_account_are_listed_by_dg(project: DgProject, shop: LocalKinesis) -> None:
    connection = ("--endpoint-url", shop.endpoint_url, "--region-name", shop.region)
    settings = ("--table", "lake/{stream}_raw", "--stream-names", "shop-*", *connection)
    project.checked("scaffold", "defs", ACCOUNT, "shop", *settings)
    assert "shop-orders" not in project.checked("utils", "refresh-defs-state")
    listed = project.checked("list", "defs", "--json")
    for name in ("shop-orders", "shop-clicks"):
        assert f"kinesis/{name}_raw" in listed
    assert "other" not in listed
