"""The base of the components: how their YAML becomes settings, and what `dg scaffold defs` writes.

Two components of a project whose definitions have the same name are refused. Dagster refuses most of them
too, but names no file; and it would let two streams share their partitions.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, get_origin
from weakref import WeakKeyDictionary

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, create_model, model_validator

from kinesis_assets.dagster.dagster_internals import loading_of
from kinesis_assets.dagster.settings.settings_base import Settings, reason_of
from kinesis_assets.dagster.settings.yaml_model import Renderer, alternatives_of, has_template, yaml_model
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.dagster.stream_names import StreamNames


_OWNERS = ("team:kinesis-assets",)

_TAGS = ("aws", "deltalake", "kinesis", "pyspark")

TABLE_DEFINITIONS = ("asset", "asset_check")

STREAM_DEFINITIONS = (*TABLE_DEFINITIONS, "job", "resource", "schedule", "sensor")
"""Those of a component of streams."""

_SETTING = re.compile(r"(\w*)(?:\[(\d+)\](?:: (\w+))?)?")
"""The setting at the beginning of an error, or one within an entry of a setting."""


@dataclasses.dataclass(frozen=True, slots=True)
class Positions:
    """The places of a component's settings in its YAML. They do not distinguish components.

    Attributes:
        tree: Dagster's positions; None without a YAML.
    """

    tree: Any = dataclasses.field(default=None, compare=False)

    def place_of(self, *setting: str | int) -> str:
        """Return the file and the line of a setting, or of a part of one; empty without a YAML."""
        if self.tree is None:
            return ""
        position, _ = self.tree.lookup_closest_and_path(["attributes", *setting], None)
        return str(position)

    def at_line(self, error: InvalidInput) -> InvalidInput:
        """Return an error with the file and the line of the setting with whose name it starts.

        The name of a setting in an entry of a list follows that of the list, as in `routes[1]: key`.
        """
        found = _SETTING.match(str(error))
        path = [] if found is None else [part for part in found.groups() if part]
        place = self.place_of(*(int(part) if part.isdigit() else part for part in path))
        return InvalidInput(f"{place}: {error}") if place else error


class YamlComponent(Settings, dg.Component, dg.Resolvable):
    """A component whose settings are the fields of its YAML.

    Invalid settings are reported with the file and the line.

    Attributes:
        produces: The kinds of definitions that it has.
    """

    produces: ClassVar[Sequence[str]] = TABLE_DEFINITIONS

    _positions: Positions = PrivateAttr(default_factory=Positions)

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what `dg` shows about the component."""
        return dg.ComponentTypeSpec(owners=_OWNERS, tags=_TAGS, produces=list(cls.produces))

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the model of the YAML, with the settings that a subclass adds."""
        return yaml_model(cls)

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> Self:
        """Return the component with the values of its YAML."""
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

        Raises:
            InvalidInput: `get_asset_spec` changed what it must keep, or another component of the project has
                definitions of the same names.
        """
        what = (
            f"stream {stream}" if "raw" in roles.values() else f"table {next(iter(roles)).to_user_string()}"
        )
        take_names(context, what, definitions)

        def changed(spec: dg.AssetSpec) -> dg.AssetSpec:
            props = KinesisAssetProps(roles[spec.key], stream, spec)
            spec = self.get_asset_spec(props)
            _check(props, spec)
            return spec

        with warnings.catch_warnings(action="ignore", category=dg.PreviewWarning):
            return definitions.map_asset_specs(func=changed)


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


class _Owner(NamedTuple):
    """The owner of a name: the place of a component, its file, and what it defines."""

    place: object
    file: str
    what: str


_owners: WeakKeyDictionary[object, dict[str, _Owner]] = WeakKeyDictionary()
"""For each loading of a project, the owners of the names of its definitions."""


def take_names(context: dg.ComponentLoadContext, what: str, definitions: dg.Definitions) -> None:
    """Note the names of definitions, and what they are for, such as a stream and its name.

    Raises:
        InvalidInput: Definitions for something else have one of these names.
    """
    owners = _owners.setdefault(loading_of(context), {})
    path = context.path / "defs.yaml"
    ours = _Owner(context.component_loc, str(path if path.is_file() else context.path), what)
    for name in _names_of(definitions):
        owner = owners.setdefault(name, ours)
        if owner != ours:
            raise InvalidInput(
                f"{what} in {ours.file} and {owner.what} in {owner.file} would both define {name}; a Dagster "
                "instance can have only one of them. Give a stream another key_prefix, a table another name"
            )


