"""Refuse two components of a project whose definitions have the same name.

Dagster refuses most of them too, but names no file; and it would let two streams share their partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import dagster as dg

from kinesis_assets.dagster.dagster_internals import loading_of
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Owner(NamedTuple):
    """The owner of a name: the place of a component, its file, and what it defines."""

    place: object
    file: str
    what: str


_owners: WeakKeyDictionary[object, dict[str, _Owner]] = WeakKeyDictionary()
"""For each loading of a project, the owners of the names of its definitions."""


def take_names(context: dg.ComponentLoadContext, what: str, definitions: dg.Definitions) -> None:
    """Note the names of a component's definitions.

    Args:
        context: The context in which the component is loaded.
        what: What these definitions are for, such as a stream and its name.
        definitions: The definitions.

    Raises:
        InvalidInput: Definitions for something else have one of these names.
    """
    owners = _owners.setdefault(loading_of(context), {})
    ours = _Owner(context.component_loc, _file_of(context), what)
    for name in _names_of(definitions):
        owner = owners.setdefault(name, ours)
        if owner != ours:
            raise InvalidInput(
                f"{what} in {ours.file} and {owner.what} in {owner.file} would both define {name}; a Dagster "
                "instance can have only one of them. Give a stream another key_prefix, a table another name"
            )


def _file_of(context: dg.ComponentLoadContext) -> str:
    path = context.path
    return str(path / "defs.yaml" if (path / "defs.yaml").is_file() else path)


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
