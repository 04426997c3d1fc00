"""The model of a component's YAML: its settings, each of which may also be a template.

Templates in a component's YAML: an expression without a value is an error, and a text stays a text. Dagster
renders an undefined variable within a text as nothing, and an environment variable that is not set as None:
`"{{ lake }}/clicks"` would become `/clicks`, and `"{{ env.LAKE }}/clicks"` `None/clicks`. It also evaluates
each text as a Python literal, so that a stream named `"2024"` would become a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import dagster as dg
from jinja2 import Environment, StrictUndefined, Undefined, nodes
from jinja2.exceptions import TemplateSyntaxError, UndefinedError
from pydantic import (
    BaseModel,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    create_model,
    field_serializer,
    field_validator,
)

from kinesis_assets.dagster.settings.settings_base import map_schema, without_parser
from kinesis_assets.errors import InvalidInput

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
    """Return the model of some of a component's settings, given in addition to shared ones."""
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


def map_fields(*settings: type[Settings]) -> dict[str, Any]:
    """Return the JSON schemas of the fields of a map, which has those of some settings.

    Values may be templates. A value is left out, and not null.
    """
    fields = {name: field for each in settings for name, field in map_schema(each)["properties"].items()}
    for field in fields.values():
        field.pop("default", None)
        allow_template(field)
    return fields


_MARKS = ("{{", "{%", "{#")

_MAX_SHOWN = 80
"""The maximum number of characters of a template that an error repeats."""


def is_template(value: Any) -> bool:
    """Whether a value of a YAML is a text with a template."""
    return isinstance(value, str) and any(mark in value for mark in _MARKS)


def has_template(value: Any) -> bool:
    """Whether a value of a YAML is a template, or has one in its lists and maps."""
    if isinstance(value, dict):
        return any(map(has_template, value.values()))
    return any(map(has_template, value)) if isinstance(value, list | tuple) else is_template(value)


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders the templates of one setting.

    Attributes:
        is_text: Whether the setting may be a text. Otherwise Dagster evaluates the value of a single
            expression as a Python literal, so that an environment variable may contain a list or a map.
    """

    setting: str
    context: dg.ResolutionContext
    is_text: bool
    required: bool

    def render(self, value: Any) -> Any:
        """Return a value of the YAML with its templates rendered, also those in lists and maps.

        Raises:
            InvalidInput: A template is malformed, or an expression in it has no value.
        """
        return self._rendered(value, keep_text=self.is_text)

    def _rendered(self, value: Any, *, keep_text: bool) -> Any:
        if isinstance(value, BaseModel):
            value = value.model_dump(exclude_unset=True)
        if isinstance(value, dict):
            return {key: self._rendered(each, keep_text=True) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._rendered(each, keep_text=True) for each in value]
        return self._value(value, keep_text=keep_text) if is_template(value) else value

    def _value(self, template: str, *, keep_text: bool) -> Any:
        values: list[Any] = []

        def record(value: Any) -> Any:
            if isinstance(value, Undefined):
                str(value)  # raises an error that names the variable
            values.append(value)
            return value

        # The result goes into a setting, not into HTML.
        environment = Environment(undefined=StrictUndefined, finalize=record)  # noqa: S701
        try:
            is_single = _is_single_expression(environment.parse(template))
            text = environment.from_string(template).render(**self.context.scope)
        except (UndefinedError, TemplateSyntaxError) as error:
            raise self._invalid(template, f"{error.message}") from None
        except Exception as error:  # of a function that the template calls
            raise self._invalid(template, " ".join(str(error).split())) from error
        if any(value is None for value in values) and (self.required or not is_single):
            raise self._invalid(
                template, "its value is None; set the environment variable that it reads, or correct it"
            )
        if not is_single:
            if template.lstrip().startswith("{{") and str(values[0]) == "":
                raise self._invalid(template, "the expression at its beginning is empty")
            return text
        if keep_text and isinstance(values[-1], str):
            return values[-1]
        return self.context.resolve_value(template)

    def _invalid(self, template: str, reason: str) -> InvalidInput:
        return InvalidInput(f"{self.setting}: template {template[:_MAX_SHOWN]!r}: {reason}")


def _is_single_expression(template: nodes.Template) -> bool:
    """Whether a template is one expression, so that its value need not be a text."""
    return (
        len(template.body) == 1
        and isinstance(output := template.body[0], nodes.Output)
        and len(output.nodes) == 1
        and not isinstance(output.nodes[0], nodes.TemplateData)
    )
