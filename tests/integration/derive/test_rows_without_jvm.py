"""Rows of a typed table without expressions, which do not enter the JVM, are those that Spark computes."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings

from kinesis_assets.dagster.derived.derived_asset import with_bad_records
from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.decoders import Avro, Glue, Json, SchemaVersion, decode, from_json
from kinesis_assets.decoders.projection import Projection
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.spark.arrow_steps import is_mapped, map_in_arrow
from support.derived import order
from support.formats import derived_at, derived_rows
from support.glue_records import avro, framed
from support.json_documents import SCHEMA, documents
from support.spark_jobs import counted_jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kinesis_assets.decoders.decoder import Decoder

IN_JSON = Json(SCHEMA)


def typed_rows(schema_text: str | None = None, file: bytes = b"", **changes: Any) -> TypedRows:
    given = {"name": "orders", "source": "orders", "table": "orders", "format": "json", "schema": SCHEMA}
    table = TableSettings(**given | changes)
    return TypedRows(table, schema_text or str(table.schema_), file)


def in_spark(rows: str, decoder: Decoder = IN_JSON) -> Any:
    """Return the transformation to the same rows with all steps in the JVM."""
    projection = Projection(["*"])

    def transform(new: DataFrame) -> DataFrame:
        decoded = decode(decoder)(new.select("*")).select("*")
        if rows == "errors":
            return decoded.where("error IS NOT NULL").drop("stream", "batch_id", "value")
        return projection.kept(decoded) if rows == "kept" else projection.good(decoded)

    return transform


def by_tasks(rows: str, schema_text: str | None = None, **changes: Any) -> Any:
    """Return the transformation of a typed table, whose steps are all in Python."""
    typed = typed_rows(schema_text, **{"on_bad_record": "keep" if rows == "kept" else "separate"} | changes)

    def transform(new: DataFrame) -> Any:
        found = typed.of_table(new)
        assert is_mapped(found.rows)
        if rows == "errors":
            assert is_mapped(found.separate)
            return found.separate
        return found

    return transform


@pytest.fixture(scope="module")
def payloads() -> list[bytes]:
    """Random documents. All are consumed in one step, since a step takes a second."""
    found = []

    @settings(derandomize=True, max_examples=500)
    @given(documents)
    def collect(document: bytes) -> None:
        found.append(document)

    collect()
    return found


@pytest.fixture
def rows_of(derived):
    """Consumes what is new into a table, and returns these rows, sorted."""

    def rows_of(name: str, transform: Any, **changes: Any) -> list[str]:
        table = derived_at(f"{derived.table.uri}_{name}")
        commits = replace(derived, table=table).run(transform=transform, **changes)
        rows = derived_rows(table).to_pylist()
        new = {commit.batch_id for commit in commits}
        return sorted(repr(sorted(row.items())) for row in rows if row.pop("_batch_id") in new)

    return rows_of


@pytest.mark.parametrize(
    ("rows", "partition_by"),
    [
        pytest.param("kept", (), marks=pytest.mark.thorough),
        ("kept", ("text",)),
        ("good", ("day", "tiny")),
        pytest.param("errors", (), marks=pytest.mark.thorough),
    ],
    ids=["kept", "partitioned by a text", "good", "errors"],
)
def test_documents_near_the_edges_have_the_same_rows(bench, rows_of, payloads, rows, partition_by):
    bench.put(*payloads)
    bench.run()
    tasks = rows_of("tasks", by_tasks(rows), partition_by=partition_by)
    assert tasks == rows_of("spark", in_spark(rows), partition_by=partition_by)
    assert len(tasks) == len(payloads) if rows == "kept" else len(tasks) > len(payloads) / 5


@pytest.mark.parametrize("rows", ["kept", "good", "errors"])
def test_the_columns_and_the_files_have_the_same_types(bench, derived, rows_of, rows):
    bench.put(b"\xf3\x89\x9a\xc2broken aggregate", order(1), b"{")
    bench.run()
    assert rows_of("tasks", by_tasks(rows)) == rows_of("spark", in_spark(rows))
    tasks, spark = (DeltaTable(f"{derived.table.uri}_{name}") for name in ("tasks", "spark"))
    assert tasks.schema() == spark.schema()
    assert file_schema(tasks) == file_schema(spark)


def file_schema(table: DeltaTable) -> pa.Schema:
    """Return the columns of a table's only file."""
    (path,) = table.file_uris()
    return pq.read_schema(path)


def test_values_are_widened_to_the_columns_of_a_table_in_the_same_way(bench, rows_of):
    wide = "id BIGINT, amount DOUBLE, gone STRING, item STRUCT<count: INT>"
    narrow = "amount FLOAT, id TINYINT, item STRUCT<count: INT>"
    for schema in (wide, narrow):
        bench.put(order(1, 0.1, gone="x", item={"count": 1}), order(None, 3.5), b"{")
        bench.run()
        tasks = rows_of("tasks", by_tasks("kept", schema=schema))
        assert tasks == rows_of("spark", in_spark("kept", Json(schema)))


# Other formats


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", "double"]},
        {"name": "share", "type": "float"},
        {"name": "text", "type": "string"},
        {"name": "bytes", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {"name": "list", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "map", "type": {"type": "map", "values": "int"}},
        {
            "name": "item",
            "type": ["null", {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}],
        },
    ],
}

