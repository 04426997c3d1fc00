"""Typed tables: decoded fields as columns, and what becomes of records that cannot be decoded."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.table_settings import TableSettings
from kinesis_assets.dagster.typed_rows import TypedRows
from kinesis_assets.decoders import schema_registry
from kinesis_assets.derive import run as derive_run
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.upsert import Upsert
from kinesis_assets.errors import BadRecordsRefused, InvalidInput
from support.derived import DerivedBench, maintain_derived, order

if TYPE_CHECKING:
    from kinesis_assets.derive.records import DerivedCommit
    from support.bench import Bench

BAD = b'{"id": "one"}'
REASON = "json: Expected `int | null`, got `str` - at `$.id`"
KEEPING = ("error", "shard_id", "sequence_number", "sub_sequence_number", "data")
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": ["null", "double"]}],
}


@dataclass
class TypedBench:
    """A typed table over a bench's table."""

    bench: Bench
    derived: DerivedBench

    def consume(
        self, *payloads: bytes, schema: str = "id INT, amount DOUBLE", **settings: Any
    ) -> list[DerivedCommit]:
        """Put records, ingest them, and consume them into the table."""
        if payloads:
            self.bench.put(*payloads)
            self.bench.run()
        return self.run(schema, errors=False, **settings)

    def errors(self, **settings: Any) -> list[dict[str, Any]]:
        """Consume what is new into the table of errors, and return its rows."""
        table = DerivedTable(f"{self.derived.table.uri}_errors")
        self.run("id INT, amount DOUBLE", errors=True, table=table, **settings)
        return DeltaTable(table.folder.uri).to_pyarrow_table().to_pylist()

    def run(
        self, schema: str, *, errors: bool, table: DerivedTable | None = None, **settings: Any
    ) -> list[DerivedCommit]:
        table = table or self.derived.table
        given = {"name": "orders", "source": "orders", "table": table.uri, "format": "json"} | settings
        rows = TypedRows(TableSettings(**given, schema="orders.avsc"), schema)
        mode = Upsert(given["key"], given["order_by"]) if "key" in given else None
        transform = rows.of_errors if errors else rows.of_table
        return replace(self.derived, table=table).run(transform=transform, mode=mode)

    @property
    def columns(self) -> list[str]:
        return [name for name in self.derived.rows.column_names if name != "_batch_id"]

    def values(self, *columns: str) -> list[Any]:
        return self.derived.values(*columns)

    def is_missing(self) -> bool:
        return not DeltaTable.is_deltatable(self.derived.table.folder.uri)


@pytest.fixture
def typed(bench, derived) -> TypedBench:
    return TypedBench(bench, derived)


# Columns


def test_the_fields_are_columns_beside_those_that_keep_bad_records(typed):
    typed.consume(order(1, 2.5), order(2))
    assert typed.columns == ["id", "amount", *KEEPING]
    assert typed.values("id", "amount") == [(1, 2.5), (2, 1.0)]
    assert {typed.values(name)[0] for name in KEEPING} == {None}


def test_select_chooses_renames_and_casts(typed):
    typed.consume(
        order(1, 2.5), select=["id AS order_id", "CAST(amount AS DECIMAL(10, 2)) AS price", "shard_id"]
    )
    assert typed.columns == [
        "order_id",
        "price",
        "shard_id",
        "error",
        "sequence_number",
        "sub_sequence_number",
        "data",
    ]
    assert typed.values("order_id", "shard_id") == [(1, "shardId-000000000000")]
    assert str(typed.values("price")[0]) == "2.50"


def test_an_asterisk_selects_all_fields(typed):
    typed.consume(order(1, 2.5), select=["*", "2 * amount AS double"])
    assert typed.columns[:3] == ["id", "amount", "double"]


def test_a_column_of_the_source_with_the_name_of_a_field_is_found_in_record(typed):
    typed.consume(
        b'{"data": 7, "stream": "north"}',
        schema="data INT, stream STRING",
        select=[
            "data AS number",
            "stream",
            "_record.stream AS source",
            "CAST(_record.data AS STRING) AS text",
        ],
    )
    assert typed.values("number", "stream", "source") == [(7, "north", typed.bench.stream)]
    assert typed.values("text") == ['{"data": 7, "stream": "north"}']


