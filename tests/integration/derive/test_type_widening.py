"""Columns whose types grow: what readers find in the rows before and after, and how often each is there."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.data_files import GROWTH_FOLDER
from kinesis_assets.derive.derivation import Rollup, Upsert
from kinesis_assets.errors import SchemaChangeRefused
from kinesis_assets.table.store.storage import files_in
from support.formats import derived_at
from support.readers import READERS, Filter, found_by, read_by_delta_spark

ALL = Filter("id", 0, is_bound=True)
ANY = Filter("_batch_id", 0, is_bound=True)

EARLY = "id INT, who STRUCT<name: STRING>, items ARRAY<STRUCT<sku: STRING>>"
NESTED = "id INT, who STRUCT<name: STRING, mail: STRING>, items ARRAY<STRUCT<sku: STRING, number: INT>>"

NARROW = "id INT, part SHORT, price FLOAT, total DECIMAL(10,2), tags MAP<STRING, STRUCT<a: INT>>"
WIDE = (
    "id BIGINT, part INT, price DOUBLE, total DECIMAL(14,4), tags MAP<STRING, STRUCT<a: BIGINT, b: STRING>>, "
    "who STRUCT<name: STRING>"
)


def typed(schema):
    """Return the transformation that reads records in JSON with a schema."""

    def transform(rows):
        record = F.from_json(F.col("data").cast("string"), schema).alias("record")
        return rows.select(record).select("record.*")

    return transform


def put(bench, *records):
    bench.put(*(json.dumps(record).encode() for record in records))
    bench.run()


def files_of(derived):
    return {file.path for file in derived.table.snapshot().data_files()}


def plain(value):
    """Return a value of a reader, with maps as dictionaries."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: plain(each) for key, each in value}
    if (
        isinstance(value, list)
        and value
        and isinstance(value[0], dict)
        and value[0].keys() == {"key", "value"}
    ):
        return {each["key"]: plain(each["value"]) for each in value}
    return value


def rows_by(reader, derived, columns, condition=ALL):
    found = READERS[reader](derived.table.folder.uri, columns, condition).to_pylist()
    rows = [tuple(plain(row[name]) for name in columns) for row in found]
    return sorted(rows, key=lambda row: (row[0] is None, row[0]))


OLD = [
    {
        "id": 1,
        "part": 7,
        "price": 0.5,
        "total": "1.25",
        "tags": {"x": {"a": 1}},
        "who": {"name": "ann"},
        "items": [{"sku": "cup"}],
    },
    {"id": 2, "part": 8, "price": 2.5, "total": "99999999.99"},
]
NEW = {
    "id": 3_000_000_000,
    "part": 70_000,
    "price": 1e300,
    "total": "0.0001",
    "tags": {"y": {"a": 1, "b": "z"}},
    "who": {"name": "bob", "mail": "b@x"},
    "items": [{"sku": "pot", "number": 2}],
}
LAST = {"id": 4, "part": 9, "price": 0.25, "total": "2.50", "tags": {"x": {"a": 5}}, "who": {"name": "cy"}}

NUMBERS = ("id", "price", "total", "tags")
WIDENED = [
    (1, 0.5, Decimal("1.2500"), {"x": {"a": 1, "b": None}}),
    (2, 2.5, Decimal("99999999.9900"), None),
    (4, 0.25, Decimal("2.5000"), {"x": {"a": 5, "b": None}}),
    (3_000_000_000, 1e300, Decimal("0.0001"), {"y": {"a": 1, "b": "z"}}),
]
FOUND = {
    Filter("id", 2): {2},
    Filter("id", 3, is_bound=True): {4, 3_000_000_000},
    Filter("id", 3_000_000_000): {3_000_000_000},
    Filter("price", 1.0, is_bound=True): {2, 3_000_000_000},
    Filter("part", 7): {1},
    Filter("part", 70_000): {3_000_000_000},
}

EXTENDED = [
    (1, {"name": "ann", "mail": None}, [{"sku": "cup", "number": None}]),
    (2, None, None),
    (4, {"name": "cy", "mail": None}, None),
    (None, {"name": "bob", "mail": "b@x"}, [{"sku": "pot", "number": 2}]),
]


