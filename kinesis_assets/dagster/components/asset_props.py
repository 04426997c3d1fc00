"""The properties of its assets that a subclass of a component may change."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import dagster as dg

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.dagster.stream_names import StreamNames

AssetRole = Literal["stream", "raw", "table", "errors"]
"""The stream, its raw table, a typed table, or the table of records that could not be decoded."""


@dataclass(frozen=True, slots=True)
class KinesisAssetProps:
    """An asset that a component defines, for its `get_asset_spec`.

    Attributes:
        role: What the asset is, see `AssetRole`.
        stream: The name of the stream.
        spec: The spec that the component gives the asset.
    """

    role: AssetRole
    stream: str
    spec: dg.AssetSpec


def stream_roles(names: StreamNames) -> dict[dg.AssetKey, AssetRole]:
    """Return the roles of the assets that `build_kinesis_stream` defines."""
    return {names.stream_key: "stream", names.raw_key: "raw"}


def with_asset_specs(
    definitions: dg.Definitions,
    stream: str,
    roles: Mapping[dg.AssetKey, AssetRole],
    get_asset_spec: Callable[[KinesisAssetProps], dg.AssetSpec],
) -> dg.Definitions:
    """Return definitions whose assets have the specs that a function returns.

    Args:
        definitions: The definitions.
        stream: The name of the stream.
        roles: The roles of the assets.
        get_asset_spec: The function.

    Raises:
        InvalidInput: The function changed what runs depend on.
    """

    def changed(spec: dg.AssetSpec) -> dg.AssetSpec:
        props = KinesisAssetProps(roles[spec.key], stream, spec)
        changed = get_asset_spec(props)
        _check(props, changed)
        return changed

    with warnings.catch_warnings(action="ignore", category=dg.PreviewWarning):
        return definitions.map_asset_specs(func=changed)


def _check(props: KinesisAssetProps, changed: dg.AssetSpec) -> None:
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