def test_where_leaves_records_out_but_keeps_those_that_cannot_be_decoded(typed):
    typed.consume(order(1, 1.0), order(2, 9.0), order(None, 9.0), BAD, where="id < 2")
    assert typed.values("id", "error") == [(1, None), (None, REASON)]


def test_records_can_be_compressed(typed):
    typed.consume(gzip.compress(order(1)), order(2), compression="gzip")
    assert [error and error[:5] for error in typed.values("error")] == ["gzip:", None]
    assert typed.values("id") == [1, None]


def test_rows_of_an_upstream_table_are_not_decoded_again(typed, tmp_path):
    typed.consume(order(1, 2.5), BAD)
    above = replace(typed.derived, table=DerivedTable(str(tmp_path / "above")))
    settings = TableSettings(
        name="above", source="orders", upstream="orders", table="above", where="error IS NULL"
    )
    above.run(source=typed.derived.table.uri, transform=TypedRows(settings, "").of_table)
    assert above.values("id", "amount") == [(1, 2.5)]


# Bad records


def bad_of_json() -> tuple[dict[str, Any], str, bytes, bytes, str]:
    return {"format": "json"}, "id INT, amount DOUBLE", order(1, 2.5), BAD, REASON


def bad_of_avro() -> tuple[dict[str, Any], str, bytes, bytes, str]:
    return (
        {"format": "avro"},
        json.dumps(AVRO),
        avro(1, 2.5),
        b"\x02",
        "avro: the record does not match its schema",
    )


def avro(id_: int, amount: float | None) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": id_, "amount": amount})
    return out.getvalue()


@pytest.mark.parametrize("case", [bad_of_json, bad_of_avro])
def test_a_record_that_cannot_be_decoded_is_kept_with_its_bytes_its_position_and_the_reason(typed, case):
    settings, schema, good, bad, reason = case()
    typed.consume(good, bad, schema=schema, **settings)
    rows = {row["id"]: row for row in typed.derived.rows.to_pylist()}
    kept = rows[None]
    (source,) = (row for row in typed.bench.rows if row["data"] == bad)
    assert (rows[1]["amount"], rows[1]["error"]) == (2.5, None)
    assert kept["error"].startswith(reason)
    assert {name: kept[name] for name in KEEPING[1:]} == {name: source[name] for name in KEEPING[1:]}


def test_a_record_of_the_glue_schema_registry_that_cannot_be_decoded_is_kept(typed, monkeypatch):
    known, unknown = (UUID(int=number) for number in (1, 2))
    version = schema_registry.SchemaVersion("AVRO", json.dumps(AVRO))
    monkeypatch.setattr(
        "kinesis_assets.decoders.GlueRegistry", lambda **_: {str(known): version}
    )  # which decodes with a mapping in place of a registry
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
    with pytest.raises(InvalidInput, match=f"the column {name} has the name of one of the columns") as caught:
        typed.consume(order(1), schema=f"{name} STRING")
    assert str(caught.value).startswith(f"table {typed.derived.table.uri}: ")
    assert typed.is_missing()


def test_such_a_field_is_accepted_under_another_name_or_if_errors_are_separate(typed):
    payload = b'{"error": "none"}'
    typed.consume(payload, schema="error STRING", select=["error AS problem"])
    assert typed.values("problem", "error") == [("none", None)]
    typed.consume(payload, schema="error STRING", select=["error AS problem"], on_bad_record="separate")
    assert typed.values("problem") == ["none", "none"]


@pytest.mark.parametrize("key", [{}, {"key": ("id",), "order_by": ("amount",)}], ids=["append", "upsert"])
def test_a_commit_counts_the_records_that_could_not_be_decoded(typed, key):
    (first,) = typed.consume(order(1), BAD, BAD, **key)
    (second,) = typed.consume(order(1), BAD, **key)
    (third,) = typed.consume(order(1), **key)
    assert [commit.bad_records for commit in (first, second, third)] == [2, 1, 0]


# Separate errors


def test_separate_errors_are_in_a_table_with_a_cursor_of_its_own(typed):
    for number in range(2):
        typed.consume(order(number), BAD, on_bad_record="separate")
    typed.consume(order(2), BAD, on_bad_record="separate")
    assert typed.columns == ["id", "amount"]
    assert typed.values("id") == [0, 1, 2]
    errors = typed.errors()
    assert [(row["error"], row["data"]) for row in errors] == [(REASON, BAD)] * 3
    assert len({row["sequence_number"] for row in errors}) == 3
    assert typed.errors() == errors  # a run without new records adds none
    newest = DerivedTable(f"{typed.derived.table.uri}_errors").snapshot().newest
    assert (newest.rows, newest.bad_records) == (3, 3)


