"""What is proposed for samples of records in the shapes that streams have."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from kinesis_assets import KinesisRoutesComponent, KinesisTableComponent
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.decoders.decoder import DecoderSettings
from kinesis_assets.decoders.formats import find_format
from kinesis_assets.decoders.proposal import Proposal, propose
from kinesis_assets.errors import InvalidInput
from support.dagster_components import dagsters_own_warnings, loaded
from support.glue_records import avro, framed
from support.mentions import assert_mentions
from support.raw_rows import decoded
from support.sampled_shapes import SHAPES, captured, connect, container, courier, log, member, parcel, text
from support.spark_types import spark_type

COMPONENTS = {each.__name__: each for each in (KinesisRoutesComponent, KinesisTableComponent)}
PLACE = ("name", "source", "table")


def proposed(*records: bytes) -> Proposal:
    return propose(records, "depot", "depot", "./depot/")


def without_place(settings: Any) -> dict[str, Any]:
    """Return settings without the names of tables."""
    found = {name: value for name, value in settings.items() if name not in PLACE}
    if "routes" in found:
        found["routes"] = [*map(without_place, found["routes"])]
    return found


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_each_shape_is_recognized(shape):
    proposal = proposed(*shape.records)
    assert without_place(proposal.attributes) == shape.proposed
    assert [each for each in shape.comments if not any(each in line for line in proposal.comments)] == []


@dagsters_own_warnings
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_each_proposal_is_loaded(shape):
    proposal = proposed(*shape.records)
    _, definitions = loaded(COMPONENTS[proposal.type], **proposal.attributes)
    assert len(definitions.assets) == 1 + len(proposal.attributes.get("routes", ()))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_table_has_at_most_ten_settings(shape):
    attributes = proposed(*shape.records).attributes
    assert max(map(len, [attributes, *attributes.get("routes", ())])) <= 10


def test_no_value_of_a_record_is_shown():
    mail = "ida@example.com"
    for shape in (
        text(*({"mail": mail, "n": each} for each in range(4))),
        [f"{each},{mail}".encode() for each in range(4)],
        text(*(captured("people", "insert", 1, id=each, mail=mail) for each in range(4))),
    ):
        proposal = proposed(*shape)
        assert mail not in f"{proposal.comments} {proposal.attributes}"


@pytest.mark.slow
def test_no_further_record_is_read_after_64_mib():
    large = gzip.compress(b'{"a": "%s"}' % (b"x" * (33 << 20)), compresslevel=1)
    comments = proposed(large, large, large, large).comments
    assert comments[0].startswith("Proposed from 2 records of ")


# Splits


@pytest.mark.parametrize(
    ("records", "split"),
    [
        ([b'{"a": 1}', b'{"a": 2}\n'], None),
        ([b'{"a":\n1}'], None),
        ([b'{"a": 1}\n{"a": 2}'], "lines"),
        ([b'{"a": 1}\nlost', b'{"a": 2}'], "lines"),
        ([b'\xef\xbb\xbf{"a": 1}', b'{"a": 2}'], "lines"),
        ([b'{"a": 1}\n{"a": 2}', b'{"a":\n1}'], "documents"),
        ([b'{"a": 1}{"a": 2}\n{"a": 3}'], "documents"),
        ([b'[{"a": 1}]', b'{"a": 1}'], None),
        ([b'[{"a": 1}]', b"[]", b'[{"a": 2}]', b'{"a": 1}'], "array"),
    ],
    ids=str,
)
def test_records_are_split_as_most_of_them_can_be(records, split):
    assert proposed(*records).attributes.get("split") == split


# Arrays of rows


def measured(values: int, **fields: Any) -> dict[str, Any]:
    return {"site": "north", "values": [{"celsius": each} for each in range(values)], **fields}


@pytest.mark.parametrize(
    ("documents", "path"),
    [
        ([measured(2)] * 4, "values"),
        ([measured(2)] * 3, None),
        ([measured(1)] * 4, None),
        ([measured(2, id=number) for number in range(4)], None),
        ([measured(2, notes=[{"by": "x"}])] * 4, None),
        ([measured(0)] * 4, None),
        ([{"id": 1, "records": [{"n": 1}]}], "records"),
        ([{"id": 1, "body": {"Records": [{"n": 1}]}}], "body.Records"),
        ([{"id": 1, "records": [1]}], None),
        ([{"id": 1, "records": [{"n": 1}]}, {"id": 2}, {"id": 3}], None),
    ],
    ids=[
        "many elements",
        "few documents",
        "few elements",
        "documents with an id",
        "two arrays",
        "no elements",
        "a known name",
        "a nested one",
        "no objects",
        "few documents have it",
    ],
)
def test_an_array_is_unnested_if_its_elements_are_the_rows(documents, path):
    assert proposed(*text(*documents)).attributes.get("unnest") == path


def test_an_array_that_may_be_unnested_is_noted():
    comments = proposed(*text({"id": 1, "lines": [{"n": 1}, {"n": 2}]})).comments
    assert "lines has 2 objects in 1 documents. With unnest: lines, each would be a row." in comments


@pytest.mark.parametrize(
    "documents",
    [
        [{"id": "a", "records": [{"ID": 1}]}],
        [{"id": "a", "records": [{"data": 1}]}],
        [{"id": "a", "records": [{}]}],
        [{"id": "a", "body": {"records": [{"n": 1}]}}],
    ],
    ids=["equal names", "a reserved name", "no fields", "nested"],
)
def test_elements_whose_fields_cannot_be_columns_remain_structs(documents):
    assert "select" not in proposed(*text(*documents)).attributes


def test_a_field_beside_elements_that_cannot_be_a_column_gets_another_name():
    attributes = proposed(*text({"a b": 1, "records": [{"n": 1}]})).attributes
    assert attributes["select"] == ["`a b` AS a_b", "records"]


def test_all_messages_of_logs_are_of_control_only_at_first():
    attributes = proposed(log("CONTROL_MESSAGE", "probe")).attributes
    assert (attributes["unnest"], attributes.get("only")) == ("logEvents", None)


# Kinds


def test_routes_have_names_that_are_distinct():
    kinds = ("A b", "a-b", "router", "\N{SNOWMAN}")
    documents = [{"kind": kind, f"field {kind}": 1} for kind in kinds for _ in range(3)]
    attributes = proposed(*text(*documents)).attributes
    names = [each["name"] for each in attributes["routes"]]
    assert names == ["depot_a_b", "depot_a_b_", "depot_router_", "depot_other"]
    assert [each["table"] for each in attributes["routes"]] == [f"./{name}" for name in names]
    assert (attributes["name"], attributes["table"]) == ("depot_router", "./depot_router")


def test_documents_without_a_kind_are_counted():
    documents = [*map(parcel, range(20)), *map(courier, range(20)), {"other": 1}]
    assert "detail-type has no such value in 1 documents, which have no table here." in (
        proposed(*text(*documents)).comments
    )


# Changes


def test_tables_of_debezium_are_routed_by_the_block_source():
    of_other = [each.replace(b'"members"', b'"clubs"') for each in (member("c", 1, None, {"member": 1}),)]
    attributes = proposed(member("c", 1, None, {"member": 1}), *of_other).attributes
    assert attributes["route_by"] == "payload.source.table"
    assert [each["match"] for each in attributes["routes"]] == ["members", "clubs"]


def test_changes_of_several_tables_in_a_record_have_a_table_of_the_first():
    lines = b"\n".join(text(captured("buses", "load", 1, id=1), captured("drivers", "load", 2, id=2)))
    proposal = proposed(lines)
    assert proposal.attributes["only"] == {"metadata.table-name": "buses"}
    assert "metadata.table-name is drivers in 1 of 2 documents (50.0%)." in proposal.comments


def test_a_table_that_nearly_all_changes_are_of_is_the_only_one():
    most = [captured("buses", "load", 1, id=each) for each in range(19)]
    attributes = proposed(*text(*most, captured("drivers", "load", 2, id=2))).attributes
    assert attributes["only"] == {"metadata.table-name": "buses"}


def test_a_name_of_a_table_that_is_no_text_is_none():
    changes = [captured("buses", "load", 1, id=1) for _ in range(3)]
    for change, name in zip(changes, ([], {}, ""), strict=True):
        change["metadata"]["table-name"] = name
    assert proposed(*text(*changes)).type == "KinesisTableComponent"
    buses = captured("buses", "load", 1, id="x")
    assert proposed(*text(buses, *changes)).attributes["schema"] == "id STRING"


def test_integers_of_a_database_keep_their_digits_among_fractions():
    changes = (captured("buses", "load", 1, id=1, n=each) for each in (0.5, 10**17 + 1))
    assert proposed(*text(*changes)).attributes["schema"] == "id BIGINT,\nn DECIMAL(38, 1)"


def test_what_is_no_change_is_counted():
    change = captured("buses", "load", 1, id=1)
    comments = proposed(*text(change, change, change, {"ts_ms": 1}), b"lost").comments
    assert_mentions(comments[1], "1 of them are not JSON objects")
    assert_mentions(comments[2], "1 of them are no changes of rows")


def test_columns_that_a_format_adds_itself_are_left_out():
    attributes = proposed(*text(captured("buses", "load", 1, id=1, _operation="x", _source=1))).attributes
    assert attributes["schema"] == "id BIGINT"


def test_of_columns_in_a_schema_that_differ_by_case_only_the_first_is_used():
    columns = [connect(name, "int64") for name in ("id", "ID", "", "_record")]
    schema = {"fields": [{"field": "after", "fields": columns}]}
    change = {"schema": schema, "payload": {"op": "c", "source": {}, "after": {"id": 1}}}
    assert proposed(*text(change)).attributes["schema"] == "id BIGINT"


def test_a_column_with_another_name_keeps_those_that_the_format_adds():
    attributes = proposed(
        *text(captured("buses", "load", 1, **{"error": 1, "no id": 2, "key_id": 3}))
    ).attributes
    assert attributes["select"] == [
        "error AS error_",
        "`no id` AS no_id",
        "key_id",
        "_operation",
        "_changed_at",
    ]
    assert attributes["key"] == ["key_id"]


def test_the_column_with_values_that_are_not_known_is_not_selected():
    change = {"op": "c", "source": {}, "before": None, "after": {"a b": 1}}
    assert proposed(*text(change)).attributes["select"] == [
        "`a b` AS a_b",
        "_operation",
        "_changed_at",
        "_position",
    ]


def test_a_table_without_a_key_asks_for_one():
    comments = proposed(*text(captured("buses", "load", 1, size=1))).comments
    assert_mentions(comments[-1], "No key is found")


# Delimited values


@pytest.mark.parametrize(
    ("lines", "schema"),
    [
        (["1,a", "2,b"], "column_1 BIGINT,\ncolumn_2 STRING"),
        (["n,text", "1,a", "2,b"], "n BIGINT,\ntext STRING"),
        (["1,a", "n,text", "2,b", "n,text"], "n BIGINT,\ntext STRING"),
        (["1,a", "lost,text", "2,b"], "column_1 STRING,\ncolumn_2 STRING"),
        (["n,N", "1,2"], "column_1 STRING,\ncolumn_2 STRING"),
        (["a,b", "c,d"], "column_1 STRING,\ncolumn_2 STRING"),
        (["n,m", "1,1e999", "2,1"], "n BIGINT,\nm STRING"),
        (["n,m", f"1,{'9' * 400}", f"2,{'9' * 5000}"], "n BIGINT,\nm STRING"),
        (["n,m", "01,1", "2,2"], "n STRING,\nm BIGINT"),
        (["n,m", "1,2", "2.5,3"], "n DOUBLE,\nm BIGINT"),
    ],
    ids=str,
)
def test_columns_have_the_names_of_a_header(lines, schema):
    assert proposed(*(line.encode() for line in lines)).attributes["schema"] == schema


# Containers


def test_a_container_whose_schema_cannot_be_read_is_counted():
    good = container(CELSIUS, {"celsius": 1.5})
    damaged = [good.replace(b'"record"', b'"recorp"'), good.replace(b'{"type"', b'["type"'), good[:20]]
    comments = proposed(good, *damaged).comments
    assert_mentions(comments[1], "1 of 4 containers")
    assert_mentions(comments[2], "3 containers", "cannot be read")


# Payloads of registries


def of_glue(*payloads: bytes, compression: int = 0) -> list[bytes]:
    return [bytes([3, compression]) + bytes(16) + payload for payload in payloads]


@pytest.mark.parametrize(
    ("records", "schema"),
    [
        (of_glue(b'{"a": 1}', b"lost", b'{"a": 2}'), "a BIGINT"),
        (of_glue(zlib.compress(b'{"a": 1}'), compression=5), "a BIGINT"),
        (of_glue(b'{"a": 1}', b"lost"), {"registry": "NAME_OF_THE_REGISTRY", "name": "NAME_OF_THE_SCHEMA"}),
        (of_glue(b"lost", compression=5), {"registry": "NAME_OF_THE_REGISTRY", "name": "NAME_OF_THE_SCHEMA"}),
        ([b"\x03\x00"], {"registry": "NAME_OF_THE_REGISTRY", "name": "NAME_OF_THE_SCHEMA"}),
    ],
    ids=["most are JSON", "zlib", "half are JSON", "damaged", "short"],
)
def test_payloads_have_a_schema_if_most_are_json(records, schema):
    assert proposed(*records).attributes["schema"] == schema


CELSIUS = {"type": "record", "name": "Reading", "fields": [{"name": "celsius", "type": "double"}]}


def values_of(settings: dict[str, Any], *records: bytes) -> list[Any]:
    """Return the values that a table with a schema of a registry has."""
    table = TableSettings(**settings)
    given = DecoderSettings("", table.registered_schema, table.registry)
    decoder = find_format(str(table.format)).load().from_settings(given)
    return [row["value"] for row in decoded(records, decoder)]


@pytest.fixture
def without_jvm(monkeypatch):
    """DDL is parsed without a JVM."""
    monkeypatch.setattr(
        "kinesis_assets.decoders.registered_payloads.parse_type",
        lambda kind: spark_type(kind.lower()) if isinstance(kind, str) else kind,
    )


@pytest.mark.slow  # starts moto
@pytest.mark.usefixtures("without_jvm")
def test_a_proposal_for_glue_lacks_only_the_names_of_the_schema(schema_registry):
    schema_id = schema_registry.register("readings", "AVRO", json.dumps(CELSIUS))
    record = framed(schema_id, avro(CELSIUS, {"celsius": 1.5}))
    settings = dict(proposed(record).attributes)
    settings["schema"] |= {"registry": schema_registry.name, "name": "readings"}
    settings["registry"] = {"endpoint_url": schema_registry.endpoint}
    assert values_of(settings, record) == [{"celsius": 1.5}]


@pytest.mark.usefixtures("without_jvm")
def test_a_proposal_for_confluent_lacks_only_the_subject_and_the_address(confluent):
    confluent.register(17, "readings-value", json.dumps(CELSIUS))
    record = b"\x00\x00\x00\x00\x11" + avro(CELSIUS, {"celsius": 2.5})
    settings = dict(proposed(record).attributes)
    settings["schema"] |= {"subject": "readings-value"}
    settings["registry"] |= {"url": confluent.url}
    assert values_of(settings, record) == [{"celsius": 2.5}]


# What is not recognized


@pytest.mark.parametrize(
    ("records", "facts"),
    [
        ([b"text", b"\x03\x00" + bytes(16)], ["2 records", "1 of them begin as with format: glue"]),
        ([b"text"], ["1 records", "give the format"]),
        ([], ["0 records"]),
        ([b"{}", b"{}"], ["2 records have no fields"]),
        ([b"[1]", b"1", b"null"], ["3 records"]),
        ([b"Obj\x01"], ["1 records have no fields"]),
        (text(captured("buses", "drop-table", 1)), ["1 records have no fields"]),
    ],
    ids=["one of glue", "text", "nothing", "no fields", "values", "a damaged container", "no rows"],
)
def test_records_without_a_format_or_fields_are_refused(records, facts):
    with pytest.raises(InvalidInput) as raised:
        proposed(*records)
    assert_mentions(str(raised.value), "./depot", *facts)
