"""Writes the table of all settings, from their declarations, between its marks in the given file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kinesis_assets.dagster.settings import UNIT, StreamSettings

_BEGIN = "<!-- settings: generated, do not edit -->\n"
_END = "<!-- end of settings -->\n"
_HEAD = "| setting | value | default | example | |\n|---|---|---|---|---|\n"

_TYPES = {"boolean": "`true` or `false`", "integer": "number", "object": "map", "string": "text"}
_BOUNDS = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most"}


def settings_table() -> str:
    """Return the table as Markdown."""
    fields: dict[str, dict[str, Any]] = StreamSettings.model_json_schema()["properties"]
    return _HEAD + "".join(
        f"| `{name}` | {_value(field)} | {_default(field)} | {_code(field['examples'][0])} "
        f"| {field['description']} |\n"
        for name, field in fields.items()
    )


def with_table(page: str) -> str:
    """Return a page with the present table between its marks.

    Raises:
        ValueError: The page has no marks.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"no {_BEGIN.strip()} with {_END.strip()} in the page")
    return f"{before}{begin}\n{settings_table()}\n{end}{after}"


def _value(field: dict[str, Any]) -> str:
    """Return what a setting may be: its choices, or its unit or type with its bounds."""
    schemas = [each for each in field.get("anyOf", [field]) if each["type"] != "null"]
    choices = [_code(choice) for each in schemas for choice in each.get("enum", ())]
    types = [_TYPES.get(each["type"], each["type"]) for each in schemas]
    bounds = [
        f"{words} {each[bound]:g}" for each in schemas for bound, words in _BOUNDS.items() if bound in each
    ]
    return ", ".join([field.get(UNIT) or " or ".join(choices or types), *bounds])


def _default(field: dict[str, Any]) -> str:
    if "default" not in field:
        return "required"
    return _code(field["default"]) if field["default"] not in (None, {}) else "none"


def _code(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
