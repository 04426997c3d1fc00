"""Typed tables whose schema is read from the Glue Schema Registry when a run starts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.errors import InvalidInput, RegistryCallFailed, SchemaChangeRefused
from support.glue_records import avro, framed
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from support.bench import Bench
    from support.derived import DerivedBench
    from support.fixtures.glue import SchemaRegistry


def record(**types: Any) -> dict[str, Any]:
    """Return the Avro schema of an order."""
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    return {"type": "record", "name": "Order", "fields": fields}


FIRST = record(id="long", amount="double")
SECOND = record(id="long", amount="double", item=["null", "string"])
PRODUCT = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}


@dataclass
class RegisteredBench:
    """A typed table over a bench's table, with its schema in a registry."""

    bench: Bench
    derived: DerivedBench
    registry: SchemaRegistry

    def register(self, definition: dict[str, Any], data_format: str = "AVRO") -> str:
        return self.registry.register("orders", data_format, json.dumps(definition))

    def put(self, schema_id: str, definition: dict[str, Any], **fields: Any) -> None:
        self.bench.put(framed(schema_id, avro(definition, fields)))

    def consume(
        self,
        *,
        name: str = "orders",
        version: int | None = None,
        endpoint: str | None = None,
        **settings: Any,
    ) -> None:
        """Ingest what is in the stream, and consume it into the table."""
        self.bench.run()
        given = TableSettings(
            name="orders",
            source="orders",
            table=self.derived.table.uri,
            format="glue",
            schema={"registry": self.registry.name, "name": name} | ({"version": version} if version else {}),
            registry={"endpoint_url": endpoint or self.registry.endpoint},
            **settings,
        )
        transform = TypedRows(given, "").of_table
        replace(self.derived).run(transform=transform, all_columns=given.follows_registry)

    def is_missing(self) -> bool:
        return not DeltaTable.is_deltatable(self.derived.table.folder.uri)

    def version(self) -> int:
        return self.derived.table.snapshot().delta.version()


@pytest.fixture
def typed(bench, derived, schema_registry) -> RegisteredBench:
    return RegisteredBench(bench, derived, schema_registry)


def test_the_columns_are_the_fields_of_the_registered_schema(typed):
    typed.put(typed.register(FIRST), FIRST, id=1, amount=2.5)
    typed.consume()
    assert typed.derived.rows.column_names[:3] == ["id", "amount", "error"]
    assert typed.derived.values("id", "amount", "error") == [(1, 2.5, None)]


def test_a_field_of_a_later_version_becomes_a_column(typed):
    first = typed.register(FIRST)
    typed.put(first, FIRST, id=1, amount=1.0)
    typed.consume()
    second = typed.register(SECOND)
    typed.put(first, FIRST, id=2, amount=1.0)
    typed.put(second, SECOND, id=3, amount=1.0, item="cup")
    typed.consume()
    assert typed.derived.values("id", "item", "error") == [(1, None, None), (2, None, None), (3, "cup", None)]


def person(**types: Any) -> dict[str, Any]:
    """Return the Avro schema of a record within an order."""
    return record(**types) | {"name": "Person"}


EARLY = record(id="int", who=person(name="string"))
LATER = record(id="long", who=person(name="string", mail=["null", "string"]))


def test_columns_grow_with_a_later_version_and_not_back_with_an_older_one(typed):
    first = typed.register(EARLY)
    typed.put(first, EARLY, id=1, who={"name": "ann"})
    typed.consume()
    second = typed.register(LATER)
    typed.put(first, EARLY, id=2, who={"name": "bob"})
    typed.put(second, LATER, id=3_000_000_000, who={"name": "cy", "mail": "c@x"})
    typed.consume()
    rows = [
        (1, {"name": "ann", "mail": None}),
        (2, {"name": "bob", "mail": None}),
        (3_000_000_000, {"name": "cy", "mail": "c@x"}),
    ]
    assert typed.derived.values("id", "who") == rows
    version = typed.version()
    typed.register(record(id="int", who=person(name="string"), note=["null", "string"]))
    typed.put(second, LATER, id=4, who={"name": "dee", "mail": "d@x"})
    with pytest.raises(SchemaChangeRefused, match=r"lack who\.mail"):
        typed.consume()
    assert typed.version() == version
    typed.register(record(id="long", who=LATER["fields"][1]["type"], note=["null", "string"]))
    typed.consume()
    assert typed.derived.values("id", "who") == [*rows, (4, {"name": "dee", "mail": "d@x"})]


def test_the_registered_version_is_the_readers_schema(typed):
    first = typed.register(FIRST)
    third = record(number="long", kind=["string", "long"])
    third["fields"][0]["aliases"] = ["id"]
    third["fields"][1]["default"] = "order"
    last = typed.register(third)
    typed.put(first, FIRST, id=1, amount=1.0)
    typed.put(last, third, number=2, kind=7)
    typed.consume()
    assert typed.derived.values("number", "kind", "error") == [(1, '"order"', None), (2, "7", None)]


