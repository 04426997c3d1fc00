"""`--set name=value`: any setting of a stream's YAML, for a stream that no YAML defines."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

_OPTIONS = ("stream", "table")
"""Settings that have their own options."""


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse settings like the fields of a `defs.yaml`.

    Args:
        pairs: A field's name, `=`, and its value as YAML.

    Raises:
        InvalidInput: A pair is malformed, unknown, given twice, or has a value of another type.
    """
    from kinesis_assets.dagster.component import KinesisStreamComponent  # noqa: PLC0415  # loads Dagster

    types = get_type_hints(KinesisStreamComponent)
    names = [field.name for field in fields(KinesisStreamComponent) if field.name not in _OPTIONS]
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InvalidInput(f"--set {pair[:80]!r}: give name=value, as in --set max_records=1000")
        if name not in names:
            raise InvalidInput(f"--set {name[:80]}: unknown setting; the settings are {', '.join(names)}")
        if name in found:
            raise InvalidInput(f"--set {name}: given twice")
        found[name] = _value(name, text, types[name])
    return found


def _value(name: str, text: str, wanted: Any) -> Any:
    """Parse a value as YAML, or take the text itself if only that matches the type."""
    import yaml  # noqa: PLC0415
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError:
        parsed = text
    adapter = TypeAdapter(wanted)
    try:
        return adapter.validate_python(parsed)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
    try:
        return adapter.validate_python(text)
    except ValidationError:
        raise InvalidInput(f"--set {name}: {reason}, not {text[:80]!r}") from None
