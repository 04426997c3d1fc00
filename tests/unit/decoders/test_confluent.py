"""Records in Confluent's wire format are decoded with the schema of their id."""

from __future__ import annotations

import json
import sys

import pytest

from kinesis_assets.decoders import Confluent, ConfluentRegistry, SchemaVersion
from kinesis_assets.decoders.decoder import DecoderSettings, RegisteredName
from kinesis_assets.errors import InvalidInput, RegistryCallFailed
from kinesis_assets.schemas.registries import read_folder
from support.raw_rows import decoded
from support.spark_types import spark_type

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "long"}]}
AVRO = json.dumps(ORDER)
PROTOBUF = 'syntax = "proto3"; message Other {} message Order { int64 order_id = 1; }'
SCHEMAS = {
    1: SchemaVersion("AVRO", AVRO),
    258: SchemaVersion("JSON", "{}"),
    3: SchemaVersion("PROTOBUF", PROTOBUF),
}


def local(ddl: str = "order_id long", **more: object) -> Confluent:
    return Confluent(spark_type(ddl), schemas=SCHEMAS, **more)


def subject(number: int | None = None) -> RegisteredName:
    return RegisteredName("", "orders-value", number)


@pytest.mark.parametrize(
    ("data", "schema_id"),
    [
        (bytes.fromhex("00 00000001 0e"), "1"),
        (bytes.fromhex("00 00000102") + b'{"order_id": 7}', "258"),
        (bytes.fromhex("00 00000003 02 02 08 07"), "3"),
    ],
)
def test_a_payload_is_decoded_by_the_schema_of_its_id(data, schema_id):
    (row,) = decoded([data], local())
    assert (row["value"], row["schema_id"], row["error"]) == ({"order_id": 7}, schema_id, None)


@pytest.mark.parametrize(
    ("data", "schema_id", "error"),
    [
        ("", None, "no header: the record has 0 bytes, a header has 5"),
        ("00 000000", None, "no header: the record has 4 bytes, a header has 5"),
        ("01 00000001 0e", None, "no header: the record starts with 01, not with 00"),
        ("7b 226f7264", None, "no header: the record starts with 7b, not with 00"),
        ("00 00000001", "1", "the record does not match its schema: EOFError"),
        ("00 00000001 0e 00", "1", "the record does not match its schema: 1 bytes follow its end"),
        ("00 00000001 80", "1", "the record does not match its schema: "),
        ("00 00000102 7b", "258", "Input data was truncated"),
        ("00 00000003", "3", "no message: the payload does not begin with the place of its message"),
        ("00 00000003 02 02 08", "3", "the record is not a Order: "),
        ("00 ffffffff 0e", "4294967295", "schema version 4294967295: not found"),
    ],
)
def test_a_record_that_cannot_be_decoded_is_an_error(data, schema_id, error):
    (row,) = decoded([bytes.fromhex(data)], local())
    assert (row["value"], row["schema_id"]) == (None, schema_id)
    assert row["error"].startswith(f"confluent: {error}")


def test_the_payload_is_the_value_without_schemas():
    (row,) = decoded([bytes.fromhex("00 00000009 0e")], Confluent())
    assert (row["value"], row["schema_id"]) == (b"\x0e", "9")


def test_the_readers_schema_applies_to_avro():
    reader = {**ORDER, "fields": [{"name": "id", "type": "long", "aliases": ["order_id"]}]}
    reader["fields"].append({"name": "currency", "type": "string", "default": "EUR"})
    rows = decoded(
        [bytes.fromhex("00 00000001 0e"), bytes.fromhex("00 00000102") + b'{"id": 8}'],
        local("id long, currency string", reader=json.dumps(reader)),
    )
    assert [row["value"] for row in rows] == [{"id": 7, "currency": "EUR"}, {"id": 8, "currency": None}]


def test_a_given_schema_that_cannot_be_used_is_refused():
    with pytest.raises(InvalidInput, match="schema version 5: its definition is not an Avro schema"):
        Confluent(spark_type("a long"), schemas={5: SchemaVersion("AVRO", "{")}).resolved()


