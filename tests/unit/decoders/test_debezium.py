"""Changes of Debezium become rows, or have an error with the path of what does not fit."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime

import pytest

from kinesis_assets.decoders.debezium import Debezium
from kinesis_assets.decoders.formats import FORMATS
from kinesis_assets.decoders.json_paths import Only
from kinesis_assets.decoders.split import Split
from support.database_changes import rows_of
from support.raw_rows import decoded
from support.spark_types import spark_type

NOT_AVAILABLE = "__debezium_unavailable_value"
MOMENT = datetime(2026, 5, 6, 7, 8, 9, 123_456, tzinfo=UTC)
SOURCE = {
    "connector": "postgresql",
    "ts_ms": 1778051289123,
    "ts_us": 1778051289123456,
    "lsn": 90210,
    "txId": 5,
}
POSITION = "00000000000000090210"


def envelope(op="u", after=None, before=None, source=SOURCE, **fields):
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1778051290000, **fields}


def from_source(source):
    return envelope("c", {"id": 1}, source=source)


def with_schema(payload, **columns):
    """Return a record with a schema, in which columns have these types and names."""
    row = [{"field": name, "optional": True, **column} for name, column in columns.items()]
    fields = [{"type": "struct", "field": name, "fields": row} for name in ("before", "after")]
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}


def rows(ddl, *documents, key=("id",)):
    return rows_of(Debezium(spark_type(f"id long, {ddl}"), key), *documents)


def added(operation, **others):
    return {"_operation": operation, "_changed_at": MOMENT, "_position": POSITION, **others}


@pytest.mark.parametrize(("op", "operation"), [("c", "insert"), ("u", "update"), ("r", "load")])
def test_a_change_is_a_row_with_its_operation_time_and_position(op, operation):
    document = envelope(op, {"id": 3, "name": "ann", "other": []})
    assert rows("name string", document) == [{"id": 3, "name": "ann", **added(operation)}]


@pytest.mark.parametrize("after", [{}, {"after": None}])
def test_a_deletion_has_the_row_before_it(after):
    document = envelope("d", before={"id": 3, "name": None})
    del document["after"]
    assert rows("name string not null", {**document, **after}) == [{"id": 3, **added("delete")}]


def test_a_schema_around_the_envelope_is_optional():
    document = envelope("c", {"id": 3})
    expected = [{"id": 3, **added("insert")}]
    assert rows("a int", with_schema(document, id={"type": "int64"})) == expected
    assert rows("a int", {"schema": None, "payload": document}) == expected
    assert (
        rows("a int", {"payload": document, "schema": {"fields": [1, {"field": "after", "fields": 2}]}})
        == expected
    )


def test_columns_may_have_the_names_of_a_record_with_a_schema():
    document = envelope("c", {"id": 3, "schema": "s", "payload": "p"})
    assert rows("schema string, payload string", document) == [
        {"id": 3, "schema": "s", "payload": "p", **added("insert")}
    ]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"null",
        b"default",
        {"schema": None, "payload": None},
        {"ts_ms": 1778051290000},
        {"ts_ms": 1778051290000, "ts_us": 1778051290000000, "ts_ns": 1778051290000000000},
        {
            "schema": {"type": "struct", "name": "io.debezium.connector.common.Heartbeat"},
            "payload": {"ts_ms": 1},
        },
        {"status": "END", "id": "5:90210", "event_count": 2, "data_collections": [], "ts_ms": 1},
        {"source": {"file": "binlog.000003"}, "ts_ms": 1, "databaseName": "d", "ddl": "DROP TABLE t"},
        {"op": "m", "source": SOURCE, "message": {"prefix": "p", "content": "aGk="}},
    ],
)
def test_a_record_without_a_change_has_no_row(document):
    assert rows("a int", document) == []


def test_an_update_that_moves_a_row_deletes_the_one_with_the_old_key():
    assert rows("name string", envelope("u", {"id": 4, "name": "b"}, {"id": 3, "name": "a"})) == [
        {"id": 3, "name": "a", **added("delete")},
        {"id": 4, "name": "b", **added("update")},
    ]


@pytest.mark.parametrize("before", [None, {"id": 4, "name": "a"}, {"id": None}, {}])
def test_an_update_of_the_same_key_is_one_row(before):
    assert rows("name string", envelope("u", {"id": 4}, before)) == [{"id": 4, **added("update")}]


@pytest.mark.parametrize(
    ("ddl", "placeholder"),
    [
        ("string", NOT_AVAILABLE),
        ("string", f'{{"{NOT_AVAILABLE}":"{NOT_AVAILABLE}"}}'),
        ("variant", NOT_AVAILABLE),
        ("binary", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("decimal(38,2)", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("array<string>", [NOT_AVAILABLE]),
        ("array<binary>", ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]),
        ("array<string>", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        ("array<decimal(4,2)>", [b64encode(bytes([byte])).decode() for byte in NOT_AVAILABLE.encode()]),
        ("array<int>", [*NOT_AVAILABLE.encode()]),
        ("array<double>", [float(each) for each in NOT_AVAILABLE.encode()]),
        ("map<string, string>", {NOT_AVAILABLE: NOT_AVAILABLE}),
        ("struct<a: int>", NOT_AVAILABLE),
        ("string not null", NOT_AVAILABLE),
    ],
)
def test_a_value_that_is_not_available_is_null_and_its_column_unchanged(ddl, placeholder):
    document = json.dumps(envelope("u", {"id": 4, "a": placeholder}), separators=(",", ":")).encode()
    assert rows(f"a {ddl}", document) == [{"id": 4, **added("update", _unchanged=["a"])}]


def test_unchanged_columns_are_in_the_order_of_the_schema():
    after = {"b": NOT_AVAILABLE, "id": 4, "c": 1, "a": NOT_AVAILABLE, "other": NOT_AVAILABLE}
    assert rows("a string, c int, b string", envelope("u", after)) == [
        {"id": 4, "c": 1, **added("update", _unchanged=["a", "b"])}
    ]


def test_a_text_with_a_placeholder_in_it_is_a_value():
    after = {"id": 4, "a": f"{NOT_AVAILABLE}.", "b": [NOT_AVAILABLE, "x"]}
    assert rows("a string, b array<string>", envelope("u", after)) == [{**after, **added("update")}]


def test_a_value_that_is_only_available_before_a_change_is_that_of_the_row():
    after, before = {"id": 5, "a": NOT_AVAILABLE, "b": NOT_AVAILABLE}, {"id": 4, "a": "long", "b": None}
    assert rows("a string, b string", envelope("u", after, before)) == [
        {"id": 4, "a": "long", **added("delete")},
        {"id": 5, "a": "long", **added("update", _unchanged=["b"])},
    ]


def test_a_deletion_may_lack_values():
    assert rows("a array<int>", envelope("d", before={"id": 4, "a": NOT_AVAILABLE})) == [
        {"id": 4, **added("delete")}
    ]


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ({"lsn": 24023128}, "00000000000024023128"),
        ({"lsn": 18446744073709551615}, "18446744073709551615"),
        ({"lsn": None, "ts_ms": 1}, None),
        ({"file": "log.000003", "pos": 154, "row": 2}, "log.0000000003/00000000000000000154/0000000002"),
        ({"file": "binlog.1000000", "pos": 4}, "binlog.0001000000/00000000000000000004/0000000000"),
        ({"file": None, "pos": 0}, None),
        ({"scn": "2125863", "commit_scn": "2125868"}, "00000000000002125868/00000000000002125863"),
        ({"scn": "2125863", "commit_scn": None}, "00000000000002125863/00000000000002125863"),
        ({"scn": 7}, "00000000000000000007/00000000000000000007"),
        (
            {"commit_lsn": "0027:0758:0005", "change_lsn": "0027:0758:0003", "event_serial_no": 2},
            "0027:0758:0005/0027:0758:0003/0000000002",
        ),
        (
            {"commit_lsn": "00000027:00000758:0005", "change_lsn": None},
            "00000027:00000758:0005//0000000000",
        ),
        ({"ts_ms": 1778051289000, "ord": 31}, "00001778051289000000/0000000031"),
        ({"ts_us": 1778051289123456, "vgtid": "[]"}, "00001778051289123456/0000000000"),
        ({}, None),
    ],
)  # fmt: skip
def test_positions_have_the_order_of_the_log(source, position):
    [row] = rows("a int", from_source(source))
    assert row.get("_position") == position


@pytest.mark.parametrize(
    ("source", "at"),
    [
        ({"ts_us": 1778051289123456, "ts_ms": 0}, MOMENT),
        ({"ts_ns": 1778051289123456999, "ts_ms": 0}, MOMENT),
        ({"ts_ms": 1778051289123}, MOMENT.replace(microsecond=123_000)),
        ({"ts_ms": None}, None),
        (None, None),
    ],
)
def test_the_time_of_a_change_is_the_most_precise_one(source, at):
    [row] = rows("a int", from_source(source))
    assert row.get("_changed_at") == at


def test_a_flat_row_is_a_row():
    document = {
        "id": 1,
        "a": 2,
        "__op": "r",
        "__deleted": "false",
        "__source_ts_us": 1778051289123456,
        "__lsn": 90210,
    }
    assert rows("a int", document) == [{"id": 1, "a": 2, **added("load")}]


@pytest.mark.parametrize(
    ("fields", "operation"),
    [
        ({"__op": "c"}, "insert"),
        ({"__op": "d"}, "delete"),
        ({"__deleted": "true"}, "delete"),
        ({"__deleted": True}, "delete"),
        ({"__op": "u", "__deleted": "true"}, "delete"),
        ({"__deleted": "false"}, "update"),
    ],
)
def test_the_operation_of_a_flat_row(fields, operation):
    source = {"__source_ts_us": 1778051289123456, "__source_lsn": 90210}
    assert rows("a int", {"id": 1, **fields, **source}) == [{"id": 1, **added(operation)}]


def test_a_flat_row_has_the_fields_of_its_change_that_are_declared():
    fields = {"__op": "u", "__deleted": "false", "__source_ts_us": 1778051289123456, "__lsn": 90210}
    columns = "__op string not null, __deleted string, __source_ts_us long not null, __lsn long"
    assert rows(columns, {"id": 1, **fields}) == [{"id": 1, **fields, **added("update")}]


def test_a_declared_field_of_a_change_has_the_declared_type():
    fields = {"__op": "u", "__source_ts_us": 1778051289123456, "__source_lsn": 90210}
    assert rows("__source_ts_us timestamp, __source_lsn double", {"id": 1, **fields}) == [
        {"id": 1, "__source_ts_us": MOMENT, "__source_lsn": 90210.0, **added("update")}
    ]


@pytest.mark.parametrize("column", [{"__deleted": "false"}, {"__op": "x"}, {"a": "__op"}])
def test_an_envelope_may_have_the_names_of_a_flat_row_within_it(column):
    expected = [{"id": 1, **column, **added("insert")}]
    document = envelope("c", {"id": 1, **column})
    assert rows("a string, __op string, __deleted string", document) == expected
    assert rows("a string, __op string, __deleted string", with_schema(document)) == expected


def test_a_flat_row_may_have_a_schema_and_lack_values():
    row = {"id": 1, "a": NOT_AVAILABLE, "at": 1778051289123, "__op": "u"}
    columns = [{"type": "int64", "name": "io.debezium.time.Timestamp", "field": "at"}]
    document = {"schema": {"type": "struct", "fields": columns}, "payload": row}
    assert rows("a string, at timestamp", document) == [
        {"id": 1, "at": MOMENT.replace(microsecond=123_000), "_operation": "update", "_unchanged": ["a"]}
    ]


def test_images_of_mongodb_are_texts():
    source = {"connector": "mongodb", "ts_ms": 1778051289000, "ord": 2}
    after = json.dumps({"_id": {"$oid": "596e275826f08b2730779e1f"}, "name": "ann"})
    [row] = rows("_id struct<`$oid`: string>, name string", envelope("c", after, source=source), key=("_id",))
    assert row["_id"] == {"$oid": "596e275826f08b2730779e1f"}
    assert row["name"] == "ann"


def test_source_is_the_block_of_the_envelope():
    document = envelope("u", {"id": 2}, {"id": 1})
    found = rows("_source struct<txId: long, connector: string>", document, with_schema(document))
    assert [row["_source"] for row in found] == [{"txId": 5, "connector": "postgresql"}] * 4


@pytest.mark.parametrize(
    "document",
    [envelope("u", {"id": 2}, source=None), {"op": "u", "after": {"id": 2}}, {"id": 2, "__op": "u"}],
)
def test_a_change_without_the_block_has_no_source(document):
    assert rows("_source struct<txId: long>", document) == [{"id": 2, "_operation": "update"}]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (envelope("c", None), "Expected `object`, got `null` - at `$.after`"),
        (envelope("d", None), "Expected `object`, got `null` - at `$.before`"),
        (envelope("d", before={"a": 1}), "Expected a value of `id`, got `null` - at `$.before`"),
        (envelope("u", {"a": 1}), "Expected a value of `id`, got `null` - at `$.after`"),
        (envelope("c", {"id": "1"}), "Expected `int | null`, got `str` - at `$.after.id`"),
        (envelope("u", {"id": 1}, {"id": "1"}), "Expected `int | null`, got `str` - at `$.before.id`"),
        (envelope("c", []), "Expected `str | object | null`, got `array` - at `$.after`"),
        (envelope("c", "x"), "JSON is malformed: invalid character (byte 0)"),
        (envelope("x", {"id": 1}), "Invalid enum value 'x' - at `$.op`"),
        (envelope(1, {"id": 1}), "Expected `str | null`, got `int` - at `$.op`"),
        (from_source({"lsn": "1"}), "Expected `int | null`, got `str` - at `$.source.lsn`"),
        (from_source({"scn": "x"}), "'x' is not a number - at `$.source.commit_scn`"),
        (from_source({"ts_ms": 10**15}), "1000000000000000 is out of range - at `$.source.ts_ms`"),
        ({"id": 1, "a": 2}, "Object missing required field `op`"),
        ({}, "Object missing required field `op`"),
        ({"__op": "c"}, "Expected a value of `id`, got `null` - at `$`"),
        ({"__op": "x", "id": 1}, "Invalid enum value 'x' - at `$.__op`"),
        ({"__op": "c", "id": "1"}, "Expected `int | null`, got `str` - at `$.id`"),
        ([], "Expected `object`, got `array`"),
        (with_schema({"id": 1}), "Object missing required field `op` - at `$.payload`"),
        (
            with_schema(envelope("c", {"id": "1"})),
            "Expected `int | null`, got `str` - at `$.payload.after.id`",
        ),
        (with_schema(envelope("d")), "Expected `object`, got `null` - at `$.payload.before`"),
        (with_schema([]), "Expected `object`, got `array` - at `$.payload`"),
        (with_schema([NOT_AVAILABLE]), "Expected `object`, got `array` - at `$.payload`"),
        (b"{", "Input data was truncated"),
        (b"Default", "JSON is malformed: invalid character (byte 0)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_decoded(document, reason):
    assert rows("a int", document) == [reason]


def test_a_table_that_was_truncated_is_an_error():
    [reason] = rows("a int", envelope("t"))
    assert "was truncated" in reason
    assert "rebuild this table" in reason
    assert reason.endswith("at `$.op`")


def test_a_required_column_that_is_null_is_an_error():
    assert rows("a int not null", envelope("c", {"id": 1})) == [
        "Expected a value of `a`, got `null` - at `$.after`"
    ]


def test_unchanged_columns_have_the_names_under_which_they_are_stored():
    stored_as = {"a": ["note", "short_note"], "b": ["b", "c"]}
    decoder = Debezium(spark_type("id long, A string, b string"), ("id",), stored_as)
    document = envelope("u", {"id": 1, "A": NOT_AVAILABLE, "b": NOT_AVAILABLE})
    assert rows_of(decoder, document) == [
        {"id": 1, **added("update", _unchanged=["note", "short_note", "b", "c"])}
    ]


def test_the_rows_of_a_record_are_its_documents_and_a_bad_record_is_kept_whole():
    moved, bad = envelope("u", {"id": 2}, {"id": 1}), envelope("c", {"id": "x"})
    records = [json.dumps(each).encode() for each in (moved, bad)]
    only = Only({"op": ["u", "c"]}, FORMATS["debezium"].changes.tombstones)
    found = decoded([b"default", *records, b""], only, Debezium(spark_type("id long, a int"), ("id",)))
    assert [(row["sequence_number"], row["document_number"], row["error"]) for row in found] == [
        ("1", 0, None),
        ("1", 0, None),
        ("2", 0, "debezium: Expected `int | null`, got `str` - at `$.after.id`"),
    ]
    assert [row["value"] and row["value"]["id"] for row in found] == [1, 2, None]
    assert [row["data"] for row in found] == [records[0], records[0], records[1]]


def test_the_number_of_a_document_does_not_depend_on_how_many_rows_others_have():
    moved, bad = envelope("u", {"id": 2, "a": 1}, {"id": 1}), envelope("c", {"id": "x"})
    lines = b"\n".join(json.dumps(each).encode() for each in (moved, bad))
    for a, numbers in (("int", [0, 0, 1]), ("string", [0, 1])):  # with which the first one is bad, too
        found = decoded([lines], Split("lines"), Debezium(spark_type(f"id long, a {a}"), ("id",)))
        assert [row["document_number"] for row in found] == numbers
        assert found[-1]["error"] == "debezium: Expected `int | null`, got `str` - at `$.after.id`"


def test_the_rows_of_a_record_that_is_one_document_are_numbered():
    moved = json.dumps(envelope("u", {"id": 2}, {"id": 1})).encode()
    found = decoded([moved], Debezium(spark_type("id long"), ("id",)))
    assert [row["document_number"] for row in found] == [0, 1]
