"""Names of Avro types: a reference has the type that the Avro library finds under its full name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns

SPACES = st.sampled_from(["", "shop", "shop.eu", "billing"])
SHORT_NAMES = st.sampled_from("ABCDEFG")
PRIMITIVES = ("boolean", "bytes", "double", "int", "long", "string")
PLAIN = st.sampled_from(PRIMITIVES)


def record(name: str, *types: object, **more: str) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields, **more}


def enum(name: str, **more: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": ["NEW"], **more}


# The rules of the specification


def test_a_type_inherits_the_namespace_of_the_record_around_it():
    assert avro_columns(record("Order", enum("Status"), "shop.Status", "Status", namespace="shop")) == (
        "f0 STRING, f1 STRING, f2 STRING"
    )


def test_a_name_with_dots_has_a_namespace_for_the_types_in_it():
    address = record("billing.Address", enum("Country"))
    assert avro_columns(record("Order", address, "billing.Country", namespace="shop")) == (
        "f0 STRUCT<f0: STRING>, f1 STRING"
    )


def test_types_with_one_name_in_two_namespaces_are_two_types():
    iban = record("Address", "string", namespace="billing")
    postcode = record("Address", "int", namespace="shipping")
    order = record("Order", iban, postcode, "billing.Address", "shipping.Address", namespace="shop")
    assert avro_columns(order) == (
        "f0 STRUCT<f0: STRING>, f1 STRUCT<f0: INT>, f2 STRUCT<f0: STRING>, f3 STRUCT<f0: INT>"
    )


def test_a_name_without_dots_refers_to_the_type_in_the_namespace_around_it():
    ours = record("Address", "string", namespace="shop")
    theirs = record("Invoice", record("Address", "int"), "Address", namespace="billing")
    assert avro_columns(record("Order", ours, theirs, "Address", namespace="shop")) == (
        "f0 STRUCT<f0: STRING>, f1 STRUCT<f0: STRUCT<f0: INT>, f1: STRUCT<f0: INT>>, f2 STRUCT<f0: STRING>"
    )


def test_an_empty_namespace_is_none():
    inner = record("Inner", enum("Status"), "Status", namespace="")
    assert avro_columns(record("Order", inner, namespace="shop")) == "f0 STRUCT<f0: STRING, f1: STRING>"


@pytest.mark.parametrize("reference", ["Address", "Status", "shop.eu.Status"])
def test_a_type_of_another_namespace_is_not_found_without_it(reference):
    address = record("Address", enum("Status"), namespace="billing")
    with pytest.raises(InvalidInput, match=r"f1 has the unknown type shop\.(Address|Status|eu\.Status)$"):
        avro_columns(record("Order", address, reference, namespace="shop"))


@pytest.mark.parametrize("reference", ["Order", "shop.Order"])
@pytest.mark.parametrize(
    "within", [lambda name: name, lambda name: ["null", {"type": "array", "items": name}]]
)
def test_a_recursive_record_is_refused(reference, within):
    with pytest.raises(InvalidInput, match=r"f0\.f0 is recursive: .*shop\.Order"):
        avro_columns(record("Order", record("Line", within(reference)), namespace="shop"))


def test_a_name_cannot_have_two_types():
    with pytest.raises(InvalidInput, match=r"f1 defines shop\.Status again"):
        avro_columns(record("Order", enum("Status"), enum("shop.Status"), namespace="shop"))


# Any schema


@dataclass
class SchemaOf:
    """Draws definitions in some namespaces, and references to them, of which some are wrong."""

    draw: st.DrawFn
    defined: list[str] = field(default_factory=list)

    def record(self, namespace: str = "", depth: int = 3) -> dict[str, Any]:
        names, within = self.names(namespace)
        types = [self.type(within, depth) for _ in range(self.draw(st.integers(1, 4)))]
        self.define(names, within)
        return record(names.pop("name"), *types, **names)

    def names(self, namespace: str) -> tuple[dict[str, str], str]:
        """Return a name, alone, with a namespace or with dots; and the namespace that it has."""
        short, own = self.draw(SHORT_NAMES), self.draw(SPACES)
        dotted = {"name": f"billing.{short}", "namespace": own}
        forms = [({"name": short}, namespace), ({"name": short, "namespace": own}, own), (dotted, "billing")]
        return self.draw(st.sampled_from(forms))

    def define(self, names: dict[str, str], namespace: str) -> None:
        short = names["name"].removeprefix("billing.")
        self.defined.append(f"{namespace}.{short}" if namespace else short)

    def type(self, namespace: str, depth: int) -> Any:
        kinds = ["plain", "known", "known", "any", *["fixed", "array", "record"] * (depth > 0)]
        match self.draw(st.sampled_from(kinds)):
            case "known" if self.defined:
                return self.draw(st.sampled_from(self.defined))
            case "any":
                return self.draw(SHORT_NAMES)
            case "fixed":
                names, own = self.names(namespace)
                self.define(names, own)
                return {**names, "type": "fixed", "size": 4}
            case "array":
                return {"type": "array", "items": self.type(namespace, depth - 1)}
            case "record":
                return self.record(namespace, depth - 1)
        return self.draw(PLAIN)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    return SchemaOf(draw).record()


class Recursive(Exception):
    """A reference is within the record to which it refers."""


def without_references(expanded: Any, numbers: count[int], within: tuple[str, ...] = ()) -> Any:
    """Return a schema that the Avro library has expanded, in which each definition has a name of its own."""
    if isinstance(expanded, str):
        if expanded not in PRIMITIVES:
            raise Recursive(expanded)
        return expanded
    schema = {key: value for key, value in expanded.items() if not key.startswith("__")}
    if "name" in schema:
        if schema["name"] in within:
            raise Recursive(schema["name"])
        within = (*within, schema["name"])
        schema["name"] = f"type{next(numbers)}"
    for part in ("items", "values"):
        if part in schema:
            schema[part] = without_references(schema[part], numbers, within)
    for each in schema.get("fields", ()):
        each["type"] = without_references(each["type"], numbers, within)
    return schema


@pytest.mark.slow
@settings(max_examples=300)
@given(schemas())
def test_any_schema_has_the_columns_of_the_types_that_the_avro_library_finds(schema):
    try:
        expanded = json.loads(json.dumps(fastavro.schema.expand_schema(schema)))
        expected = avro_columns(without_references(expanded, count()))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, Recursive):
        with pytest.raises(InvalidInput):
            avro_columns(schema)
    else:
        assert avro_columns(schema) == expected
