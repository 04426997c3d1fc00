"""The YAML form of `build_kinesis_stream`."""

from functools import cache
from typing import Any

import dagster as dg
from pydantic import (
    BaseModel,
    GetJsonSchemaHandler,
    ValidatorFunctionWrapHandler,
    create_model,
    field_serializer,
    field_validator,
)

from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.settings import StreamSettings, without_parser

_TEMPLATE = {"type": "string", "pattern": r"\{\{.*\}\}"}


class KinesisStreamComponent(StreamSettings, dg.Component, dg.Resolvable):
    """Ingest a Kinesis stream into its table, each record exactly once."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the model of the YAML.

        The one that Dagster derives has no descriptions, and accepts any text for a number or a choice.
        """
        return _yaml_model()

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the stream's definitions."""
        del context
        return build_kinesis_stream(**self.of(StreamSettings))


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
            _allow_template(field)
        return schema | {"ui:order": list(schema["properties"])}  # Dagster sorts the fields otherwise


@cache
def _yaml_model() -> type[BaseModel]:
    """Return the model of the YAML: types, bounds and descriptions of the settings.

    Their parsers are left to the settings themselves, because an error of this model repeats the value.
    """
    fields: dict[str, Any] = {
        name: (field.annotation, without_parser(field)) for name, field in StreamSettings.model_fields.items()
    }
    return create_model(KinesisStreamComponent.__name__, __base__=_Yaml, **fields)


def _allow_template(schema: dict[str, Any]) -> None:
    """Let a field's JSON schema accept templates.

    A keyword applies to values of its own type only, so the alternatives of a field are merged. A validator
    then names the keyword that a value violates, rather than that no alternative matches.
    """
    if "enum" in schema:
        schema["anyOf"] = [{"type": schema.pop("type"), "enum": schema.pop("enum")}, _TEMPLATE]
        return
    alternatives = schema.pop("anyOf", None) or [{"type": schema.pop("type")}]
    types = [each.pop("type") for each in alternatives]
    for each in alternatives:
        schema |= each
    if "string" not in types:
        types.append("string")
        schema["pattern"] = _TEMPLATE["pattern"]
    schema["type"] = types if len(types) > 1 else types[0]
