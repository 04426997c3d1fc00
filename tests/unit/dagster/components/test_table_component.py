"""The YAML of a typed table: its fields, its schema files, and what is refused when it is loaded."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, get_args

import dagster as dg
import pytest

from kinesis_assets import KinesisTableComponent
from kinesis_assets.dagster.derived_tables import consumption_of
from kinesis_assets.dagster.settings.table_settings import (
    ConfluentSettings,
    ProtobufSchema,
    RegisteredSchema,
    RegistrySettings,
    SubjectSchema,
    TableSettings,
)
from kinesis_assets.decoders import GlueRegistry
from kinesis_assets.errors import InvalidInput
from support import dagster_components
from support.dagster_components import dagsters_own_warnings, schema_of, validator_of
from support.mentions import assert_mentions
from support.stream_names import io_manager_key, raw_key

pytestmark = dagsters_own_warnings

ORDERS = {
    "name": "orders",
    "source": "clicks",
    "table": "s3://lake/orders",
    "format": "json",
    "schema": "order_id BIGINT, updated_at TIMESTAMP",
}
ALIASES = {field.alias or name: name for name, field in TableSettings.model_fields.items()}
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "long"}]}
JSON_SCHEMA = {"properties": {"order_id": {"type": "integer"}}}


def loaded(**attributes: Any) -> dg.Definitions:
    files = {"orders.avsc": json.dumps(AVRO), "orders.json": json.dumps(JSON_SCHEMA), "broken.json": "{"}
    return dagster_components.loaded(KinesisTableComponent, files, **ORDERS | attributes)[1]


def properties() -> dict[str, Any]:
    """The fields of the YAML, as `dg` and editors show them."""
    return schema_of(KinesisTableComponent)["properties"]


# The fields


def test_the_schema_of_the_yaml_describes_every_setting():
    assert list(properties()) == list(ALIASES)
    assert list(properties())[:3] == ["name", "source", "upstream"]
    for name, attribute in ALIASES.items():
        field = TableSettings.model_fields[attribute]
        assert properties()[name]["description"] == field.description, name
        assert properties()[name]["examples"] == field.examples, name
        assert ("default" in properties()[name]) is not field.is_required(), name


def test_the_schema_of_the_yaml_has_the_choices_and_bounds():
    for name in ("format", "compression", "on_bad_record", "on_deleted"):
        assert any("enum" in each for each in properties()[name]["anyOf"]), name
    assert get_args(TableSettings.model_fields["on_bad_record"].annotation) == ("keep", "separate", "fail")
    assert properties()["on_deleted"]["anyOf"][0]["enum"] == ["fail", "ignore", "rebuild"]
    assert (properties()["max_bad_share"]["minimum"], properties()["max_bad_share"]["maximum"]) == (0, 1)
    assert properties()["select"]["items"] == {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        {"registry": "shop"},
        {"registry": "shop", "name": "orders", "at": 1},
        {"registry": "shop", "name": 1},
        {"registry": "", "name": "orders"},
        {"registry": "shop", "name": "orders", "version": "latest"},
        {"registry": "shop", "name": "orders", "version": 0},
        {"registry": "shop", "name": "orders", "version": None},
        {"file": "shop.desc"},
        {"message": "shop.Order"},
        {"subject": ""},
        {"subject": "orders-value", "version": 0},
        {},
        ["order_id BIGINT"],
    ],
    ids=str,
)
def test_a_wrong_field_of_a_registered_schema_is_refused_by_the_schema_of_the_yaml_too(schema):
    assert not validator_of(KinesisTableComponent, "schema").is_valid(schema)
    with pytest.raises(InvalidInput, match=r"^schema"):
        KinesisTableComponent(**ORDERS | {"format": "glue", "schema": schema})


@pytest.mark.parametrize(
    "registry",
    [{"region": "eu-west-1"}, {"region_name": 1}, {"role_arn": None}, ["eu-west-1"], None],
    ids=str,
)
def test_a_wrong_field_of_a_registry_is_refused_by_the_schema_of_the_yaml_too(registry):
    assert not validator_of(KinesisTableComponent, "registry").is_valid(registry)
    with pytest.raises(InvalidInput, match=r"^registry"):
        KinesisTableComponent(**ORDERS | {"format": "glue", "registry": registry})


@pytest.mark.parametrize(
    ("name", "settings", "others"),
    [
        ("schema", RegisteredSchema, {"format": "glue"}),
        ("schema", SubjectSchema, {"format": "confluent", "registry": {"url": "http://registry.example"}}),
        ("schema", ProtobufSchema, {"format": "protobuf"}),
        ("registry", RegistrySettings, {"format": "glue"}),
        ("registry", ConfluentSettings, {"format": "confluent"}),
    ],
)
def test_the_schema_of_the_yaml_describes_every_field_of_a_map(name, settings, others):
    fields = properties()[name]["properties"]
    described = {each: field.description for each, field in settings.model_fields.items()}
    assert {each: fields[each]["description"] for each in settings.model_fields} == described
    example = {each: fields[each]["examples"][0] for each in settings.model_fields if each != "folder"}
    validator_of(KinesisTableComponent, name).validate(example)
    KinesisTableComponent(**ORDERS | others | {name: example})


@pytest.mark.parametrize("name", ["schema", "registry"])
def test_the_schema_of_the_yaml_has_no_other_fields_of_a_map(name):
    maps = {
        "schema": (RegisteredSchema, SubjectSchema, ProtobufSchema),
        "registry": (RegistrySettings, ConfluentSettings),
    }
    known = {each for settings in maps[name] for each in settings.model_fields}
    assert properties()[name]["properties"].keys() == known


@pytest.mark.parametrize("name", ["schema", "registry"])
def test_every_field_of_a_map_may_be_a_template(name):
    templates = dict.fromkeys(properties()[name]["properties"], "{{ env.SETTING_OF_THE_TESTS }}")
    validator_of(KinesisTableComponent, name).validate(templates)
    KinesisTableComponent.get_model_cls()(**ORDERS | {name: templates})


def test_the_settings_of_a_registry_are_the_arguments_of_its_class():
    assert [*RegistrySettings.model_fields] == [field.name for field in dataclasses.fields(GlueRegistry)]


ICEBERG = {"type": "rest", "uri": "https://catalog.example/api", "database": "lake"}


@pytest.mark.parametrize("name", ALIASES)
def test_every_example_of_a_setting_is_valid(name):
    others = {
        "name": {"name": "orders"},
        "upstream": {"name": "paid", "format": None, "schema": None},
        "key": {"order_by": ["updated_at"]},
        "order_by": {"key": ["order_id"]},
        "delete_where": {"key": ["order_id"], "order_by": ["updated_at"]},
        "retention_days": {"retention_column": "updated_at"},
        "retention_column": {"retention_days": 90, "schema": "order_date DATE"},
        "deleted_for": {"key": ["order_id"], "order_by": ["updated_at"], "delete_where": "order_id = 0"},
        "registry": {"format": "glue"},
        "schema": {"format": "glue"},
        "unnest": {"schema": "logEvents STRUCT<id: STRING>"},
        "table_format": {"catalog": ICEBERG},
        "keep_snapshots": {"table_format": "iceberg", "catalog": ICEBERG},
        "keep_snapshot_hours": {"table_format": "iceberg", "catalog": ICEBERG},
    }.get(name, {})
    for example in TableSettings.model_fields[ALIASES[name]].examples:
        KinesisTableComponent(**ORDERS | others | {name: example})
        validator_of(KinesisTableComponent, name).validate(example)


@pytest.mark.parametrize("name", ALIASES)
def test_every_field_of_the_yaml_may_be_a_template(name):
    template = "{{ env.SETTING_OF_THE_TESTS }}"
    validator_of(KinesisTableComponent, name).validate(template)
    KinesisTableComponent.get_model_cls()(**ORDERS | {name: template})


def test_the_value_of_a_template_is_converted_and_checked(monkeypatch):
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "separate")
    assert len(loaded(on_bad_record="{{ env.SETTING_OF_THE_TESTS }}").assets) == 2
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "forget")
    with pytest.raises(Exception, match="KinesisTableComponent") as caught:
        loaded(on_bad_record="{{ env.SETTING_OF_THE_TESTS }}")
    message = str(caught.value.__cause__)
    assert_mentions(message, "on_bad_record", "'keep'", "'separate'", "'fail'", "'forget'")


# The assets


def test_the_table_is_an_asset_below_the_raw_table_of_its_stream():
    (asset,) = loaded(name="shop/orders").assets
    assert asset.key == dg.AssetKey(["shop", "orders"])
    assert asset.dependency_keys == {raw_key("clicks")}
    assert io_manager_key("clicks") in asset.required_resource_keys
    assert asset.metadata_by_key[asset.key]["dagster/uri"] == "s3://lake/orders"


def test_separate_errors_are_a_second_asset_below_the_table():
    table, errors = loaded(name="shop/orders", on_bad_record="separate").assets
    assert errors.key == dg.AssetKey(["shop", "orders_errors"])
    assert errors.dependency_keys == {table.key}
    consumption = consumption_of(errors)
    assert consumption is not None
    assert consumption.source(table) == "s3://lake/orders/_kinesis/errors"
    assert errors.metadata_by_key[errors.key]["dagster/uri"] == "s3://lake/orders_errors"


def test_a_table_below_a_derived_table_needs_no_format():
    (asset,) = loaded(upstream="shop/orders", format=None, schema=None, select=["order_id"]).assets
    assert asset.dependency_keys == {dg.AssetKey(["shop", "orders"])}


# Schema files


@pytest.mark.parametrize("settings", [{"format": "avro"}, {"format": "json"}, {"format": "glue"}], ids=str)
def test_an_avro_schema_is_read_from_the_folder_of_the_yaml(settings):
    assert loaded(schema="orders.avsc", **settings).assets


@pytest.mark.parametrize("format_", ["json", "glue"])
def test_a_json_schema_is_read_from_the_folder_of_the_yaml(format_):
    assert loaded(schema="orders.json", format=format_).assets


# Schemas of the Glue Schema Registry


REGISTERED = {"format": "glue", "schema": {"registry": "shop", "name": "orders"}}


@pytest.mark.parametrize(
    "version", [{}, {"version": 3}, {"version": "{{ env.SETTING_OF_THE_TESTS }}"}], ids=str
)
def test_a_schema_of_the_registry_is_not_read_when_the_definitions_are_loaded(monkeypatch, version):
    monkeypatch.setenv("SETTING_OF_THE_TESTS", "3")
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:1")
    assert loaded(**REGISTERED | {"schema": REGISTERED["schema"] | version}).assets


def test_separate_errors_may_follow_the_latest_version_of_the_schema():
    assert len([*loaded(**REGISTERED, on_bad_record="separate").assets]) == 2


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"schema": "nothing.avsc"},
            r"schema .*nothing\.avsc: .*No such file",
        ),
        ({"schema": "broken.json"}, r"schema .*broken\.json: .*JSON"),
        (
            {"schema": "orders.json", "format": "avro"},
            r"schema .*orders\.json: .*record",
        ),
    ],
    ids=["missing", "not JSON", "a JSON Schema for Avro"],
)
def test_a_schema_file_that_cannot_be_used_is_refused_in_one_line(settings, reason):
    with pytest.raises(Exception, match=r"defs\.yaml \(KinesisTableComponent\)") as caught:
        loaded(**settings)
    assert re.fullmatch(rf".*defs\.yaml:\d+: {reason}.*", str(caught.value.__cause__))


# Settings that do not fit


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"schema": None}, "schema: required with a format"),
        ({"format": None}, "schema: only with a format"),
        ({"format": "avro"}, "schema: .*avro.*path"),
        ({"format": None, "schema": None, "max_bad_share": 0.1}, "max_bad_share: only with a format"),
        ({"format": None, "schema": None, "on_bad_record": "fail"}, "on_bad_record: only with a format"),
        ({"upstream": "orders"}, "format: only without an upstream table"),
        ({"registry": {"region_name": "eu-west-1"}}, "registry: only with the format glue"),
        ({"format": "glue", "registry": {"region": "eu-west-1"}}, "registry: unknown setting region; the"),
        ({"format": "glue", "registry": {"external_id": "shop"}}, "registry: external_id: only with"),
        ({"format": "glue", "registry": {"role_arn": "reader"}}, "registry: role_arn: invalid ARN"),
        ({"schema": {"registry": "shop", "name": "orders"}}, "schema: .*Glue Schema Registry"),
        ({"format": "glue", "schema": {"registry": "shop"}}, "schema: name is missing"),
        ({"format": "glue", "schema": {"registry": "shop", "nam": "x"}}, "schema: name is missing"),
        (REGISTERED | {"schema": {"registry": "shop", "name": "x", "at": 1}}, "schema: unknown setting at"),
        (
            REGISTERED | {"schema": REGISTERED["schema"] | {"version": 0}},
            "schema: version must be at least 1",
        ),
        (
            REGISTERED | {"schema": REGISTERED["schema"] | {"version": "x"}},
            "schema: version must be a valid int",
        ),
        ({"format": None, "schema": None, "split": "lines"}, "split: only with a format"),
        ({"format": None, "schema": None, "unnest": "a"}, "unnest: only with a format"),
        ({"format": None, "schema": None, "only": {"a": 1}}, "only: only with a format"),
        ({"split": "line"}, "split must be 'lines', 'documents' or 'array', not 'line'"),
        ({"format": "glue", "split": "lines"}, "split: lines only with the format json, csv, tsv"),
        ({"format": "csv", "split": "documents"}, "split: documents only with the format json"),
        ({"format": "csv", "unnest": "a"}, "unnest: only with the format json"),
        ({"format": "glue", "split": "array"}, "split: array only with the format json"),
        ({"format": "glue", "unnest": "a"}, "unnest: only with the format json"),
        ({"format": "glue", "only": {"a": 1}}, "only: of a path only with the format json"),
        ({"unnest": "a..b"}, r"unnest: 'a\.\.b' is no path"),
        ({"only": {"a..b": 1}}, r"only: 'a\.\.b' is no path"),
        ({"only": {"a": {"b": 1}}}, "only: a: .* is no text, number, true, false or null"),
        (
            {"only": {"_record.price": 1}},
            r"only: _record\.price is no text and no integer",
        ),
        ({"only": {"_record.data": "x"}}, r"only: _record\.data is no text"),
        (
            {"only": {"_record.partition_key": [None, 7]}},
            r"only: _record\.partition_key is a string, and",
        ),
        ({"only": {"_record.sub_sequence_number": True}}, "only: .* is a bigint, and True is not"),
        ({"split": "lines", "key": ["document_number"], "order_by": ["updated_at"]}, "key: "),
        ({"key": ["order_id"]}, "order_by: required with a key"),
        (
            {"key": ["shard_id"], "order_by": ["updated_at"]},
            "key: ",
        ),
        (
            {"key": ["order_id"], "order_by": ["updated_at"], "deleted_for": "7 days"},
            "delete_where: required with deleted_for",
        ),
        ({"retention_days": 90}, "retention_column: required with retention_days"),
        ({"retention_column": "updated_at"}, "retention_days: required with retention_column"),
        ({"deleted_for": ""}, "deleted_for: invalid duration ''"),
        ({"deleted_for": "a week"}, "deleted_for: invalid duration 'a week'"),
        ({"deleted_for": "0 days"}, "deleted_for: invalid duration '0 days'"),
        ({"deleted_for": "36501 days"}, "deleted_for: 36501 days is more than 36500 days; give less"),
        ({"name": ""}, "name: invalid asset key ''"),
        ({"name": "shop//orders"}, "name: invalid asset key 'shop//orders'"),
        ({"source": "page views"}, "invalid stream name 'page views'"),
        ({"table": "gs://lake/orders"}, "s3://bucket/prefix"),
        ({"max_bad_share": 1.5}, r"max_bad_share .*1.*1\.5"),
        ({"time_zone": "Berlin"}, "time_zone: invalid time zone 'Berlin'"),
        ({"partition_by": "order_date"}, "partition_by .*list.*'order_date'"),
        ({"format": "cvs"}, "format: .*'json', .* or .*'cvs'"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_settings_that_do_not_fit_are_refused_in_one_line(wrong, reason):
    with pytest.raises(InvalidInput) as caught:
        KinesisTableComponent(**ORDERS | wrong)
    assert re.search(reason, str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["select", "key"])
def test_an_error_of_the_yaml_names_its_file_and_line(name):
    with pytest.raises(Exception, match="KinesisTableComponent") as caught:
        loaded(**{name: "order_id"})
    assert f"attributes.{name} at" in str(caught.value.__cause__)
    assert "defs.yaml:" in str(caught.value.__cause__)
    assert "Input should be a valid array" in str(caught.value.__cause__)


def test_an_error_of_settings_that_do_not_fit_names_their_file_and_line():
    with pytest.raises(Exception, match="KinesisTableComponent") as caught:
        loaded(registry={"region_name": "eu-west-1"})
    assert re.fullmatch(
        r".*defs\.yaml:\d+: registry: only with the format glue; .*", str(caught.value.__cause__)
    )


# Mistakes in columns


COLUMNS = "id BIGINT, at TIMESTAMP, op STRING, tags ARRAY<STRING>"
KEY = {"key": ["id"], "order_by": ["at"]}

MISTAKES = {
    "an unknown type": ({"schema": "id BIGNT"}, "schema: id has the type BIGNT"),
    "no columns": ({"schema": " "}, "schema: it has no columns"),
    "one type": ({"schema": "ARRAY<INT>"}, "schema: ARRAY is a type"),
    "a long decimal": ({"schema": "id DECIMAL(50, 2)"}, "schema: id has the type DECIMAL"),
    "fields of two cases": ({"schema": "id INT, ID INT"}, "schema: the names id, ID"),
    "a field _record": ({"schema": "_record INT"}, "schema: no field can be called _record"),
    "a field _batch_id": ({"schema": "id INT, _batch_id INT"}, "schema: no column can be called '_batch_id'"),
    "a field __id": ({"schema": "__id INT"}, "schema: no column can be called '__id'"),
    "a field with a space": ({"schema": "`a b` INT"}, "schema: .*'a b': .* `a b` AS my_a_b"),
    "a field error": ({"schema": "error STRING"}, "schema: no column can be called 'error'"),
    "a field document_number": (
        {"schema": "document_number INT", "split": "lines"},
        "schema: no column can be called 'document_number': .* document_number, data",
    ),
    "an unknown path": (
        {"unnest": "events"},
        "unnest: 'events': the schema has no field events; add it with the type of an element, as",
    ),
    "a path in another case": ({"unnest": "ID"}, "unnest: 'ID': the schema has no field ID"),
    "an unknown path within": (
        {"schema": "a STRUCT<b: STRUCT<c: INT>>", "unnest": "a.b.d"},
        r"unnest: 'a\.b\.d': the schema has no field d in a\.b",
    ),
    "a path that is no struct": ({"unnest": "op.x"}, r"unnest: 'op\.x': the schema has no field x in op"),
    "an unknown column": (
        {"select": ["id", "price"]},
        "select: 'price': no column or field has the name price",
    ),
    "an unknown cast": ({"select": ["CAST(price AS INT) AS p"]}, r"select: 'CAST.*the name price"),
    "an unknown column of the source": (
        {"select": ["_record.x"]},
        r"select: '_record\.x': no column of _record has",
    ),
    "a column twice": ({"select": ["id", "at AS ID"]}, "select: several columns are called id, .* case"),
    "a column _batch_id": (
        {"select": ["upper(op) AS _Batch_ID"]},
        "select: no column can be called '_Batch_",
    ),
    "a column __op": ({"select": ["op AS __op"]}, "select: no column can be called '__op'"),
    "a column _record": ({"select": ["op AS _record"]}, "select: no column can be called '_record'"),
    "a column data": ({"select": ["op AS data"]}, "select: no column can be called 'data'"),
    "an empty entry": ({"select": ["id", " "]}, "select: an expression is empty"),
    "an empty where": ({"where": ""}, "where: an expression is empty"),
    "an unknown column in where": ({"where": "price > 1"}, "where: 'price > 1': there is no column"),
    "delete_where left out": (
        KEY | {"select": ["id", "at"], "delete_where": "op = 'D'"},
        "delete_where: \"op = 'D'\": there is no column with the name op",
    ),
    "an unknown delete_where": (KEY | {"delete_where": "NOT gone"}, "delete_where: .* the name gone"),
    "an unknown key": (
        KEY | {"key": ["price"]},
        "key: the table has no column price; its columns are id, at",
    ),
    "a key left out": (KEY | {"select": ["at"]}, "key: the table has no column id; its columns are at"),
    "a key in another case": (KEY | {"key": ["ID"]}, "key: the table has no column ID; write it as id"),
    "a key twice": (KEY | {"key": ["id", "ID"]}, "key: id is given twice"),
    "a key with parts": (KEY | {"key": ["tags"]}, "key: tags has the type ARRAY<STRING>, .* compared"),
    "an empty key": (KEY | {"key": [""]}, "key: no column can be called '': .* empty"),
    "an expression as order_by": (KEY | {"order_by": ["at DESC"]}, "order_by: no column .*'at DESC'"),
    "an unknown retention_column": (
        {"retention_days": 90, "retention_column": "day"},
        "retention_column: the table has no column day",
    ),
    "an unknown order_by": (KEY | {"order_by": ["price"]}, "order_by: the table has no column price"),
    "an unknown partition": ({"partition_by": ["day"]}, "partition_by: the table has no column day"),
    "a partition twice": ({"partition_by": ["op", "op"]}, "partition_by: op is given twice"),
    "a partition of times": ({"partition_by": ["at"]}, "partition_by: at has the type TIMESTAMP"),
    "a partition that is cast": (
        {"select": ["CAST(op AS DECIMAL(4, 2)) AS o"], "partition_by": ["o"]},
        r"partition_by: o has the type DECIMAL\(4, 2\)",
    ),
    "a transform of a Delta table": ({"partition_by": ["day(at)"]}, r"partition_by: day\(at\): a transform"),
    "the partition _batch_id": ({"partition_by": ["_batch_id"]}, "partition_by: no column .*'_batch_id'"),
    "an empty upstream": ({"format": None, "schema": None, "upstream": ""}, "upstream: invalid asset key ''"),
    "itself as upstream": (
        {"format": None, "schema": None, "upstream": "orders"},
        "upstream: orders is the t",
    ),
}


@pytest.mark.parametrize(("wrong", "reason"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_the_columns_is_refused_with_its_file_and_line(wrong, reason):
    with pytest.raises(Exception, match="KinesisTableComponent") as caught:
        loaded(**{"schema": COLUMNS} | wrong)
    message = str(caught.value.__cause__)
    assert re.fullmatch(rf".*defs\.yaml:\d+: {reason}.*", message), message
    assert "\n" not in message


def test_the_line_is_that_of_the_setting():
    lines = {}
    for name in ("key", "partition_by"):
        with pytest.raises(Exception, match="KinesisTableComponent") as caught:
            loaded(schema=COLUMNS, **KEY | {"partition_by": ["op"]} | {name: ["price"]})
        lines[name] = int(re.search(r"defs\.yaml:(\d+): ", str(caught.value.__cause__))[1])
    assert lines["partition_by"] > lines["key"]


ALLOWED = {
    "expressions": {"select": ["id", "upper(op) AS op", "2 * id AS twice"]},
    "an array that is unnested": {
        "schema": "id BIGINT, log STRUCT<events: STRUCT<at: STRING>>",
        "unnest": "log.events",
        "select": ["id", "log.events.*", "document_number"],
    },
    "conditions on fields that the schema lacks": {"only": {"kind": ["a", 1, None], "_record.shard_id": "s"}},
    "a field document_number of whole records": {"schema": "document_number INT"},
    "a field document_number of records of one shard": {
        "schema": "document_number INT",
        "only": {"_record.shard_id": "s"},
    },
    "an expression of unknown name": {"select": ["id + 1", "at"], **KEY, "partition_by": ["day"]},
    "columns of the source": {
        "select": ["*", "shard_id", "_record.stream", "arrival_date AS day"],
        "partition_by": ["day", "shard_id"],
    },
    "another case": {"select": ["ID AS Number", "AT"], "key": ["Number"], "order_by": ["AT"]},
    "functions without parentheses": {"select": ["*", "current_timestamp AS seen", "NULL AS none"]},
    "a name of an entry before": {
        "select": ["2 * id AS twice", "twice AS again", "price two", "two AS three"]
    },
    "the column _record": {"select": ["*", "_record AS source"], "where": "_record IS NOT NULL"},
    "conditions": KEY | {"where": "date '2026-01-01' < at", "delete_where": "lower(gone) = 'x'"},
    "a condition on another case": KEY | {"delete_where": "OP = 'D'"},
    "a kept column": {"schema": "id INT", "partition_by": ["shard_id"]},
    "a variant": {"schema": "id VARIANT, at DATE", **KEY},
    "a cast to a type that only Spark has": {"select": ["CAST(op AS CHAR(3)) AS o"], "partition_by": ["o"]},
    "fields that are not selected": {
        "schema": "`a b` INT, __id INT, error INT",
        "select": ["error AS my_error"],
    },
    "no format": {
        "format": None,
        "schema": None,
        "select": ["shard_id", "data"],
        "partition_by": ["shard_id"],
    },
    "an upstream table": {
        "format": None,
        "schema": None,
        "upstream": "other",
        "select": ["*", "price"],
        "partition_by": ["day"],
    },
    "a schema of the registry": {
        "format": "glue",
        "schema": {"registry": "shop", "name": "orders"},
        "select": ["price", "schema_id"],
        **KEY,
        "key": ["price"],
        "order_by": ["schema_id"],
    },
}


@pytest.mark.parametrize("settings", ALLOWED.values(), ids=ALLOWED)
def test_columns_that_may_be_right_are_accepted(settings):
    assert loaded(**{"schema": COLUMNS} | settings).assets