# With a registry


def test_schemas_of_a_registry_are_requested_once_by_their_ids(confluent):
    confluent.register(1, "orders-value", AVRO)
    confluent.register(2, "orders-value", "{}", "JSON")
    confluent.register(3, "orders-value", PROTOBUF, "PROTOBUF")
    data = ["00 00000001 0e", "00 00000002 7b7d", "00 00000003 02 02 08 09", "00 00000001 10"]
    decoder = Confluent(spark_type("order_id long"), schemas=ConfluentRegistry(confluent.url))
    values = [{"order_id": 7}, {"order_id": None}, {"order_id": 9}, {"order_id": 8}]
    for _ in range(2):
        assert [row["value"] for row in decoded([bytes.fromhex(each) for each in data], decoder)] == values
    assert confluent.requests == ["/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/3"]


def test_an_unknown_id_is_an_error_in_its_rows(confluent):
    confluent.register(1, "orders-value", AVRO)
    decoder = Confluent(spark_type("order_id long"), schemas=ConfluentRegistry(confluent.url))
    rows = decoded([bytes.fromhex(f"00 0000000{number} 0e") for number in (1, 2, 2)], decoder)
    assert [row["error"] for row in rows] == [None, *["confluent: schema version 2: not found"] * 2]
    assert confluent.requests == ["/schemas/ids/1", "/schemas/ids/2"]


def test_an_id_that_no_registry_has_is_not_requested():
    assert ConfluentRegistry("http://127.0.0.1:9").get(1 << 31) is None  # where nothing answers


def test_referred_schemas_are_requested_too(confluent):
    money = {
        "type": "record",
        "name": "Money",
        "namespace": "shop",
        "fields": [{"name": "c", "type": "long"}],
    }
    price = {"type": "record", "name": "Price", "fields": [{"name": "net", "type": "shop.Money"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "Price"}]}
    confluent.register(1, "money", json.dumps(money))
    of_money = {"name": "shop.Money", "subject": "money", "version": 1}
    confluent.register(2, "price", json.dumps(price), "AVRO", of_money)
    confluent.register(
        3, "orders", json.dumps(order), "AVRO", {"name": "Price", "subject": "price", "version": 1}
    )
    registry = ConfluentRegistry(confluent.url)
    decoder = Confluent(spark_type("price struct<net: struct<c: long>>"), schemas=registry)
    (row,) = decoded([bytes.fromhex("00 00000003 0e")], decoder)
    assert (row["value"], row["error"]) == ({"price": {"net": {"c": 7}}}, None)


def test_referred_files_of_protobuf_are_requested_too(confluent):
    confluent.register(1, "money", 'syntax = "proto3"; message Money { int64 c = 1; }', "PROTOBUF")
    order = 'syntax = "proto3"; import "shop/money.proto"; message Order { Money price = 1; }'
    reference = {"name": "shop/money.proto", "subject": "money", "version": 1}
    confluent.register(2, "orders", order, "PROTOBUF", reference)
    decoder = Confluent(spark_type("price struct<c: long>"), schemas=ConfluentRegistry(confluent.url))
    (row,) = decoded([bytes.fromhex("00 00000002 00 0a 02 08 07")], decoder)
    assert (row["value"], row["error"]) == ({"price": {"c": 7}}, None)


@pytest.fixture
def impatient(monkeypatch):
    """Let the client retry without waiting."""
    monkeypatch.setattr(
        "confluent_kafka.schema_registry._sync.schema_registry_client.full_jitter", lambda *_: 0
    )


@pytest.mark.usefixtures("impatient")
def test_a_response_that_says_to_retry_is_retried(confluent):
    confluent.register(1, "orders-value", AVRO)
    confluent.failing = 1
    assert ConfluentRegistry(confluent.url).get(1) == SchemaVersion("AVRO", AVRO)
    assert len(confluent.requests) == 2


