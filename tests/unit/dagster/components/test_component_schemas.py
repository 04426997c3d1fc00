"""What `dg` and editors show of each component: its fields, its description, and where it is registered."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import jsonschema
import pytest
from dagster.components.core.package_entry import get_package_objects_in_module
from dagster.components.core.snapshot import get_package_entry_snap
from dagster_shared.serdes.objects import EnvRegistryKey

import kinesis_assets
from support.dagster_components import schema_of, validator_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC = [getattr(kinesis_assets, name) for name in kinesis_assets.__all__]
COMPONENTS = [each for each in PUBLIC if isinstance(each, type) and issubclass(each, dg.Component)]
every_component = pytest.mark.parametrize("component", COMPONENTS, ids=lambda each: each.__name__)


def fields_of(component: type[dg.Component]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from schema_of(component)["properties"].items()


@every_component
@pytest.mark.slow
def test_the_schema_is_valid_and_refuses_unknown_fields(component):
    schema = schema_of(component)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert schema["ui:order"] == list(schema["properties"])


@every_component
def test_every_field_has_a_description_and_a_valid_example(component):
    fields = dict(fields_of(component))
    assert len(fields) > 10
    for name, field in fields.items():
        assert field["description"].endswith("."), name
        assert field["examples"], name
        for example in field["examples"]:
            validator_of(component, name).validate(example)


@every_component
def test_every_field_may_be_a_template(component):
    for name, _ in fields_of(component):
        validator_of(component, name).validate("{{ env.SETTING_OF_THE_TESTS }}")


@every_component
def test_dg_shows_description_owners_tags_and_definitions(component):
    shown = get_package_entry_snap(EnvRegistryKey("kinesis_assets", component.__name__), component)
    assert shown.summary.endswith(".")
    assert "\n" not in shown.summary
    assert list(shown.owners) == ["team:kinesis-assets"]
    assert "kinesis" in shown.tags
    assert "asset" in shown.produces


def test_every_component_is_registered_under_its_public_name():
    project = tomllib.loads((Path(kinesis_assets.__file__).parents[1] / "pyproject.toml").read_text())
    registered = {
        f"{module}.{name}"
        for module in project["project"]["entry-points"]["dagster_dg_cli.registry_modules"].values()
        for name, _ in get_package_objects_in_module(importlib.import_module(module))
    }
    assert registered == {f"kinesis_assets.{each.__name__}" for each in COMPONENTS}
