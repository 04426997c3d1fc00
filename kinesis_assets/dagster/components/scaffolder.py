"""`dg scaffold defs`: a component's settings as options of the command, and the YAML that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from kinesis_assets.dagster.settings.setting_errors import reason_of
from kinesis_assets.dagster.settings.settings_base import Settings
from kinesis_assets.dagster.settings.templates import has_template
from kinesis_assets.dagster.settings.yaml_model import alternatives_of, yaml_model
from kinesis_assets.errors import InvalidInput

_OPTIONS = {"format": "record_format"}
"""Settings whose options have another name, because `dg scaffold defs` has an option of that name."""


class _Options(BaseModel):
    """Settings that are given as options: none, or all that are required. A value may be a template."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    settings: ClassVar[type[Settings]]
    placeholders: ClassVar[dict[str, str]]

    def attributes(self) -> dict[str, Any]:
        """Return the settings that are given, as their YAML has them.

        Raises:
            ValidationError: A value has the wrong type, or is out of bounds.
        """
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
        settings: The settings.
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
            Field(
                default=None,
                alias=_OPTIONS.get(name) or field.alias,
                description=field.description,
            ),
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