def _names_of(definitions: dg.Definitions) -> Iterator[str]:
    for asset in definitions.assets or ():
        if isinstance(asset, dg.AssetSpec | dg.AssetsDefinition):
            keys = [asset.key] if isinstance(asset, dg.AssetSpec) else asset.keys
            yield from (f"the asset {key.to_user_string()}" for key in keys)
            if isinstance(asset.partitions_def, dg.DynamicPartitionsDefinition):
                yield f"the partitions {asset.partitions_def.name}"
    yield from (f"the sensor {sensor.name}" for sensor in definitions.sensors or ())
    yield from (f"the job {job.name}" for job in definitions.jobs or ())
    yield from (f"the resource {name}" for name in definitions.resources or ())


AssetRole = Literal["stream", "raw", "router", "table", "errors"]
"""The stream, its raw table, a router, a typed table, or the table of records that could not be decoded."""


@dataclasses.dataclass(frozen=True, slots=True)
class KinesisAssetProps:
    """An asset that a component defines, for its `get_asset_spec`."""

    role: AssetRole
    stream: str
    spec: dg.AssetSpec


def stream_roles(names: StreamNames) -> dict[dg.AssetKey, AssetRole]:
    """Return the roles of the assets that `build_kinesis_stream` defines."""
    return {names.stream_key: "stream", names.raw_key: "raw"}


def _check(props: KinesisAssetProps, changed: dg.AssetSpec) -> None:
    """Check that `get_asset_spec` has not changed what runs depend on."""
    spec = props.spec
    fixed = ["key", "partitions_def"] if props.role == "stream" else ["key", "partitions_def", "deps"]
    different = [name for name in fixed if getattr(changed, name) != getattr(spec, name)]
    # Dagster and runs read metadata of this kind; `replace_attributes` removes it.
    different += [
        name for name in spec.metadata if name.startswith("dagster/") and name not in changed.metadata
    ]
    if changed.metadata.get("dagster/uri") != spec.metadata.get("dagster/uri"):
        different.append("dagster/uri")
    if different:
        raise InvalidInput(
            f"get_asset_spec changed {', '.join(dict.fromkeys(different))} of asset "
            f"{spec.key.to_user_string()}, which must stay as it is; add metadata with merge_attributes"
        )


_OPTIONS = {"format": "record_format"}
"""Settings whose options have another name, because `dg scaffold defs` has an option of that name."""


class _Options(BaseModel):
    """Settings that are given as options: none, or all that are required. A value may be a template."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    settings: ClassVar[type[Settings]]
    placeholders: ClassVar[dict[str, str]]

    def attributes(self) -> dict[str, Any]:
        """Return the settings that are given, as their YAML has them."""
        names = {name: field.alias or name for name, field in self.settings.model_fields.items()}
        given = {names[name]: value for name, value in self if value is not None}
        if not given:  # the YAML is filled in by hand
            return {}
        model = yaml_model(self.settings)(**self.placeholders | given)
        values = model.model_dump(mode="json", by_alias=True)
        return {name: values[name] for name in given}

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise the errors that `dg check defs` would report, unless a template has its value only then."""
        try:
            attributes = self.attributes()
        except ValidationError as error:
            raise InvalidInput(reason_of(error)) from None
        if attributes and not has_template(attributes):
            self.settings(**self.placeholders | attributes)
        return self


class SettingsScaffolder(dg.Scaffolder[Any]):
    """Writes a component's YAML from the settings that are given as options.

    Attributes:
        named_by_folder: The setting that has the name of the new folder, unless it is given.
    """

    settings: ClassVar[type[Settings]]
    named_by_folder: ClassVar[str | None] = None

    @classmethod
    def get_scaffold_params(cls) -> type[BaseModel]:
        """Return the model of the options."""
        return _options(cls.settings, cls.named_by_folder)

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the YAML."""
        attributes = request.params.attributes()
        if self.named_by_folder is not None:
            attributes = {self.named_by_folder: request.target_path.name} | attributes
        dg.scaffold_component(request, attributes)


@cache
def _options(settings: type[Settings], named_by_folder: str | None) -> type[_Options]:
    fields: dict[str, Any] = {
        name: (
            _option_type(field.annotation),
            Field(default=None, alias=_OPTIONS.get(name) or field.alias, description=field.description),
        )
        for name, field in settings.model_fields.items()
    }
    options: type[_Options] = create_model(f"{settings.__name__}Options", __base__=_Options, **fields)
    options.settings = settings
    options.placeholders = {} if named_by_folder is None else {named_by_folder: named_by_folder}
    return options


def _option_type(annotation: Any) -> Any:
    """Return the type of a setting's option: `dg` takes texts, several texts, or a map as JSON."""
    alternatives = alternatives_of(annotation)
    origins = {get_origin(each) for each in alternatives}
    if str not in alternatives:
        if Sequence in origins:
            return list[str] | None
        if Mapping in origins or any(
            isinstance(each, type) and issubclass(each, BaseModel) for each in alternatives
        ):
            return dict[str, Any] | None
    return str | int | float | bool | None
