"""Writes the tables of the settings that a page describes, from their declarations, between their marks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinesis_assets.dagster.settings.catalog_settings import CatalogSettings
from kinesis_assets.dagster.settings.derived_settings import DerivedTableSettings
from kinesis_assets.dagster.settings.routes_settings import RoutesSettings
from kinesis_assets.dagster.settings.settings_base import UNIT, Settings
from kinesis_assets.dagster.settings.spark_settings import SERVICE_SETTINGS
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.dagster.settings.table_settings import (
    ConfluentSettings,
    DecodingSettings,
    ProtobufSchema,
    RegisteredSchema,
    RegistrySettings,
    SubjectSchema,
    TableSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SETTINGS: dict[str, dict[str, type[Settings] | Mapping[str, type[Settings]]]] = {
    "reading.md": {"settings": StreamSettings},
    "catalog.md": {"settings of an entry": CatalogSettings},
    "decoders.md": {
        "settings of a registered schema": RegisteredSchema,
        "settings of a registry": RegistrySettings,
        "settings of a subject": SubjectSchema,
        "settings of a registry of Confluent": ConfluentSettings,
        "settings of a message": ProtobufSchema,
    },
    "derived.md": {
        "settings": DerivedTableSettings,
        "settings of a typed table": DecodingSettings,
    },
    "routes.md": {"settings of a router": RoutesSettings},
    "spark.md": {"settings of a session": SERVICE_SETTINGS},
}
"""The settings that each page describes, by their name in the marks; of each service if they differ by it."""

_LINKED: dict[type[Settings], tuple[type[Settings], str]] = {
    RoutesSettings: (TableSettings, "As those of a [typed table](derived.md#settings)."),
}
"""Settings of which some are those of others too, with these and a link to their descriptions."""

_HEAD = "| setting | value | default | example | |\n|---|---|---|---|---|\n"
_HEAD_BY_SERVICE = "| `service` " + _HEAD.replace("\n|", "\n|---|", 1)

_TYPES = {
    "array": "list",
    "boolean": "`true` or `false`",
    "integer": "number",
    "object": "map",
    "string": "text",
}
_BOUNDS = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most"}


def settings_table(settings: type[Settings] | Mapping[str, type[Settings]]) -> str:
    """Return the table as Markdown.

    Args:
        settings: The settings; or those of each service by its name. A row has the services that share it.
    """
    if isinstance(settings, type):
        return _HEAD + "".join(_rows(settings))
    services: dict[str, list[str]] = {}
    for service, its_settings in settings.items():
        for row in _rows(its_settings):
            services.setdefault(row, []).append(service)
    return _HEAD_BY_SERVICE + "".join(
        f"| {'any' if len(names) == len(settings) else ', '.join(map(_code, names))} {row}"
        for row, names in services.items()
    )


def with_table(page: str, name: str, settings: type[Settings] | Mapping[str, type[Settings]]) -> str:
    """Return a page with the present table between its marks.

    Args:
        name: The name of the settings in the marks.

    Raises:
        ValueError: The page has no marks.
    """
    before, begin, rest = page.partition(f"<!-- {name}: generated, do not edit -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    if not end:
        raise ValueError(f"no marks of the {name} in the page")
    return f"{before}{begin}\n{settings_table(settings)}\n{end}{after}"


def _rows(settings: type[Settings]) -> Iterator[str]:
    schema = settings.model_json_schema()
    described, link = _LINKED.get(settings, (Settings, ""))
    linked = schema["properties"].keys() & described.model_json_schema().get("properties", {}).keys()
    for name, declared in schema["properties"].items():
        if name in linked:
            continue
        field = _resolved(declared, schema)
        description = field["description"].replace("<", "&lt;")  # otherwise it begins a tag of HTML
        yield (
            f"| `{name}` | {_value(field)} | {_default(field)} | {_code(field['examples'][0])} "
            f"| {description} |\n"
        )
    if linked:
        names = ", ".join(_code(name) for name in schema["properties"] if name in linked)
        yield f"| {names} | | | | {link} |\n"


def _resolved(field: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a field's schema with its definition, if it refers to one."""
    if "$ref" not in field:
        return field
    return {**schema["$defs"][field["$ref"].rpartition("/")[2]], **field}


def _value(field: dict[str, Any]) -> str:
    """Return what a setting may be: its choices, or its unit or type with its bounds."""
    schemas = [each for each in field.get("anyOf", [field]) if each["type"] != "null"]
    choices = [_code(choice) for each in schemas for choice in each.get("enum", ())]
    types = [_TYPES.get(each["type"], each["type"]) for each in schemas]
    bounds = [
        f"{words} {each[bound]:g}" for each in schemas for bound, words in _BOUNDS.items() if bound in each
    ]
    return ", ".join([field.get(UNIT) or " or ".join(dict.fromkeys(choices or types)), *bounds])


def _default(field: dict[str, Any]) -> str:
    if "default" not in field:
        return "required"
    return _code(field["default"]) if field["default"] not in (None, {}, []) else "none"


def _code(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    page = path.read_text(encoding="utf-8")
    for name, settings in _SETTINGS[path.name].items():
        page = with_table(page, name, settings)
    path.write_text(page, encoding="utf-8")
