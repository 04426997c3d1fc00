"""The YAML of a component: the model of its settings, which may also be templates, and its errors."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import dagster as dg
from pydantic import (
    BaseModel,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    create_model,
    field_serializer,
    field_validator,
)

from kinesis_assets.dagster.settings_base import without_parser
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from kinesis_assets.dagster.settings_base import Settings

_TEMPLATE = {"type": "string", "pattern": r"\{\{.*\}\}"}


class YamlComponent(dg.Component, dg.Resolvable):
    """A component whose invalid settings are reported with the file and the line of its YAML."""

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> Self:
        """Return the component with the values of its YAML.

        Raises:
            InvalidInput: A setting is invalid.
        """
        try:
            component: Self = super().resolve_from_model(context, model)
        except InvalidInput as error:
            raise _at_line(context, error) from None
        return component


def _at_line(context: dg.ResolutionContext, error: InvalidInput) -> InvalidInput:
    """Return an error with the file and the line of the setting with whose name it starts."""
    tree = context.source_position_tree
    if tree is None:
        return error
    name = re.split(r"\W", str(error), maxsplit=1)[0]
    position, _ = tree.lookup_closest_and_path(["attributes", name], None)
    return InvalidInput(f"{position}: {error}")


class _Yaml(dg.Model):
    """Settings of which each may also be a template, such as `{{ env.MAX_RECORDS }}`."""

    @field_validator("*", mode="wrap")
    @classmethod
    def _keep_template(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        return value if isinstance(value, str) and "{{" in value else validate(value)

    @field_serializer("*")
    def _dump(self, value: Any) -> Any:
        return value  # pydantic would warn of a template that is not of the setting's type

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core_schema))
        for field in schema["properties"].values():
            if "$ref" in field:  # an enumeration
                choices = handler.resolve_ref_schema({"$ref": field.pop("$ref")})
                field |= {name: choices[name] for name in ("type", "enum")}
            _allow_template(field)
        return schema | {"ui:order": list(schema["properties"])}  # Dagster sorts the fields otherwise


@cache
def yaml_model(name: str, settings: type[Settings]) -> type[BaseModel]:
    """Return the model of a component's YAML: types, bounds and descriptions of the settings.

    The one that Dagster derives has no descriptions, and accepts any text for a number or a choice. The
    parsers of the settings are left to the settings themselves, because an error of this model repeats the
    value.

    Args:
        name: The name of the component's class.
        settings: The settings.
    """
    fields: dict[str, Any] = {
        name: (field.annotation, without_parser(field)) for name, field in settings.model_fields.items()
    }
    return create_model(name, __base__=_Yaml, **fields)


def _allow_template(schema: dict[str, Any]) -> None:
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
