"""The base of the components: how their YAML becomes settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

import dagster as dg

from kinesis_assets.dagster.settings_base import Settings
from kinesis_assets.dagster.templates import Renderer
from kinesis_assets.dagster.yaml_model import alternatives_of, yaml_model
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel


_OWNERS = ("team:kinesis-assets",)

_TAGS = ("aws", "deltalake", "kinesis", "pyspark")


def type_spec(*produces: str) -> dg.ComponentTypeSpec:
    """Return the owners and tags of a component, and the definitions that it has besides assets."""
    return dg.ComponentTypeSpec(owners=_OWNERS, tags=_TAGS, produces=["asset", *produces])


class YamlComponent(Settings, dg.Component, dg.Resolvable):
    """A component whose settings are the fields of its YAML.

    Invalid settings are reported with the file and the line.
    """

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the model of the YAML, with the settings that a subclass adds."""
        return yaml_model(cls)

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> Self:
        """Return the component with the values of its YAML.

        Raises:
            InvalidInput: A setting is invalid.
        """
        try:
            return cls(**_rendered(context, model))
        except InvalidInput as error:
            raise _at_line(context, error) from None


def _rendered(context: dg.ResolutionContext, model: BaseModel) -> dict[str, Any]:
    """Return the settings of a YAML, with their templates rendered."""
    settings = {}
    for name, field in type(model).model_fields.items():
        if name in model.model_fields_set:
            setting = field.alias or name
            renderer = Renderer(
                setting,
                context.at_path(setting),
                is_text=str in alternatives_of(field.annotation),
                required=field.is_required(),
            )
            settings[setting] = renderer.render(getattr(model, name))
    return settings


def _at_line(context: dg.ResolutionContext, error: InvalidInput) -> InvalidInput:
    """Return an error with the file and the line of the setting with whose name it starts."""
    tree = context.source_position_tree
    if tree is None:
        return error
    name = re.split(r"\W", str(error), maxsplit=1)[0]
    position, _ = tree.lookup_closest_and_path(["attributes", name], None)
    return InvalidInput(f"{position}: {error}")
