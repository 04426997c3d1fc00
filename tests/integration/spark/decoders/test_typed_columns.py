"""Decoded fields as columns, for functions of derived tables in Python."""

from __future__ import annotations

import gzip
import json
from io import BytesIO

import fastavro
import pytest

from kinesis_assets.decoders import Avro, Gzip, Json, decode, from_json, typed_columns
from kinesis_assets.errors import InvalidInput
from support.mentions import assert_mentions

ORDER = "order_id BIGINT NOT NULL, amount DOUBLE"
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "order_id", "type": "long"}, {"name": "amount", "type": ["null", "double"]}],
}
NO_ORDER = b'{"amount": 1}'


def avro(value: object, schema: object = SCHEMA) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def test_the_fields_of_json_documents_are_columns(raw):
    rows = from_json(raw([b'{"order_id": 1, "amount": 2.5}', NO_ORDER]), ORDER)
    assert rows.columns == [
        "order_id",
        "amount",
        "error",
        "shard_id",
        "sequence_number",
        "sub_sequence_number",
        "data",
    ]
    good, bad = rows.collect()
    assert tuple(good) == (1, 2.5, None, None, None, None, None)
    assert (bad.order_id, bad.amount, bytes(bad.data)) == (None, None, NO_ORDER)
    assert (bad.shard_id, bad.sequence_number, bad.sub_sequence_number) == ("shardId-000000000000", "1", 0)
    assert bad.error == "json: Object missing required field `order_id`"


def test_decoders_can_be_combined(raw):
    rows = typed_columns(raw([gzip.compress(b'{"order_id": 1}')]), Gzip(), Json(ORDER))
    assert rows.select("order_id", "error").collect() == [(1, None)]


def test_a_type_without_fields_is_refused(raw):
    with pytest.raises(InvalidInput, match="array<int>"):
        from_json(raw([]), "array<int>")


def test_avro_records_have_the_type_of_their_schema(raw):
    decoded = raw([avro({"order_id": 1, "amount": None}), b"", avro({"order_id": 1, "amount": 1.0}) + b"x"])
    good, empty, long = decoded.transform(decode(Avro(json.dumps(SCHEMA)))).collect()
    assert tuple(good.value) == (1, None)
    assert_mentions(empty.error, "avro: ", "EOFError")
    assert_mentions(long.error, "avro: ", "1 bytes")


def test_avro_types_with_one_name_in_two_namespaces_are_columns_of_their_own(raw):
    billing, shipping = (
        {"type": "record", "name": "Address", "namespace": space, "fields": [{"name": name, "type": type_}]}
        for space, name, type_ in (("billing", "iban", "string"), ("shipping", "postcode", "int"))
    )
    status = {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]}
    types = {"a": status, "b": "shop.Status", "p": billing, "q": shipping, "r": "billing.Address"}
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    schema = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    order = {"a": "NEW", "b": "PAID", "p": {"iban": "DE1"}, "q": {"postcode": 1}, "r": {"iban": "DE2"}}
    (row,) = typed_columns(raw([avro(order, schema)]), Avro(json.dumps(schema))).collect()
    assert row.error is None
    assert (row.a, row.b) == ("NEW", "PAID")
    assert [row.p.iban, row.q.postcode, row.r.iban] == ["DE1", 1, "DE2"]


@pytest.mark.parametrize(
    ("decoder", "reason"),
    [
        (lambda: Avro("{"), "the Avro schema is not JSON"),
        (lambda: Avro('"long"'), "the Avro schema is not a record"),
        (lambda: Avro('{"type": "record"}', "order_id BIGINT"), "the Avro schema cannot be used"),
    ],
    ids=["no JSON", "no record", "no name"],
)
def test_an_invalid_avro_schema_is_refused_on_the_driver(raw, decoder, reason):
    with pytest.raises(InvalidInput, match=reason):
        raw([]).transform(decode(decoder()))
