"""The effective settings of a stream as the YAML of its component, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg
import yaml

from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.dagster.settings.yaml_model import is_template
from kinesis_assets.errors import MASK, InvalidInput, mask_secrets

if TYPE_CHECKING:
    from kinesis_assets.dagster.in_process import StreamProject

_TYPE = "kinesis_assets.KinesisStreamComponent"

_SECRET_NAMES = re.compile(r"secret|password|token|access[.]?key|credential$", re.IGNORECASE)
"""Names whose values are secret. The first ones are those of Spark (`spark.redaction.regex`)."""

_SECRET_PARTS = re.compile(r"((?:secret|password|token|access[.]?key)[\w.]*[=:])[^\s,;&\"']+", re.IGNORECASE)
"""Secrets within a value, such as a system property in the options of the JVM."""


def effective_settings(project: StreamProject) -> dict[str, Any]:
    """Return the component of a stream with all of its settings, defaults included and secrets masked.

    The values of environment variables are inserted, as when a run starts.

    Raises:
        InvalidInput: An environment variable is not set or its value is invalid.
    """
    manager = (project.definitions.resources or {})[project.names.io_manager_key]
    declared: StreamSettings = manager.declared
    given = {name: _value_of(name, value) for name, value in declared.of(StreamSettings).items()}
    settings = StreamSettings(**given).of(StreamSettings)
    return {"type": _TYPE, "attributes": {name: _shown(name, value) for name, value in settings.items()}}


def component_yaml(component: Mapping[str, Any]) -> str:
    """Return what `effective_settings` returns as a `defs.yaml`, in which templates are literal text."""
    attributes = _escaped(component["attributes"])
    head, body = (
        yaml.safe_dump(part, sort_keys=False, allow_unicode=True, width=1000)
        for part in ({"type": component["type"]}, {"attributes": attributes})
    )
    return f"{head}\n{body}"


def _value_of(name: str, value: Any) -> Any:
    variable = getattr(value, "env_var_name", None)
    if variable is None:
        return value
    found = dg.EnvVar(variable).get_value()
    if found is None:
        raise InvalidInput(
            f"{name}: the environment variable {variable} is not set; set it, as it is where runs start"
        )
    return found


def _shown(name: str, value: Any) -> Any:
    """Return a value as YAML and JSON have it, with secrets masked by the names that lead to it."""
    if isinstance(value, Mapping):
        return {str(key): _shown(str(key), each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_shown(name, each) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if _SECRET_NAMES.search(name) and not name.endswith(".provider"):
        return MASK
    if isinstance(value, int | float):
        return value
    return _SECRET_PARTS.sub(rf"\1{MASK}", mask_secrets(str(value)))


def _escaped(value: Any) -> Any:
    """Return a value whose texts are no templates, but texts that look like them."""
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return f"{{{{ {value!a} }}}}" if is_template(value) else value