@pytest.mark.parametrize("key", [{}, {"key": ("id",), "order_by": ("amount",)}], ids=["append", "upsert"])
@pytest.mark.parametrize("select", [[], ["*", "2 * amount AS double"]], ids=["fields", "expressions"])
def test_a_commit_counts_the_records_that_are_in_the_table_of_errors(typed, key, select):
    separate = {"on_bad_record": "separate", "select": select} | key
    (first,) = typed.consume(order(1), BAD, BAD, **separate)
    (second,) = typed.consume(order(2), **separate)
    (third,) = typed.consume(BAD, **separate)
    assert [(each.rows, each.bad_records) for each in (first, second, third)] == [(1, 2), (1, 0), (0, 1)]
    assert typed.values("id") == [1, 2]


def test_records_are_counted_beside_a_condition_only_for_a_limit(typed):
    separate = {"on_bad_record": "separate", "where": "id < 9"}
    (first,) = typed.consume(order(1), order(9), BAD, **separate)
    (second,) = typed.consume(order(1), order(9), BAD, max_bad_share=0.4, **separate)
    assert [(each.rows, each.bad_records) for each in (first, second)] == [(1, None), (1, 1)]


def test_expressions_see_no_record_that_cannot_be_decoded(typed):
    strict = ["id", "IF(id IS NULL, CAST(raise_error('no id') AS INT), id) AS checked"]
    typed.consume(order(1), BAD, on_bad_record="separate", select=strict)
    assert typed.values("id", "checked") == [(1, 1)]


def test_a_field_with_the_name_of_the_mark_is_refused(typed):
    with pytest.raises(InvalidInput, match="a field must not have the name __error"):
        typed.consume(order(1), schema="__ERROR STRING", on_bad_record="separate")


def test_a_generator_is_accepted_only_if_errors_are_separate(typed):
    lines = {"schema": "lines ARRAY<INT>", "select": ["explode(lines) AS line"]}
    typed.consume(b'{"lines": [1, 2]}', b'{"lines": 3}', on_bad_record="separate", **lines)
    assert typed.values("line") == [1, 2]
    with pytest.raises(InvalidInput, match="select: explode does not return one row"):
        typed.consume(b'{"lines": [1]}', **lines)


# Limits


def test_with_fail_a_record_that_cannot_be_decoded_fails_the_run(typed):
    typed.consume(order(1), on_bad_record="fail")
    with pytest.raises(BadRecordsRefused) as caught:
        typed.consume(order(2), BAD, on_bad_record="fail")
    reason = str(caught.value)
    assert reason.startswith(
        f"table {typed.derived.table.uri}: 1 of 2 records (a share of 0.5) cannot be decoded"
    )
    assert f": {REASON}. " in reason
    assert "set on_bad_record to keep or separate" in reason
    assert typed.values("id") == [1]
    typed.consume(on_bad_record="separate")
    assert typed.values("id") == [1, 2]


@pytest.mark.parametrize("key", [{}, {"key": ("id",), "order_by": ("amount",)}], ids=["append", "upsert"])
@pytest.mark.parametrize("policy", ["keep", "separate"])
def test_a_step_with_a_larger_share_of_bad_records_is_refused(typed, policy, key):
    half = {"on_bad_record": policy, "max_bad_share": 0.5} | key
    typed.consume(order(1), BAD, where="id < 9", **half)
    before = typed.derived.rows
    with pytest.raises(
        BadRecordsRefused,
        match=r"2 of 3 records \(a share of 0\.667\) cannot be decoded, and max_bad_share is 0\.5",
    ):
        typed.consume(order(2), BAD, BAD, where="id < 9", **half)
    assert typed.derived.rows == before
    typed.consume(order(3), order(9), BAD, where="id < 9", **half)  # of six records, one is left out
    assert [id_ for id_ in typed.values("id") if id_] == [1, 2, 3]


