"""`--set name=value`: any setting of a stream's YAML, for a stream that no YAML defines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from pydantic import TypeAdapter, ValidationError

from kinesis_assets.dagster.settings.settings_base import reason_of, without_parser
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
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
        InvalidInput: A pair is malformed, unknown, given twice, or has an invalid value.
    """
    names = [name for name in StreamSettings.model_fields if name not in _OPTIONS]
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InvalidInput(f"--set {pair[:80]!r}: give name=value, as in --set max_records=1000")
        if name not in names:
            raise InvalidInput(f"--set {name[:80]}: unknown setting; the settings are {', '.join(names)}")
        if name in found:
            raise InvalidInput(f"--set {name}: given twice; give it once")
        found[name] = _value(name, text)
    return found


def _value(name: str, text: str) -> Any:
    """Parse a value as YAML, or take the text itself if only that is valid."""
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError:
        parsed = text
    adapter: TypeAdapter[Any] = TypeAdapter(
        without_parser(StreamSettings.model_fields[name]).rebuild_annotation()
    )
    try:
        return adapter.validate_python(parsed)
    except ValidationError as error:
        reason = reason_of(error, name)
    try:
        return adapter.validate_python(text)
    except ValidationError:
        raise InvalidInput(f"--set: {reason}") from None
