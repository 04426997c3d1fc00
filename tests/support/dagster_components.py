"""Load a component as Dagster does from a defs folder."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from dagster import ComponentTree
from dagster.components.testing import create_defs_folder_sandbox

from kinesis_assets import KinesisStreamComponent

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dagster as dg

# Dagster warns of names that it uses itself when it loads components.
dagsters_own_warnings = pytest.mark.filterwarnings(
    "ignore::dagster.BetaWarning",
    "ignore::dagster.PreviewWarning",
    "ignore:`parse_obj_as` is deprecated:DeprecationWarning",
)


def loaded(
    component: type[dg.Component] = KinesisStreamComponent,
    /,
    files: Mapping[str, str | bytes] | None = None,
    type_name: str | None = None,
    **attributes: Any,
) -> tuple[dg.Component, dg.Definitions]:
    """Return a component of those attributes and its definitions, as a defs folder gives them.

    Args:
        component: The class of the component.
        files: The content of other files in the folder of the YAML, by name.
        type_name: The type in the YAML. By default it is that of a public component.
    """
    type_name = type_name or f"kinesis_assets.{component.__name__}"
    contents = {"type": type_name, "attributes": attributes}
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=component, defs_yaml_contents=contents)
        for name, content in (files or {}).items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        with sandbox.load_component_and_build_defs(defs_path=path) as found:
            return found


def definitions_of(component: dg.Component) -> dg.Definitions:
    """Return the definitions of a component that is alone in its project."""
    return component.build_defs(ComponentTree.for_test().load_context)


@cache
def schema_of(component: type[dg.Component]) -> dict[str, Any]:
    """Return the schema of a component's YAML, as `dg` and editors show it."""
    schema: dict[str, Any] = component.get_model_cls().model_json_schema()
    return schema


@cache
def validator_of(component: type[dg.Component], name: str | None = None) -> jsonschema.Draft202012Validator:
    """Return the validator of one field of a component's YAML, or of all fields."""
    schema = schema_of(component)
    if name is not None:  # the definitions are those that the field may refer to
        schema = schema["properties"][name] | {"$defs": schema.get("$defs", {})}
    return jsonschema.Draft202012Validator(schema)
