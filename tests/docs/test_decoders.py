"""The Python blocks of docs/decoders.md run and have the described results."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import dagster as dg
import msgspec
import yaml
from deltalake import DeltaTable
from pyspark import cloudpickle

import kinesis_assets.decoders
from kinesis_assets import KinesisTableComponent
from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.decoders import GlueRegistry, SchemaVersion, decode
from support import dagster_components
from support.dagster_components import dagsters_own_warnings
from support.raw_rows import raw_table

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.kinesis.settings import ClientSettings
    from support.command_line import RunCommand

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "decoders.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

TABLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CONFLUENT, YAML = TABLES

DOCUMENTS = [b'{"order_id": 1, "amount": 2.5}', b'{"order_id": "1", "amount": 2.5}']
SCHEMA_ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
# order_id 7, zigzag; amount 2.5, little-endian.
FRAMED = b"\x03\x00" + UUID(SCHEMA_ID).bytes + bytes.fromhex("0e 0000000000000440")


def block(number: int) -> str:
    assert len(BLOCKS) == 5
    return BLOCKS[number]


def run(source: str, **names: Any) -> dict[str, Any]:
    # The block runs without this module's __future__ imports.
    exec(compile(source, "decoders.md", "exec", dont_inherit=True), names)  # noqa: S102
    return names


def raw(spark: SparkSession, data: list[bytes]) -> DataFrame:
    rows = [("shardId-000000000000", str(number), each, None) for number, each in enumerate(data)]
    return spark.createDataFrame(rows, "shard_id string, sequence_number string, data binary, error string")


def test_rows_that_cannot_be_decoded_are_kept(spark: SparkSession) -> None:
    names = run(block(0), raw=raw(spark, [gzip.compress(each) for each in DOCUMENTS]))
    (good,) = names["good"].collect()
    assert tuple(good) == ("shardId-000000000000", "0", 1, 2.5)
    (bad,) = names["bad"].collect()
    assert gzip.decompress(bytes(bad.data)) == DOCUMENTS[1]
    assert bad.error in PAGE


def test_glue_records_are_decoded_by_a_registry(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"raw": raw(spark, [FRAMED])}
    definition = run(block(2), **names)["definition"]
    # tests/integration/spark/decoders tests the registry over HTTP; here its responses are given.
    answers = {SCHEMA_ID: SchemaVersion("AVRO", definition)}
    monkeypatch.setattr(GlueRegistry, "resolved", lambda _: answers)
    (row,) = run(block(1), **names)["orders"].collect()
    assert (row.schema_id, tuple(row.value), row.error) == (SCHEMA_ID, (7, 2.5), None)


def test_glue_records_are_decoded_with_given_schemas(spark: SparkSession) -> None:
    (row,) = run(block(2), raw=raw(spark, [FRAMED]))["orders"].collect()
    assert (row.schema_id, tuple(row.value), row.error) == (SCHEMA_ID, (7, 2.5), None)


PACKED = [msgspec.msgpack.encode(each) for each in ({"order_id": 7, "amount": 2.5}, {"order_id": "7"})]
REASON = "messagepack: Expected `int | null`, got `str` - at `$.order_id`"


@dagsters_own_warnings
def test_a_decoder_of_a_project_is_used_in_python_and_from_yaml(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "my_project"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "decoders.py").write_text(block(3))
    monkeypatch.syspath_prepend(str(tmp_path))
    decoder = run(block(3))["MessagePack"]("order_id long, amount double")
    rows = raw(spark, PACKED).transform(decode(decoder)).select("value.order_id", "error").collect()
    assert [tuple(row) for row in rows] == [(7, None), (None, REASON)]
    attributes = yaml.safe_load(YAML)["attributes"]
    assert dagster_components.loaded(KinesisTableComponent, **attributes)[1].assets
    cloudpickle.register_pickle_by_value(sys.modules["my_project.decoders"])  # as if tasks could import it
    typed = TypedRows(TableSettings(**attributes), attributes["schema"]).of_table(
        spark.createDataFrame(raw_table(PACKED))
    )
    kept = typed.rows.select("order_id", "amount", "error", "data").collect()
    assert [tuple(row) for row in kept] == [(7, 2.5, None, None), (None, None, REASON, PACKED[1])]


def test_the_asset_decodes_the_committed_rows(
    kinesis: Any,
    settings: ClientSettings,
    spark: SparkSession,
    cli: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del spark  # the run and the asset use this session
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    kinesis.create_stream(StreamName="orders", ShardCount=1)
    source = block(4).replace("s3://my-lake", str(tmp_path))
    try:
        for document in DOCUMENTS:
            kinesis.put_record(StreamName="orders", Data=gzip.compress(document), PartitionKey="k")
        assert cli("run", "--stream", "orders", "--table", str(tmp_path / "raw/orders")).exit_code == 0
    finally:
        kinesis.delete_stream(StreamName="orders")
    names = run(source)
    (day, _) = map(str, DeltaTable(tmp_path / "raw/orders").to_pyarrow_table()["arrival_date"].to_pylist())
    for _ in range(2):  # materializing a day again replaces its rows
        done = dg.materialize(
            [names["orders"]], partition_key=day, resources=dict(names["definitions"].resources)
        )
        (event,) = done.get_asset_materialization_events()
        metadata = event.materialization.metadata
        assert (metadata["rows"].value, metadata["undecoded"].value) == (2, 1)
    rows = DeltaTable(tmp_path / "orders").to_pyarrow_table().sort_by("sequence_number").to_pylist()
    assert [row["value"] for row in rows] == [{"order_id": 1, "amount": 2.5}, None]
    assert [gzip.decompress(row["data"]) for row in rows] == DOCUMENTS


def test_the_page_names_every_public_decoder() -> None:
    assert [
        name
        for name in kinesis_assets.decoders.__all__
        if f"`{name}" not in PAGE and name not in "".join(BLOCKS)
    ] == []


@dagsters_own_warnings
def test_the_table_of_confluents_registry_can_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "secret")
    attributes = yaml.safe_load(CONFLUENT)["attributes"]
    assert dagster_components.loaded(KinesisTableComponent, **attributes)[1].assets
