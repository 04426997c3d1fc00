"""The base of the components: how their YAML becomes settings."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Self

import dagster as dg
from pydantic import PrivateAttr

from kinesis_assets.dagster.components.asset_props import AssetRole, KinesisAssetProps, with_asset_specs
from kinesis_assets.dagster.components.taken_names import take_names
from kinesis_assets.dagster.settings.settings_base import Settings
from kinesis_assets.dagster.settings.templates import Renderer
from kinesis_assets.dagster.settings.yaml_model import alternatives_of, yaml_model
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel


_OWNERS = ("team:kinesis-assets",)

_TAGS = ("aws", "deltalake", "kinesis", "pyspark")


def type_spec(*produces: str) -> dg.ComponentTypeSpec:
    """Return the owners and tags of a component, and the definitions that it has besides assets."""
    return dg.ComponentTypeSpec(owners=_OWNERS, tags=_TAGS, produces=["asset", *produces])


@dataclasses.dataclass(frozen=True, slots=True)
class Positions:
    """The places of a component's settings in its YAML. They do not distinguish components.

    Attributes:
        tree: Dagster's positions; None without a YAML.
    """

    tree: Any = dataclasses.field(default=None, compare=False)

    def place_of(self, setting: str) -> str:
        """Return the file and the line of a setting; empty without a YAML."""
        if self.tree is None:
            return ""
        position, _ = self.tree.lookup_closest_and_path(["attributes", setting], None)
        return str(position)

    def at_line(self, error: InvalidInput) -> InvalidInput:
        """Return an error with the file and the line of the setting with whose name it starts."""
        place = self.place_of(re.split(r"\W", str(error), maxsplit=1)[0])
        return InvalidInput(f"{place}: {error}") if place else error


class YamlComponent(Settings, dg.Component, dg.Resolvable):
    """A component whose settings are the fields of its YAML.

    Invalid settings are reported with the file and the line.
    """

    _positions: Positions = PrivateAttr(default_factory=Positions)

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
        positions = Positions(context.source_position_tree)
        try:
            component = cls(**_rendered(context, model))
        except InvalidInput as error:
            raise positions.at_line(error) from None
        component._positions = positions
        return component

    def get_asset_spec(self, props: KinesisAssetProps) -> dg.AssetSpec:
        """Return the spec of an asset of the component.

        Override this method to change the specs: their owners, tags, group, description or metadata. It must
        keep the key, the partitions, the dependencies of tables, and existing metadata.

        Args:
            props: The asset, with the spec that the settings give it.
        """
        return props.spec

    def customized(
        self,
        context: dg.ComponentLoadContext,
        stream: str,
        roles: Mapping[dg.AssetKey, AssetRole],
        definitions: dg.Definitions,
    ) -> dg.Definitions:
        """Return definitions with the specs of `get_asset_spec`.

        Args:
            context: The context in which the component is loaded.
            stream: The name of the stream.
            roles: The assets.
            definitions: The definitions.

        Raises:
            InvalidInput: `get_asset_spec` changed what it must keep, or another component of the project has
                definitions of the same names.
        """
        what = (
            f"stream {stream}" if "raw" in roles.values() else f"table {next(iter(roles)).to_user_string()}"
        )
        take_names(context, what, definitions)
        return with_asset_specs(definitions, stream, roles, self.get_asset_spec)


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
