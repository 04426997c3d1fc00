"""What becomes of records that a typed table cannot decode."""

from __future__ import annotations

import json
from io import BytesIO
from uuid import UUID

import fastavro
import pytest

from kinesis_assets.decoders import SchemaVersion, glue
from kinesis_assets.errors import InvalidInput
from support.derived import order
from support.typed_tables import BAD, KEEPING, REASON

BY_ID = {"key": ("id",), "order_by": ("amount",)}
DOUBLED = ["*", "2 * amount AS double"]

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": ["null", "double"]}],
}


def bad_of_json() -> tuple[str, bytes, bytes, bytes, str]:
    return "json", b"", order(1, 2.5), BAD, REASON


def bad_of_avro() -> tuple[str, bytes, bytes, bytes, str]:
    reason = "avro: the record does not match its schema"
    return "avro", json.dumps(AVRO).encode(), avro(1, 2.5), b"\x02", reason


def avro(id_: int, amount: float | None) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": id_, "amount": amount})
    return out.getvalue()


@pytest.mark.parametrize("case", [bad_of_json, bad_of_avro])
def test_a_record_that_cannot_be_decoded_is_kept_with_its_bytes_its_position_and_the_reason(typed, case):
    format_, typed.schema_file, good, bad, reason = case()
    typed.consume(good, bad, format=format_)
    rows = {row["id"]: row for row in typed.derived.rows.to_pylist()}
    kept = rows[None]
    (source,) = (row for row in typed.bench.rows if row["data"] == bad)
    assert (rows[1]["amount"], rows[1]["error"]) == (2.5, None)
    assert kept["error"].startswith(reason)
    assert {name: kept[name] for name in KEEPING[1:]} == {name: source[name] for name in KEEPING[1:]}


def test_a_record_of_the_glue_schema_registry_that_cannot_be_decoded_is_kept(typed, monkeypatch):
    known, unknown = (UUID(int=number) for number in (1, 2))
    version = SchemaVersion("AVRO", json.dumps(AVRO))
    answers = {str(known): version}
    monkeypatch.setattr(glue.GlueRegistry, "resolved", lambda _: answers)
    framed = [b"\x03\x00" + each.bytes + avro(1, 2.5) for each in (known, unknown)]
    typed.consume(*framed, format="glue")
    assert typed.values("id", "error") == [(1, None), (None, f"glue: schema version {unknown}: not found")]


def test_a_damaged_aggregate_is_kept_with_the_reason_of_the_raw_table(typed):
    typed.bench.put(b"\xf3\x89\x9a\xc2broken aggregate")
    typed.bench.run()
    typed.consume(order(1))
    (reason,) = (row["error"] for row in typed.bench.rows if row["error"])
    assert reason in typed.values("error")


def test_other_columns_are_null_in_a_record_that_cannot_be_decoded(typed):
    typed.consume(BAD, select=["id", "coalesce(amount, 0) AS amount", "'shop' AS origin", "arrival_date"])
    assert typed.values("id", "amount", "origin") == [(None, None, None)]
    assert typed.values("arrival_date") != [None]  # a column of the raw table by its name alone


def test_a_record_that_cannot_be_decoded_replaces_no_other(typed):
    by_key = {"key": ("partition_key",), "order_by": ("amount",), "select": ["*", "partition_key"]}
    typed.consume(order(1, 1.0), **by_key)
    typed.consume(BAD, BAD, **by_key)
    typed.consume(order(2, 2.0), **by_key)
    assert typed.values("id", "error") == [(2, None), (None, REASON), (None, REASON)]


def test_each_record_that_cannot_be_decoded_is_kept_once_over_several_runs(typed):
    for number in range(3):
        typed.consume(order(number), BAD)
    assert len(typed.values("error")) == 6
    assert len({number for number in typed.values("sequence_number") if number}) == 3


@pytest.mark.parametrize("name", KEEPING)
def test_a_field_with_the_name_of_a_column_that_keeps_bad_records_is_refused(typed, name):
    with pytest.raises(InvalidInput, match=rf"^table .*: .*\b{name}\b"):
        typed.consume(order(1), schema=f"{name} STRING")
    assert typed.is_missing()


def test_such_a_field_is_accepted_under_another_name_or_if_errors_are_separate(typed):
    payload = b'{"error": "none"}'
    typed.consume(payload, schema="error STRING", select=["error AS problem"])
    assert typed.values("problem", "error") == [("none", None)]
    typed.consume(payload, schema="error STRING", select=["error AS problem"], on_bad_record="separate")
    assert typed.values("problem") == ["none", "none"]


@pytest.mark.parametrize(
    "key", [{}, pytest.param(BY_ID, marks=pytest.mark.thorough)], ids=["append", "upsert"]
)
def test_a_commit_counts_the_records_that_could_not_be_decoded(typed, key):
    (first,) = typed.consume(order(1), BAD, BAD, **key)
    (second,) = typed.consume(order(1), BAD, **key)
    (third,) = typed.consume(order(1), **key)
    assert [commit.bad_records for commit in (first, second, third)] == [2, 1, 0]
    assert [commit.records for commit in (first, second, third)] == [3, 2, 1]


