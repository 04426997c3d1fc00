"""The model of a component's YAML: its settings, each of which may also be a template."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import dagster as dg
from pydantic import (
    BaseModel,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    create_model,
    field_serializer,
    field_validator,
)

from kinesis_assets.dagster.settings.settings_base import without_parser
from kinesis_assets.dagster.settings.templates import is_template

if TYPE_CHECKING:
    from collections.abc import Collection

    from kinesis_assets.dagster.settings.settings_base import Settings

_TEMPLATE = {"type": "string", "pattern": r"\{\{.*\}\}"}

_REFERRED = ("type", "enum", "properties", "required", "additionalProperties")
"""The keys of a definition that are copied into the JSON schema of a field that refers to it."""


class _Yaml(dg.Model):
    """Settings of which each may also be a template, such as `{{ env.MAX_RECORDS }}`."""

    @field_validator("*", mode="wrap")
    @classmethod
    def _keep_template(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        return value if is_template(value) else validate(value)

    @field_serializer("*")
    def _dump(self, value: Any) -> Any:
        return value  # pydantic would warn of a template that is not of the setting's type

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core_schema))
        for field in schema["properties"].values():
            if "$ref" in field:  # an enumeration, or settings that belong together
                referred = handler.resolve_ref_schema({"$ref": field.pop("$ref")})
                field |= {name: referred[name] for name in _REFERRED if name in referred}
            allow_template(field)
        return schema | {"ui:order": list(schema["properties"])}  # Dagster sorts the fields otherwise


@cache
def yaml_model(settings: type[Settings]) -> type[BaseModel]:
    """Return the model of a component's YAML: types, bounds and descriptions of the settings.

    The one that Dagster derives has no descriptions, and accepts any text for a number or a choice. The
    parsers of the settings are left to the settings themselves, because an error of this model repeats the
    value.

    Args:
        settings: The class of the component, or other settings.
    """
    fields: dict[str, Any] = {
        name: (field.annotation, without_parser(field)) for name, field in settings.model_fields.items()
    }
    return create_model(settings.__name__, __base__=_Yaml, **fields)


class _Overrides(_Yaml):
    """Settings that are all optional, and have no defaults of their own."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        for field in schema["properties"].values():
            field.pop("default", None)
        return schema


def overrides_model(settings: type[Settings], without: Collection[str]) -> type[BaseModel]:
    """Return the model of some of a component's settings, given in addition to shared ones.

    Args:
        settings: The settings.
        without: The settings that cannot be given.
    """
    fields: dict[str, Any] = {}
    for name, field in settings.model_fields.items():
        if name not in without:
            optional = without_parser(field)
            optional.default = None
            fields[name] = (field.annotation, optional)
    return create_model(f"{settings.__name__}Overrides", __base__=_Overrides, **fields)


def alternatives_of(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union; of any other type, that type."""
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def allow_template(schema: dict[str, Any]) -> None:
    """Let a field's JSON schema accept templates.

    A keyword applies to values of its own type only, so the alternatives of a field are merged. A validator
    then names the keyword that a value violates, rather than that no alternative matches. Only a list of
    choices applies to all values.
    """
    alternatives = schema.pop("anyOf", None) or [
        {name: schema.pop(name) for name in ("type", "enum") if name in schema}
    ]
    if any("enum" in each for each in alternatives):
        schema["anyOf"] = [*alternatives, _TEMPLATE]
        return
    types = [each.pop("type") for each in alternatives]
    for each in alternatives:
        schema |= each
    if "string" not in types:
        types.append("string")
        schema["pattern"] = _TEMPLATE["pattern"]
    schema["type"] = types if len(types) > 1 else types[0]
