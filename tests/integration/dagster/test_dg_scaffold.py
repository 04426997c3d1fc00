"""`dg scaffold defs` writes a YAML that passes `dg check`, and `dg list` shows the components."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml

from support.dg_project import DgProject

if TYPE_CHECKING:
    from pathlib import Path

STREAM, TABLE = "kinesis_assets.KinesisStreamComponent", "kinesis_assets.KinesisTableComponent"


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
    assert "All definitions loaded successfully" in project.checked("check", "defs")
    assert "typed_orders" in project.checked("list", "defs")


def test_settings_that_do_not_fit_are_refused_and_write_nothing(project: DgProject) -> None:
    for options, reason in (
        (["--stream", "page views", "--table", "clicks"], "invalid stream name 'page views'"),
        (["--stream", "clicks"], "table is missing"),
        (["--stream", "clicks", "--table", "clicks", "--max-records", "0"], "max_records must be above 0"),
        (["--stream", "clicks", "--table", "clicks", "--on-data-loss", "ignore"], "'fail' or 'continue'"),
    ):
        done = project.dg("scaffold", "defs", STREAM, "clicks", *options)
        assert done.returncode != 0, options
        assert reason in done.stdout
        assert not list(project.defs.iterdir())


def test_check_yaml_names_the_line_and_the_choices(project: DgProject) -> None:
    project.checked("scaffold", "defs", STREAM, "orders", "--stream", "orders", "--table", "orders")
    path = project.defs / "orders" / "defs.yaml"
    path.write_text(f"{path.read_text().rstrip()}\n  on_data_loss: ignore\n  max_records: many\n")
    line = path.read_text().splitlines().index("  on_data_loss: ignore") + 1
    done = project.dg("check", "yaml")
    assert done.returncode != 0
    assert f"defs.yaml:{line}" in done.stdout
    assert "'ignore'" in done.stdout
    assert f"defs.yaml:{line + 1}" in done.stdout
    assert "'many'" in done.stdout


def test_the_components_are_listed_with_their_summaries(project: DgProject) -> None:
    listed = project.checked("list", "components", "--json")
    for name in ("KinesisStreamComponent", "KinesisTableComponent"):
        assert name in listed
    assert "Ingest a Kinesis stream into its table, each record exactly once." in listed
