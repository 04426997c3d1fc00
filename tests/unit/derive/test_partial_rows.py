"""Values that rows do not know are filled by a task that gets the rows of a key in order, in any batches."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kinesis_assets.derive.partial_rows import filling
from kinesis_assets.schemas.ddl import UNCHANGED_COLUMN

SCHEMA = pa.schema(
    {
        "name": pa.string(),
        "size": pa.int64(),
        UNCHANGED_COLUMN: pa.list_(pa.string()),
        "__version": pa.int32(),
        "__is_first": pa.bool_(),
        "__row_deletes": pa.bool_(),
    }
)
NAME, SIZE, BOTH = ["name"], ["size"], ["size", "name"]


def taken(*keys, batch_rows, remembers=False):
    """Return the names and sizes of the rows of some keys, in batches of a size.

    A row is its version, name and size, and what it does not know, or that it deletes its key.
    """
    rows = [
        (name, size, None if unknown == "deletes" else unknown, version, place == 0, unknown == "deletes")
        for key in keys
        for place, (version, name, size, unknown) in enumerate(key)
    ]
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    step = filling(["name", "size"], ["name", "size"], remembers=remembers)
    found = step(iter(table.to_batches(max_chunksize=batch_rows)))
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_a_row_gets_what_it_does_not_know_from_the_row_that_it_replaces(batch_rows):
    key = [
        (1, "a", 1, None),
        (2, None, 2, NAME),
        (1, "late", 9, None),
        (2, None, None, BOTH),
        (3, "b", None, SIZE),
        (3, None, None, []),
    ]
    found = taken(key, key[1:], batch_rows=batch_rows)
    assert found[:6] == [("a", 1), ("a", 2), ("late", 9), ("a", 2), ("b", 2), (None, None)]
    assert found[6:] == [(None, 2), ("late", 9), (None, 2), ("b", 2), (None, None)]


@pytest.mark.parametrize("batch_rows", [1, 100])
@pytest.mark.parametrize(("remembers", "name"), [(True, None), (False, "late")])
def test_a_late_row_is_one_to_take_values_from_only_if_the_deletion_before_it_is_not_remembered(
    batch_rows, remembers, name
):
    key = [(2, "a", 1, None), (3, None, None, "deletes"), (1, "late", 1, None), (3, None, 3, NAME)]
    assert taken(key, batch_rows=batch_rows, remembers=remembers)[-1] == (name, 3)


@pytest.mark.parametrize("remembers", [True, False])
def test_a_deletion_that_is_older_than_the_row_before_it_leaves_its_values(remembers):
    key = [(2, "a", 1, None), (1, None, None, "deletes"), (2, None, 3, NAME)]
    assert taken(key, batch_rows=100, remembers=remembers)[-1] == ("a", 3)


@pytest.mark.parametrize("remembers", [True, False])
def test_a_deletion_leaves_no_values(remembers):
    key = [(2, "a", 1, None), (2, "gone", None, "deletes"), (2, None, 3, NAME)]
    assert taken(key, batch_rows=100, remembers=remembers)[-1] == (None, 3)
