"""Typed tables: decoded fields as columns, and settings that are refused."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.errors import BadRecordsRefused, InvalidInput
from support.derived import order
from support.formats import derived_at
from support.typed_tables import BAD, KEEPING, REASON

pytestmark = pytest.mark.any_format

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
    above = replace(typed.derived, table=derived_at(str(tmp_path / "above")))
    settings = TableSettings(
        name="above", source="orders", upstream="orders", table="above", where="error IS NULL"
    )
    above.run(**typed.derived.as_source, transform=TypedRows(settings, "").of_table)
    assert above.values("id", "amount") == [(1, 2.5)]


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
        (
            {"schema": "id INT, amount STRING", "where": "amount"},
            r"where: 'amount' is invalid: \[DATATYPE_MISMATCH",
        ),
        ({"schema": "id DECIMAL(50, 2)"}, r"'id DECIMAL\(50, 2\)' is not a Spark type: DECIMAL_PRECISION"),
        ({"schema": "id NUMBER"}, "'id NUMBER' is not a Spark type"),
        ({"schema": "ARRAY<INT>"}, ".*array<int>.*struct"),
        ({"schema": "id INT, ID INT"}, r".*\bID, id\b"),
        ({"schema": "_record INT"}, r".*\b_record\b"),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_an_invalid_schema_or_expression_is_refused_in_one_line(typed, settings, reason):
    with pytest.raises(InvalidInput, match=f"^table .*: {reason}") as caught:
        typed.consume(order(1), **settings)
    assert "\n" not in str(caught.value)
    assert typed.is_missing()


# The order of rows

EXPRESSIONS = {"select": ["*", "amount * 2 AS twice", "shard_id"], "where": "amount > 0"}


@pytest.mark.parametrize(
    ("on_bad_record", "expressions"),
    [
        ("keep", {}),
        ("separate", EXPRESSIONS),
        *(
            pytest.param(*each, marks=pytest.mark.thorough)
            for each in (("keep", EXPRESSIONS), ("separate", {}), ("fail", EXPRESSIONS))
        ),
    ],
)
def test_of_rows_that_are_equal_in_order_by_the_later_one_stays(typed, on_bad_record, expressions):
    versions = [order(id_, 1.0, at=at) for at in (5, 7, 6) for id_ in range(40)]
    settings = {"key": ["id"], "order_by": ["amount"], "on_bad_record": on_bad_record, **expressions}
    typed.consume(*versions, schema="id INT, amount DOUBLE, at INT", **settings)
    assert typed.values("at") == [6] * 40


# Rows that leave a condition


def test_a_later_version_that_where_leaves_out_leaves_the_earlier_one_in_the_table(typed):
    by_key = {"key": ("id",), "order_by": ("amount",)}
    for amount in (1.0, 9.0):
        typed.consume(order(1, amount), where="amount < 5", **by_key)
    assert typed.values("id", "amount") == [(1, 1.0)]


def test_a_later_version_that_matches_delete_where_deletes_it_and_an_older_one_does_not(typed):
    by_key = {"key": ("id",), "order_by": ("amount",), "delete_where": "amount BETWEEN 3 AND 5"}
    typed.consume(order(1, 1.0), order(2, 9.0), **by_key)
    typed.consume(order(1, 4.0), order(2, 4.0), **by_key)
    assert typed.values("id", "amount") == [(2, 9.0)]


# Records of several documents


def lines(*documents: bytes) -> bytes:
    return b"\n".join(documents)


def carts(kind: str, *items: tuple[int, int]) -> bytes:
    listed = ",".join(f'{{"id":{id_},"v":{v}}}' for id_, v in items)
    return f'{{"kind":"{kind}","at":1,"cart":{{"items":[{listed}]}}}}'.encode()


SPLIT = {
    "compression": "auto",
    "split": "lines",
    "unnest": "cart.items",
    "only": {"kind": ["add", "change"], "_record.partition_key": "k"},
    "schema": "at INT, cart STRUCT<items: STRUCT<id: INT, v: INT>>",
    "select": ["cart.items.id", "cart.items.v", "at"],
    "key": ["id"],
    "order_by": ["at"],
}

RECORDS = [
    gzip.compress(lines(carts("add", (1, 1), (2, 1)), b"not json", carts("change", (1, 2)))),
    lines(b"\xef\xbb\xbf" + carts("add", (3, 9), (3, 8)), carts("other", (1, 7)), b"", carts("add", (3, 7))),
    lines(carts("change", (2, 5)), b'{"kind":"add","cart":{"items":[{"id":"x"}]}}', carts("change", (2, 4)))
    + b"\r\n",
    b"\x1f\x8bno gzip",
]

NEWEST = [(1, 2), (2, 4), (3, 7)]
"""Of rows that are equal in order_by, that of the last document of the last record."""


@pytest.mark.parametrize("on_bad_record", ["keep", "separate"])
def test_records_are_split_and_filtered_below_an_upsert_of_which_the_latest_document_stays(
    typed, on_bad_record
):
    others = {"StreamName": typed.bench.stream, "PartitionKey": "other"}
    typed.bench.kinesis.put_record(Data=carts("add", (4, 4)), **others)
    (commit,) = typed.consume(*RECORDS, on_bad_record=on_bad_record, **SPLIT)
    rows = typed.derived.rows.to_pylist()
    assert sorted((row["id"], row["v"]) for row in rows if row["id"] is not None) == NEWEST
    kept = typed.errors(on_bad_record=on_bad_record, **SPLIT) if on_bad_record == "separate" else rows
    numbers = {row["data"]: row["document_number"] for row in kept if row["error"] is not None}
    assert numbers == {
        b"not json": 2,  # behind the two items of the line before
        b'{"kind":"add","cart":{"items":{"id":"x"}}}': 1,
        b"\x1f\x8bno gzip": None,
    }
    assert (commit.records, commit.bad_records) == (11, 3)


def test_the_latest_document_of_a_record_stays_where_rows_do_not_enter_the_jvm(typed):
    record = lines(order(1, 1.0, at=3), order(2, 1.0, at=1), order(1, 1.0, at=1), order(1, 1.0, at=2))
    settings = {"split": "lines", "key": ["id"], "order_by": ["amount"]}
    typed.consume(record, schema="id INT, amount DOUBLE, at INT", **settings)
    assert typed.values("id", "at") == [(1, 2), (2, 1)]
    assert typed.columns == ["id", "amount", "at", *KEEPING[:4], "document_number", "data"]


def test_bad_lines_are_kept_beside_the_rows_of_their_neighbors(typed):
    typed.consume(
        b"id,amount\n1,2.5\nx,1\n2,\n3\n4,caf\xe9\n",
        format="csv",
        split="lines",
        select=["*", "document_number"],
    )
    assert typed.values("id", "amount", "document_number", "data") == [
        (1, 2.5, 1, None),
        (2, None, 3, None),
        (None, None, 2, b"x,1"),
        (None, None, 4, b"3"),
        (None, None, 5, b"4,caf\xe9"),
    ]


def test_the_share_of_bad_records_counts_documents(typed):
    record = lines(order(1), BAD, order(2), order(3))
    limit = {"split": "lines", "max_bad_share": 0.2, "where": "id > 1"}
    with pytest.raises(BadRecordsRefused, match=r"1 of 4 records \(a share of 0\.25\) are bad"):
        typed.consume(record, **limit)
    typed.consume(lines(order(4), order(5)), **limit)
    assert typed.values("id") == [2, 3, 4, 5, None]


def test_a_document_for_which_an_expression_fails_does_not_spoil_its_neighbors(typed):
    documents = b'{"id":1,"at":"2026-01-01"}', b'{"id":2,"at":"0000-00-00"}', b'{"id":3,"at":"2026-01-03"}'
    select = ["id", "CAST(at AS DATE) AS at"]
    typed.consume(lines(*documents), schema="id INT, at STRING", split="lines", select=select)
    assert typed.values("id", "document_number", "data") == [
        (1, None, None),
        (3, None, None),
        (None, 1, documents[1]),
    ]