# Separate errors


def test_separate_errors_are_in_a_table_with_a_cursor_of_its_own(typed):
    for number in range(3):
        typed.consume(order(number), BAD, on_bad_record="separate")
    assert typed.columns == ["id", "amount"]
    assert typed.values("id") == [0, 1, 2]
    errors = typed.errors()
    assert [(row["error"], row["data"]) for row in errors] == [(REASON, BAD)] * 3
    assert len({row["sequence_number"] for row in errors}) == 3
    assert typed.errors() == errors  # a run without new records adds none
    newest = typed.errors_table.snapshot().newest
    assert (newest.rows, newest.bad_records) == (3, 3)


@pytest.mark.parametrize(
    ("select", "key"),
    [
        pytest.param([], {}, id="fields, append"),
        pytest.param([], BY_ID, id="fields, upsert", marks=pytest.mark.thorough),
        pytest.param(DOUBLED, {}, id="expressions, append", marks=pytest.mark.thorough),
        pytest.param(DOUBLED, BY_ID, id="expressions, upsert"),
    ],
)
def test_a_commit_counts_the_records_that_are_in_the_table_of_errors(typed, key, select):
    separate = {"on_bad_record": "separate", "select": select} | key
    (first,) = typed.consume(order(1), BAD, BAD, **separate)
    (second,) = typed.consume(order(2), **separate)
    (third,) = typed.consume(BAD, **separate)
    assert [(each.rows, each.bad_records) for each in (first, second, third)] == [(1, 2), (1, 0), (0, 1)]
    assert typed.values("id") == [1, 2]


def test_records_are_counted_beside_a_condition(typed):
    (first,) = typed.consume(order(1), order(9), BAD, on_bad_record="separate", where="id < 9")
    assert (first.rows, first.records, first.bad_records) == (1, 3, 1)
    assert len(typed.errors()) == 1


def test_expressions_see_no_record_that_cannot_be_decoded(typed):
    strict = ["id", "IF(id IS NULL, CAST(raise_error('no id') AS INT), id) AS checked"]
    typed.consume(order(1), BAD, on_bad_record="separate", select=strict)
    assert typed.values("id", "checked") == [(1, 1)]


def test_a_field_with_the_name_of_the_mark_is_refused(typed):
    with pytest.raises(InvalidInput, match="__error"):
        typed.consume(order(1), schema="__ERROR STRING", on_bad_record="separate")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    "key",
    [{}, pytest.param({"key": ("line",), "order_by": ("id",)}, marks=pytest.mark.thorough)],
    ids=["append", "upsert"],
)
@pytest.mark.parametrize(
    ("generator", "lines"),
    [
        ("explode(lines) AS line", [1, 2]),
        ("explode_outer(lines) AS line", [1, 2, None]),
        ("explode(array_append(lines, 3)) AS line", [1, 2, 3, 3]),
        ("explode_outer(array_append(coalesce(lines, array()), 3)) AS line", [1, 2, 3, 3]),
    ],
)
def test_a_generator_returns_the_rows_of_good_records_beside_each_bad_one(typed, generator, lines, key):
    typed.consume(
        *(b'{"id": 1, "lines": [1, 2]}', b'{"id": 2, "lines": []}', b'{"lines": 3}'),
        schema="id INT, lines ARRAY<INT>",
        select=["id", generator, "arrival_date"],
        **key,
    )
    rows = typed.derived.rows.to_pylist()
    good = sorted((row["line"] for row in rows if row["error"] is None), key=str)
    assert good == sorted({*lines} if key else lines, key=str)
    (bad,) = (row for row in rows if row["error"] is not None)
    assert (bad["id"], bad["line"], bad["data"]) == (None, None, b'{"lines": 3}')
    assert bad["arrival_date"] is not None


def test_of_the_rows_that_a_generator_returns_of_a_record_the_last_one_is_newer_beside_a_bad_record(typed):
    by_key = {"key": ("id",), "order_by": ("at",), "select": ["id", "at", "explode(lines) AS line"]}
    payloads = b'{"id": 1, "lines": [1, 3, 2]}', b'{"id": "one"}', b'{"id": 2, "lines": [3, 4]}'
    typed.consume(*payloads, schema="id INT, at INT, lines ARRAY<INT>", **by_key)
    assert typed.values("id", "line") == [(1, 2), (2, 4), (None, None)]


def test_a_generator_is_accepted_if_errors_are_separate(typed):
    lines = {"schema": "lines ARRAY<INT>", "select": ["explode(lines) AS line"]}
    typed.consume(b'{"lines": [1, 2]}', b'{"lines": 3}', on_bad_record="separate", **lines)
    assert typed.values("line") == [1, 2]
