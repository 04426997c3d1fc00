"""Readers of a partitioned derived table, some of which take the values of its columns from the paths."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from deltalake import Field

from support.plain_derived import COLUMNS, PlainDerived, steps_of
from support.readers import READERS, Filter, found_by

TEXTS = [
    *("a", "a b", " a ", "a/b", "../c", "a=b", "100%", "a%2Fb", "it's", 'q"q', "?&#+;,:@", "\\", "\n\t\x01"),
    *(
        "*[x]{y}^|~",
        "ü",
        "日本",
        "😀",
        "null",
        "NULL",
        ".",
        "..",
        "007",
        "1e5",
        "true",
        "2026-01-01",
        "z" * 220,
    ),
    None,
]
"""Values of a partition column."""

pytestmark = pytest.mark.slow

ALL = Filter("key", 0, is_bound=True)


def upsert(derived):
    derived.upsert(*((number, number + 100, text) for number, text in enumerate(TEXTS) if number % 2))


def compact(derived):
    for number in range(100, 103):
        derived.append(*((number, number, text) for text in TEXTS))
    assert sum(step == "compact" for step, _ in steps_of(derived)) == len(TEXTS)


def add_column(derived):
    note = {"name": "note", "type": "string", "nullable": True, "metadata": {}}
    derived.table.snapshot().delta.alter.add_columns([Field.from_json(json.dumps(note))])
    derived.append((200, 200, "a b"))


def stay(derived):
    del derived


@pytest.fixture(
    scope="module",
    params=[
        stay,
        upsert,
        *(pytest.param(each, marks=pytest.mark.thorough) for each in (compact, add_column)),
    ],
    ids=lambda change: change.__name__,
)
def derived(request, tmp_path_factory):
    """A table with a row in each of many partitions, after a change."""
    derived = PlainDerived(tmp_path_factory.mktemp("readers") / "derived")
    derived.append(*((number, number, text) for number, text in enumerate(TEXTS)))
    request.param(derived)
    return derived


def matching(derived, condition):
    rows = (dict(zip(COLUMNS, row, strict=True)) for row in derived.rows.elements())
    return Counter(tuple(row.values()) for row in rows if condition.accepts(row))


@pytest.mark.parametrize("reader", READERS)
def test_rows_are_found_by_a_filter_on_a_partition_column_or_another(derived, reader):
    filters = [
        ALL,
        Filter("key", 3),
        Filter("value", 20, is_bound=True),
        *(Filter("part", text) for text in TEXTS),
    ]
    for condition in filters:
        wanted = matching(derived, condition)
        assert wanted
        assert found_by(reader, derived.table.uri, COLUMNS, condition) == wanted, condition


@pytest.mark.parametrize("reader", sorted(READERS.keys() - {"Polars"}))
def test_a_value_that_no_folder_can_name_is_found_by_readers_of_the_log(tmp_path, reader):
    derived = PlainDerived(tmp_path / "derived")
    derived.append((1, 1, "ü" * 100), (2, 2, "b"))
    derived.upsert((1, 3, "ü" * 100))
    assert found_by(reader, derived.table.uri, COLUMNS, Filter("part", "ü" * 100)) == {(1, 3, "ü" * 100): 1}
