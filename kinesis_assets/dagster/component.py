"""The YAML form of `build_kinesis_stream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.names import raw_key, stream_key
from kinesis_assets.dagster.scaffolder import SettingsScaffolder
from kinesis_assets.dagster.settings import StreamSettings
from kinesis_assets.dagster.yaml_component import YamlComponent, type_spec
from kinesis_assets.kinesis.stream_address import StreamAddress

if TYPE_CHECKING:
    from kinesis_assets.dagster.asset_props import AssetRole


class StreamScaffolder(SettingsScaffolder):
    """`dg scaffold defs kinesis_assets.KinesisStreamComponent`."""

    settings = StreamSettings


@dg.scaffold_with(StreamScaffolder)
class KinesisStreamComponent(StreamSettings, YamlComponent):
    """Ingest a Kinesis stream into its table, each record exactly once."""

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what `dg` shows about the component."""
        return type_spec("asset_check", "job", "resource", "schedule", "sensor")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the stream's definitions."""
        name = StreamAddress.parse(self.stream).name
        roles: dict[dg.AssetKey, AssetRole] = {stream_key(name): "stream", raw_key(name): "raw"}
        return self.customized(context, name, roles, build_kinesis_stream(**self.of(StreamSettings)))