IN_AVRO = [
    {
        "id": -1,
        "amount": 0.1,
        "share": 0.1,
        "text": "é😀",
        "bytes": b"\x00\xff",
        "kind": "B",
        "day": date(9999, 12, 31),
        "at": datetime(1900, 1, 1, tzinfo=UTC),
        "price": Decimal("-99999999.99"),
        "list": ["x", None, ""],
        "map": {"": 0, "x": -1},
        "item": {"n": 2147483647},
    },
    {
        "id": 9223372036854775807,
        "amount": None,
        "share": float("inf"),
        "text": "",
        "bytes": b"",
        "kind": "A",
        "day": date(1, 1, 1),
        "at": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        "price": Decimal("0.00"),
        "list": [],
        "map": {},
        "item": None,
    },
]

DATA = [avro(AVRO, value) for value in IN_AVRO]
BAD_DATA = [b"", DATA[0][:-1], DATA[1] + b"\x00", b"\xff" * 20, b"{}"]

ANY = ["1", "1.50", "null", "true", '"x"', '"\\u00e9"', "[1, [2, {}]]", '{"b": 1, "a": {"c": null}}', "1e400"]
VARIANTS = [
    *(f'{{"id": {number}, "any": {value}, "list": [{value}]}}'.encode() for number, value in enumerate(ANY)),
    *(b'{"id": 1}', b'{"id": 1, "any": {"a": 1, "a": 2}}', b'{"id": 1, "any": NaN}', b'{"id": 1, "any": [1}'),
]

AVRO_ID, JSON_ID, UNKNOWN_ID = ("00000000-0000-0000-0000-00000000000" + digit for digit in "123")
VERSIONS = {
    AVRO_ID: SchemaVersion("AVRO", json.dumps(AVRO)),
    JSON_ID: SchemaVersion("JSON", '{"properties": {"id": {"type": "integer"}}}'),
}
FRAMED = [
    *(framed(AVRO_ID, data) for data in [*DATA, *BAD_DATA]),
    *(framed(JSON_ID, payload) for payload in (b'{"id": 1, "text": "x", "more": {}}', b'{"id": "1"}', b"{")),
    b"\x03\x05" + framed(AVRO_ID, b"")[2:] + zlib.compress(DATA[0]),
    b"\x03\x05" + framed(AVRO_ID, b"")[2:] + b"not compressed",
    framed(UNKNOWN_ID, DATA[0]),
    *(b"", b"\x03", b"\x02\x00" + bytes(16), b"{}"),
]
IN_GLUE = "id BIGINT, amount DOUBLE, text STRING, map MAP<STRING, INT>, item STRUCT<n: INT>"

FORMATS: dict[str, tuple[dict[str, Any], str, Decoder, list[bytes]]] = {
    "avro": (
        {"format": "avro", "schema": "orders.avsc", "file": json.dumps(AVRO).encode()},
        avro_columns(AVRO),
        Avro(json.dumps(AVRO)),
        [*DATA, *BAD_DATA],
    ),
    "glue": ({"format": "glue"}, IN_GLUE, Glue(IN_GLUE, schemas=VERSIONS), FRAMED),
    "variant": (
        {},
        "id BIGINT, any VARIANT, list ARRAY<VARIANT>",
        Json("id BIGINT, any VARIANT, list ARRAY<VARIANT>"),
        VARIANTS,
    ),
}
"""By name, the settings of a typed table, its schema, its decoder, and records, some of them bad."""


@pytest.mark.parametrize("rows", ["kept", "good", "errors"])
@pytest.mark.parametrize("name", FORMATS)
def test_records_of_other_formats_have_the_same_rows(bench, derived, rows_of, monkeypatch, name, rows):
    changes, schema, decoder, payloads = FORMATS[name]
    monkeypatch.setattr("kinesis_assets.decoders.glue.GlueRegistry.resolved", lambda _: VERSIONS)
    bench.put(*payloads)
    bench.run()
    tasks = rows_of("tasks", by_tasks(rows, schema, **{"schema": schema} | changes))
    assert tasks == rows_of("spark", in_spark(rows, decoder))
    assert len(tasks) == len(payloads) if rows == "kept" else 2 <= len(tasks) < len(payloads)
    written, computed = (DeltaTable(f"{derived.table.uri}_{name}") for name in ("tasks", "spark"))
    assert written.schema() == computed.schema()
    assert file_schema(written) == file_schema(computed)


# Limits


def of_function(new: DataFrame) -> Any:
    """Return the rows of a function, as with the setting `max_bad_share`."""
    return with_bad_records(lambda rows: from_json(rows, "id INT"), "orders", 0.5)(new)


@pytest.mark.parametrize(
    "transform",
    [
        *(
            typed_rows(schema="id INT", **changes).of_table
            for changes in (
                {"max_bad_share": 0.5},
                {"max_bad_share": 0.5, "on_bad_record": "separate"},
                {"on_bad_record": "fail"},
            )
        ),
        of_function,
    ],
    ids=["keep", "separate", "fail", "function"],
)
def test_a_limit_of_bad_records_takes_no_row_of_a_new_table_into_the_jvm(
    bench, derived, monkeypatch, capsys, transform
):
    written = []

    def watched(*arguments: Any) -> DataFrame:
        written.append(map_in_arrow(*arguments))
        return written[-1]

    monkeypatch.setattr("kinesis_assets.derive.write.map_in_arrow", watched)
    bench.put(order(1))
    bench.run()
    with counted_jobs(derived.spark.sparkContext, derived.table.uri) as jobs:
        (commit,) = derived.run(transform=transform)
        assert jobs() == 1
    written[-1].explain()
    assert capsys.readouterr().out.count("MapInArrow") == 1
    assert (commit.rows, commit.bad_records) == (1, 0)
