"""Trino, on which Athena is based, reads tables of both formats that it finds in AWS Glue. Glue is moto's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets import derived_table
from support import trino
from support.catalog_tables import Database
from support.dagster_runs import execute
from support.formats import FORMATS
from support.shard_ids import A, B

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from kinesis_assets.dagster.stream_project import StreamProject
    from support.fixtures.dagster import MakeProject, Source

pytestmark = pytest.mark.thorough

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def server(moto: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[trino.Trino]:
    with trino.running(moto, tmp_path_factory.mktemp("trino")) as server:
        yield server


def in_glue(format_: str, setting: str, database: Database, name: str, endpoint: str) -> dict[str, Any]:
    """Return the settings of a table in AWS Glue, and on an S3 server."""
    catalog = {"database": database.name, "name": name}
    if format_ == "delta":
        return {"catalog": catalog}
    return {setting: "iceberg", "catalog": {"type": "glue", "s3.endpoint": endpoint, **catalog}}


def materialize(
    project: StreamProject, instance: dg.DagsterInstance, columns: list[str], settings: dict[str, Any]
) -> None:
    """Derive the table `orders`, in which a row replaces older ones with its number."""

    @derived_table(source=project.stream, key=["number"], order_by=["sequence_number"], **settings)
    def orders(new: DataFrame) -> DataFrame:
        return new.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number", "sequence_number", *columns)

    definitions = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[orders]))
    job = definitions.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("orders")]).success


@pytest.mark.parametrize("format_", FORMATS)
def test_trino_finds_the_rows_of_a_raw_and_a_derived_table(
    make_project: MakeProject,
    source: Source,
    instance: dg.DagsterInstance,
    moto_lake: str,
    moto: str,
    server: trino.Trino,
    format_: str,
) -> None:
    database = Database(moto)
    raw = in_glue(format_, "format", database, "clicks_raw", moto)
    project = make_project(table=f"{moto_lake}/raw", **raw)
    derived = {"table": f"{moto_lake}/orders"} | in_glue(format_, "table_format", database, "orders", moto)

    def rows(statement: str) -> list[list[Any]]:
        return server.rows(statement, format_=format_, database=database.name)

    source.create(2)
    of_a, of_b = source.put(A, 6), source.put(B, 4)
    assert execute(project, instance, A, B).success
    materialize(project, instance, ["shard_id"], derived)
    newest = source.put(B, 8)
    assert execute(project, instance, A, B).success
    price = "named_struct('amount', CAST(1.5 AS DECIMAL(10, 2)), 'notes', array('a', NULL)) AS price"
    materialize(project, instance, ["shard_id", price], derived)

    stored = rows("SELECT shard_id, sequence_number FROM clicks_raw")
    assert sorted(stored) == sorted([[A, each] for each in of_a] + [[B, each] for each in [*of_b, *newest]])
    assert rows(f"SELECT count(*) FROM clicks_raw WHERE shard_id = '{B}'") == [[12]]  # noqa: S608
    (sql,) = re.findall(r"^```sql\n(.*?)^```", (DOCS / "iceberg.md").read_text(), re.MULTILINE | re.DOTALL)
    days = rows(sql.replace("lake.", ""))
    assert {shard_id: count for _, shard_id, count in days} == {A: 6, B: 12}

    orders = rows("SELECT number, shard_id, price.amount, price.notes[1] FROM orders ORDER BY number")
    assert orders == [[number, B, "1.50", "a"] for number in range(8)]