@pytest.mark.usefixtures("impatient")
def test_a_registry_that_does_not_answer_fails_the_job(confluent):
    registry = ConfluentRegistry(confluent.url)
    confluent.failing = 9
    with pytest.raises(
        RegistryCallFailed, match=rf"schema 1: the request failed at {confluent.url}: .*leader"
    ):
        registry.get(1)
    assert len(confluent.requests) == 4


@pytest.mark.usefixtures("impatient")
def test_a_registry_that_cannot_be_reached_fails_the_job(confluent):
    confluent.stop()
    decoder = Confluent(spark_type("a long"), schemas=ConfluentRegistry(confluent.url))
    with pytest.raises(RegistryCallFailed, match="schema 1: the request failed at http://127"):
        decoded([bytes.fromhex("00 00000001 0e")], decoder)


def test_the_user_is_sent_and_the_password_is_not_shown(confluent):
    confluent.register(1, "orders-value", AVRO)
    registry = ConfluentRegistry(confluent.url, "ada", "s3cret")
    registry.get(1)
    assert confluent.users == ["Basic YWRhOnMzY3JldA=="]
    assert "s3cret" not in repr(registry)


def test_the_type_of_a_subject_is_that_of_its_latest_version(confluent):
    confluent.register(1, "orders-value", AVRO)
    registry = ConfluentRegistry(confluent.url)
    assert registry.named(subject()) == SchemaVersion("AVRO", AVRO)
    confluent.register(2, "orders-value", "{}", "JSON")
    assert registry.named(subject()) == SchemaVersion("JSON", "{}")
    assert registry.named(subject(1)) == SchemaVersion("AVRO", AVRO)


@pytest.mark.parametrize("number", [None, 2])
def test_a_subject_that_does_not_exist_is_refused(confluent, number):
    with pytest.raises(InvalidInput, match=r"version.* of the subject orders-value is not found at http"):
        ConfluentRegistry(confluent.url).named(subject(number))


def test_a_subject_without_a_spark_type_is_refused_by_its_name(confluent):
    confluent.register(1, "orders-value", '"long"')
    with pytest.raises(InvalidInput, match=r"the latest version of the subject orders-value: .*not a record"):
        Confluent.from_settings(DecoderSettings("", subject(), {"url": confluent.url}))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"url": "registry"}, "url"),
        ({"url": "ftp://registry"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://[registry"}, "url"),
        ({"url": "http://a,http://b"}, "url"),
        ({"url": "http://ada:s3cret@registry"}, "url"),
        ({"url": "http://registry", "username": "ada"}, "username and password"),
        ({"url": "http://registry", "username": "a:b", "password": "c"}, "colon"),
    ],
)
def test_an_invalid_connection_is_refused(settings, error):
    with pytest.raises(InvalidInput, match=error) as refused:
        ConfluentRegistry(**settings)
    assert "s3cret" not in str(refused.value)


def test_a_registry_without_its_client_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(InvalidInput, match=r"pip install 'kinesis-assets\[confluent\]'"):
        ConfluentRegistry("http://registry.example").resolved()


# With schemas in files


def test_a_folder_has_schemas_by_their_ids(tmp_path):
    (tmp_path / "1.avsc").write_text(AVRO)
    (tmp_path / "258.json").write_text("{}")
    (tmp_path / "3.proto").write_text(PROTOBUF)
    assert read_folder(tmp_path) == {1: ("AVRO", AVRO), 3: ("PROTOBUF", PROTOBUF), 258: ("JSON", "{}")}
    decoder = Confluent.from_settings(DecoderSettings("order_id BIGINT", registry={"folder": str(tmp_path)}))
    assert decoder == Confluent("order_id BIGINT", schemas=SCHEMAS)


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ([], "has no schemas"),
        (["order.avsc"], "order.avsc is no schema"),
        (["1.txt"], "1.txt is no schema"),
        (["1.avsc", "01.json"], "a second one of an id"),
    ],
)
def test_a_folder_with_other_files_is_refused(tmp_path, names, error):
    for name in names:
        (tmp_path / name).write_text("{}")
    with pytest.raises(InvalidInput, match=error):
        read_folder(tmp_path)


def test_a_folder_that_is_missing_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_folder(tmp_path / "schemas")