def test_a_generator_multiplies_no_records_of_the_share(typed):
    lines = {"schema": "lines ARRAY<INT>", "select": ["explode_outer(lines) AS line"], "max_bad_share": 0.4}
    with pytest.raises(BadRecordsRefused, match="1 of 2 records"):
        typed.consume(b'{"lines": [1, 2, 3]}', b'{"lines": 4}', **lines)
    typed.consume(**lines | {"max_bad_share": 0.5})
    assert typed.values("line") == [1, 2, 3, None]


def test_the_files_of_a_refused_step_are_deleted(typed):
    folder = Path(typed.derived.table.uri)
    with pytest.raises(BadRecordsRefused):
        typed.consume(order(1), BAD, max_bad_share=0.1)
    assert list(folder.glob("part-*.parquet")) == []
    typed.consume(max_bad_share=0.5)
    committed = list(folder.glob("part-*.parquet"))
    with pytest.raises(BadRecordsRefused):
        typed.consume(BAD, max_bad_share=0.5)
    assert list(folder.glob("part-*.parquet")) == committed
    assert typed.values("id") == [1, None]


def test_files_of_a_refused_step_that_are_left_are_in_no_version_until_vacuum_deletes_them(
    typed, monkeypatch
):
    folder = Path(typed.derived.table.uri)
    monkeypatch.setattr(derive_run, "discard", lambda *_: None)
    with pytest.raises(BadRecordsRefused):
        typed.consume(order(1), BAD, max_bad_share=0.1)
    refused = {path.name for path in folder.glob("part-*.parquet")}
    assert refused
    typed.consume(max_bad_share=0.5)
    assert typed.values("id") == [1, None]
    assert refused.isdisjoint(map(os.path.basename, DeltaTable(str(folder)).file_uris()))
    for path in folder.glob("part-*.parquet"):
        os.utime(path, (0, 0))
    maintain_derived(typed.derived)
    assert refused.isdisjoint(path.name for path in folder.glob("part-*.parquet"))
    assert typed.values("id") == [1, None]


def test_the_first_step_is_refused_before_the_table_is_created(typed):
    with pytest.raises(BadRecordsRefused):
        typed.consume(order(1), BAD, max_bad_share=0.1, schema="id INT, amount STRING")
    assert typed.is_missing()
    typed.consume(max_bad_share=0.5)
    assert typed.values("id", "amount") == [(1, 1.0), (None, None)]


@pytest.mark.parametrize("select", [[], ["*"]], ids=["fields", "expressions"])
def test_a_step_is_refused_before_a_column_is_added(typed, select):
    limited = {"max_bad_share": 0.1, "select": select}
    typed.consume(order(1), **limited)
    with pytest.raises(BadRecordsRefused):
        typed.consume(order(2, item="x"), schema="id INT, amount DOUBLE, item INT", **limited)
    assert "item" not in typed.columns
    typed.consume(schema="id INT, amount DOUBLE, item STRING", **limited)
    assert typed.values("id", "item") == [(1, None), (2, "x")]


# Invalid settings that only Spark notices


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"select": ["id", "amount +"]}, r"select: 'amount \+' is invalid: \[PARSE_SYNTAX_ERROR\]"),
        ({"select": ["id", "price"]}, r"select: 'price' is invalid: \[UNRESOLVED_COLUMN.*`price`"),
        ({"select": ["count(*)"]}, r"select: .* is invalid: \[MISSING_GROUP_BY\]"),
        ({"select": ["id", "amount AS ID"]}, "select returns id twice"),
        ({"where": "id <"}, r"where: 'id <' is invalid: \[PARSE_SYNTAX_ERROR\]"),
        ({"where": "amount"}, r"where: 'amount' is invalid: \[DATATYPE_MISMATCH"),
        ({"schema": "id NUMBER"}, "'id NUMBER' is not a Spark type"),
        ({"schema": "ARRAY<INT>"}, "the type array<int> has no columns; use a struct"),
        ({"schema": "id INT, ID INT"}, "the fields ID, id differ only by case"),
        ({"schema": "_record INT"}, "a field must not have the name _record"),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_an_invalid_schema_or_expression_is_refused_in_one_line(typed, settings, reason):
    with pytest.raises(InvalidInput, match=f"^table .*: {reason}") as caught:
        typed.consume(order(1), **settings)
    assert "\n" not in str(caught.value)
    assert typed.is_missing()