@pytest.mark.thorough
def test_every_reader_finds_the_rows_of_before_and_after_a_growth(bench, derived, tmp_path):
    wide = replace(derived, derivation=replace(derived.derivation, partition_by=("part",)))
    below = replace(
        derived,
        table=derived_at(str(tmp_path / "below")),
        derivation=replace(
            derived.derivation, source=wide.table.uri, transform=lambda rows: rows.drop("_batch_id")
        ),
    )
    nested = replace(derived, table=derived_at(str(tmp_path / "nested")))
    for row in OLD:
        put(bench, row)
        wide.run(transform=typed(NARROW))
    below.run()
    nested.run(transform=typed(EARLY))
    before = files_of(nested)
    put(bench, NEW)
    commits = wide.run(transform=typed(WIDE), max_bytes=1)
    assert [commit.rows for commit in commits] == [0, 1]
    nested.run(transform=typed(NESTED))
    below.run()
    rewritten = files_of(wide)
    put(bench, LAST)
    wide.run(transform=typed(NARROW))  # of the earlier types
    below.run()
    nested.run(transform=typed(EARLY))
    assert before < files_of(nested)
    assert rewritten < files_of(wide)
    assert files_in(wide.table.files, GROWTH_FOLDER) == []
    for reader in READERS:
        for table in (wide, below):
            assert rows_by(reader, table, NUMBERS) == WIDENED, reader
            for condition, ids in FOUND.items():
                found = found_by(reader, table.table.folder.uri, ["id"], condition)
                assert found == Counter((number,) for number in ids), (reader, condition)
        assert rows_by(reader, nested, ("id", "who", "items"), ANY) == EXTENDED, reader
    expressions = ("id", "price", "total", "to_json(tags)", "part")
    uri = wide.table.folder.uri
    rows, by_total, by_part, by_name = read_by_delta_spark(
        [
            (uri, expressions, ALL),
            (uri, ["id"], Filter("total", 1.0, is_bound=True)),
            (uri, ["id"], Filter("part", 8)),
            (nested.table.folder.uri, ("id", "who.mail", "to_json(items.number)"), ANY),
        ]
    )
    assert rows == Counter(
        [
            (1, 0.5, "1.2500", '{"x":{"a":1}}', 7),
            (2, 2.5, "99999999.9900", None, 8),
            (4, 0.25, "2.5000", '{"x":{"a":5}}', 9),
            (3_000_000_000, 1e300, "0.0001", '{"y":{"a":1,"b":"z"}}', 70_000),
        ]
    )
    assert (by_total, by_part) == (Counter([(1,), (2,), (4,)]), Counter([(2,)]))
    assert by_name == Counter([(1, None, "[null]"), (2, None, None), (4, None, None), (None, "b@x", "[2]")])


def test_a_wider_partition_column_rewrites_no_file(bench, derived):
    derived.derivation = replace(derived.derivation, partition_by=("part",))
    put(bench, {"id": 1, "part": 7}, {"id": 2, "part": None})
    derived.run(transform=typed("id INT, part SHORT"))
    before = files_of(derived)
    put(bench, {"id": 3, "part": 3_000_000_000})
    derived.run(transform=typed("id INT, part BIGINT"))
    for reader in READERS:
        assert rows_by(reader, derived, ("id", "part")) == [(1, 7), (2, None), (3, 3_000_000_000)], reader
    assert before < files_of(derived)


def test_rows_replace_those_whose_key_had_a_narrower_type(bench, derived):
    derived.derivation = replace(derived.derivation, mode=Upsert(("id",), ("at",)))
    put(bench, {"id": 1, "at": 1, "who": {"name": "ann"}}, {"id": 2, "at": 1, "who": {"name": "bob"}})
    derived.run(transform=typed("id INT, at INT, who STRUCT<name: STRING>"))
    put(bench, {"id": 1, "at": 5, "who": {"name": "eve", "mail": "e@x"}}, {"id": 2, "at": 0})
    derived.run(transform=typed("id BIGINT, at BIGINT, who STRUCT<mail: STRING, name: STRING>"))
    put(bench, {"id": 2, "at": 9, "who": {"name": "dan"}})
    derived.run(transform=typed("id INT, at INT, who STRUCT<name: STRING>"))
    assert derived.values("id", "at", "who") == [
        (1, 5, {"name": "eve", "mail": "e@x"}),
        (2, 9, {"name": "dan", "mail": None}),
    ]


def test_a_roll_up_keeps_its_groups_when_their_column_becomes_wider(bench, derived, tmp_path):
    def counted(kind):
        return lambda rows: rows.groupBy(F.col("id").cast(kind).alias("id")).agg(
            F.count("*").cast(kind).alias("number")
        )

    per_id = replace(
        derived,
        table=derived_at(str(tmp_path / "counted")),
        derivation=replace(derived.derivation, source=derived.table.uri, mode=Rollup(("id",))),
    )
    put(bench, {"id": 1}, {"id": 2})
    derived.run(transform=typed("id INT"))
    per_id.run(transform=counted("int"))
    put(bench, {"id": 2})
    derived.run(transform=typed("id INT"))
    per_id.run(transform=counted("long"))
    assert per_id.values("id", "number") == [(1, 1), (2, 2)]
    assert [str(field.type.type) for field in DeltaTable(per_id.table.uri).schema().fields][:2] == [
        "long"
    ] * 2


def test_any_other_change_is_refused_before_anything_is_written(bench, derived):
    derived.derivation = replace(derived.derivation, mode=Upsert(("id",), ("price",)))
    put(bench, {"id": 1, "price": 0.1, "who": {"name": "ann"}})
    derived.run(transform=typed("id INT, price FLOAT, who STRUCT<name: STRING>"))
    put(bench, {"id": 2, "price": 0.1})
    version = derived.table.snapshot().version
    for schema, reason in {
        "id INT, price DOUBLE": r"the column price has the type float, .* double.*kinesis-assets rebuild",
        "id INT, price FLOAT, who STRUCT<name: INT>": r"the field who\.name has the type string, .* integer",
        "id INT, price FLOAT, who ARRAY<STRING>": r"who has the type struct<name: string>, .* array<string>",
    }.items():
        with pytest.raises(SchemaChangeRefused, match=reason):
            derived.run(transform=typed(schema))
    assert derived.table.snapshot().version == version