def test_a_later_version_is_not_used_if_the_table_names_one(typed):
    typed.register(FIRST)
    typed.put(typed.register(SECOND), SECOND, id=1, amount=1.0, item="cup")
    typed.consume(version=1)
    assert "item" not in typed.derived.rows.column_names
    assert typed.derived.values("id") == [1]


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        (record(id="long"), r"CAST\(NULL AS double\) AS amount"),
        (record(id="string", amount="double"), r"\bid\b.*\blong\b.*\bstring\b"),
    ],
    ids=["removed", "another type"],
)
def test_any_other_change_of_the_columns_is_refused_before_anything_is_written(typed, definition, reason):
    first = typed.register(FIRST)
    typed.put(first, FIRST, id=1, amount=1.0)
    typed.consume()
    before = typed.version()
    typed.register(definition)
    typed.put(first, FIRST, id=2, amount=2.0)
    with pytest.raises(SchemaChangeRefused, match=reason):
        typed.consume()
    assert typed.version() == before
    typed.consume(version=1)
    assert typed.derived.values("id", "amount") == [(1, 1.0), (2, 2.0)]


def test_a_removed_field_is_accepted_if_null_is_selected(typed):
    typed.put(typed.register(FIRST), FIRST, id=1, amount=1.0)
    typed.consume()
    shorter = record(id="long")
    typed.put(typed.register(shorter), shorter, id=2)
    typed.consume(select=["*", "CAST(NULL AS double) AS amount"])
    assert typed.derived.values("id", "amount") == [(1, 1.0), (2, None)]


def test_a_json_schema_requires_no_field_because_records_may_have_another_version(typed):
    schema_id = typed.register({"$schema": "http://json-schema.org/draft-07/schema#"} | PRODUCT, "JSON")
    typed.bench.put(framed(schema_id, b'{"id": 1}'), framed(schema_id, b"{}"))
    typed.consume()
    assert typed.derived.values("id", "error") == [(1, None), (None, None)]


@pytest.mark.parametrize(
    ("wrong", "named"), [({"name": "nothing"}, "nothing"), ({"version": 7}, "version 7")], ids=str
)
def test_a_schema_that_the_registry_does_not_have_is_refused_in_one_line(typed, wrong, named):
    typed.put(typed.register(FIRST), FIRST, id=1, amount=1.0)
    with pytest.raises(InvalidInput, match=rf"^table .*: .*\b{named}\b") as caught:
        typed.consume(**wrong)
    assert_mentions(str(caught.value), typed.registry.name, typed.registry.endpoint)
    assert "\n" not in str(caught.value)
    assert typed.is_missing()


@pytest.mark.parametrize(
    ("data_format", "definition", "reason"),
    [
        ("AVRO", json.dumps(record(a=["null", "Order"])), r"\ba is recursive"),
        ("AVRO", '{"type": "record", "name": "Order", "fields": [{"type": "long"}]}', "field without a name"),
        (
            "JSON",
            '{"properties": {"id": {"type": ["integer", "string"]}}}',
            "#/properties/id has integer, string",
        ),
        ("AVRO", "{", "is not JSON"),
        ("PROTOBUF", 'syntax = "proto3"; message Order {}', "Order has no fields"),
        ("XML", "", r"\bXML\b.*\bAVRO\b.*\bJSON\b.*\bPROTOBUF\b"),
    ],
    ids=["recursive", "nameless", "JSON types", "broken", "Protobuf", "unknown"],
)
def test_a_schema_without_a_spark_type_is_refused_in_one_line(
    typed, registries, data_format, definition, reason
):
    endpoint = registries.start(200, {"DataFormat": data_format, "SchemaDefinition": definition})
    typed.put(typed.register(FIRST), FIRST, id=1, amount=1.0)
    with pytest.raises(InvalidInput, match=rf"^table .*: .*\borders\b.*{reason}"):
        typed.consume(endpoint=endpoint)
    assert typed.is_missing()


@pytest.mark.parametrize(("version", "times"), [(1, 1), (None, 2)], ids=["numbered", "latest"])
def test_a_numbered_version_is_requested_once_and_the_latest_one_for_each_step(
    typed, registries, version, times
):
    endpoint = registries.start(200, {"DataFormat": "AVRO", "SchemaDefinition": json.dumps(FIRST)})
    for number in range(2):
        typed.put(typed.register(FIRST), FIRST, id=number, amount=1.0)
        typed.consume(endpoint=endpoint, version=version)
    asked = [request for request in registries.requests if "SchemaId" in request]
    assert len(asked) == times


def test_a_version_that_is_not_available_is_refused(typed, registries):
    body = {"DataFormat": "AVRO", "SchemaDefinition": json.dumps(FIRST), "Status": "FAILURE"}
    typed.put(typed.register(FIRST), FIRST, id=1, amount=1.0)
    with pytest.raises(InvalidInput, match=r"\bFAILURE\b.*\bversion\b"):
        typed.consume(endpoint=registries.start(200, body))


def test_a_registry_that_denies_access_fails_the_run_in_one_line(typed, registries):
    endpoint = registries.start(400, {"__type": "AccessDeniedException", "Message": "no\npermission"})
    typed.put(typed.register(FIRST), FIRST, id=1, amount=1.0)
    reason = rf"\borders\b.*\bGetSchemaVersion\b.*{endpoint}: .*AccessDenied"
    with pytest.raises(RegistryCallFailed, match=f"^table .*{reason}") as caught:
        typed.consume(endpoint=endpoint)
    assert "\n" not in str(caught.value)
    assert typed.is_missing()
