"""Property: of two types of a column, a table keeps its own, gets one that holds both, or refuses."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import Field, Schema
from hypothesis import given
from hypothesis import strategies as st

from kinesis_assets.derive.column_types import TypesConflict, grown, lacking, needs_files, text_of, with_nulls


def struct(**fields):
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": listed}


def array(kind, contains_null=True):
    return {"type": "array", "elementType": kind, "containsNull": contains_null}


def mapped(kind, key="string"):
    return {"type": "map", "keyType": key, "valueType": kind, "valueContainsNull": True}


def arrow(kind):
    field = Field.from_json(json.dumps({"name": "c", "type": kind, "nullable": True, "metadata": {}}))
    return pa.schema(Schema([field]).to_arrow()).field("c").type


def outcome(old, new):
    try:
        return grown(old, new)
    except TypesConflict:
        return None


decimals = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: f"decimal({precision},{scale})")
)
simple = st.sampled_from(
    ["byte", "short", "integer", "long", "float", "double", "string", "boolean", "date", "timestamp"]
)
types = st.recursive(
    simple | decimals,
    lambda part: st.one_of(
        st.dictionaries(st.sampled_from("abc"), part, min_size=1).map(lambda fields: struct(**fields)),
        st.builds(array, part, st.booleans()),
        st.builds(mapped, part, st.sampled_from(["string", "integer"])),
    ),
    max_leaves=4,
)


@given(types, types)
def test_two_types_are_equal_or_grow_or_are_narrower_or_are_refused(old, new):
    kept, reversed_ = outcome(old, new), outcome(new, old)
    assert (kept is None) == (reversed_ is None)
    if kept is None:
        assert old != new
        return
    assert grown(kept, old) == grown(kept, new) == kept, "a type of before or after makes it grow again"
    if old == new:
        assert kept == old
    if arrow(kept) == arrow(old):
        assert not needs_files(old, kept)


@given(types, types, types)
def test_types_only_grow_whatever_comes_in_between(first, second, third):
    kept = first
    for kind in (second, third, second, first):
        kept = outcome(kept, kind) or kept
    again = kept
    for kind in (first, third, second, first, second):
        again = outcome(again, kind) or again
    assert again == kept


def values_of(kind):
    """Return the extreme values of a type in Arrow."""
    if pa.types.is_integer(kind):
        bits = kind.bit_width - 1
        return [-(2**bits), 2**bits - 1, None]
    if pa.types.is_decimal(kind):
        return [*(Decimal((sign, (9,) * kind.precision, -kind.scale)) for sign in (0, 1)), None]
    if pa.types.is_floating(kind):
        return [0.5, -0.5, float("inf"), None]
    return [None]


@given(simple | decimals, simple | decimals)
def test_a_wider_type_holds_every_value_of_both(old, new):
    kept = outcome(old, new)
    if kept is None:
        return
    for kind in map(arrow, (old, new)):
        values = pa.array(values_of(kind), kind)
        assert values.cast(arrow(kept)).to_pylist() == values.to_pylist()


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("byte", "short", "short"),
        ("integer", "long", "long"),
        ("long", "byte", "long"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)"),
        ("decimal(12,4)", "decimal(10,2)", "decimal(12,4)"),
        (struct(a="long"), struct(b="string"), struct(a="long", b="string")),
        (struct(b="string", a="integer"), struct(a="long"), struct(b="string", a="long")),
        (array(struct(a="long")), array(struct(a="long", b="long")), array(struct(a="long", b="long"))),
        (mapped("integer"), mapped("long"), mapped("long")),
        (array("long", contains_null=False), array("long"), array("long")),
    ],
    ids=str,
)
def test_a_type_that_grows_becomes_the_wider_one_in_the_order_of_the_table(old, new, kept):
    assert grown(old, new) == kept


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("integer", "double"),
        ("long", "float"),
        ("long", "decimal(38,0)"),
        ("date", "timestamp"),
        ("string", "binary"),
        ("decimal(10,2)", "decimal(10,4)"),
        (mapped("long", "integer"), mapped("long", "long")),
        (array("long"), "long"),
        (array("long"), mapped("long")),
        (struct(a="long"), struct(A="long")),
        (struct(a=struct(b="long")), struct(a=struct(b="string"))),
    ],
    ids=str,
)
def test_a_type_that_does_not_hold_the_values_of_the_other_is_refused(old, new):
    with pytest.raises(TypesConflict):
        grown(old, new)


def test_a_conflict_names_the_part_that_differs():
    old, new = (array(struct(a=struct(b=kind), c="long")) for kind in ("long", "string"))
    with pytest.raises(TypesConflict) as conflict:
        grown(old, new)
    assert (conflict.value.path, conflict.value.old, conflict.value.new) == (("a", "b"), "long", "string")


@pytest.mark.parametrize(
    ("old", "new", "is_rewritten"),
    [
        (struct(a="long"), struct(a="long", b="long"), False),
        (array(struct(a="long")), array(struct(a="long", b="long")), False),
        (array("long", contains_null=False), array("long"), False),
        (mapped(array("long", contains_null=False)), mapped(array("long")), False),
        (struct(a="integer"), struct(a="long"), True),
        (mapped(struct(a="long")), mapped(struct(a="long", b="long")), True),
        (struct(m=mapped(struct(a="long"))), struct(m=mapped(struct(a="long", b="long"))), True),
    ],
    ids=str,
)
def test_files_are_rewritten_for_wider_types_and_for_fields_in_maps(old, new, is_rewritten):
    assert needs_files(old, new) is is_rewritten


def test_fields_that_new_rows_lack_are_named_at_any_depth():
    old = struct(a="long", b=array(struct(c="long", d=mapped(struct(e="long")))))
    new = struct(b=array(struct(c="long", d=mapped(struct(f="long")))), g="long")
    assert lacking(old, new, ("order",)) == ["order.a", "order.b.d.e"]


def test_a_field_that_new_rows_lack_accepts_null():
    required = {"name": "a", "type": "long", "nullable": False, "metadata": {}}
    kept = grown({"type": "struct", "fields": [required]}, struct(b="long"))
    assert kept == struct(a="long", b="long")


def test_a_type_is_named_as_in_spark_sql():
    kind = struct(a=array("decimal(10,2)"), b=mapped(struct(c="long")))
    assert text_of(kind) == "struct<a: array<decimal(10,2)>, b: map<string, struct<c: long>>>"


def test_each_part_of_a_column_but_the_keys_of_maps_can_be_null():
    required = {"name": "a", "type": array("long", contains_null=False), "nullable": False, "metadata": {}}
    kind = mapped({"type": "struct", "fields": [required]}) | {"valueContainsNull": False}
    assert with_nulls(kind) == mapped(struct(a=array("long")))
