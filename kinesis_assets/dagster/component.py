"""The YAML form of `build_kinesis_stream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.scaffolder import SettingsScaffolder
from kinesis_assets.dagster.settings import StreamSettings
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.yaml_component import YamlComponent, type_spec

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
        names = StreamNames.of(self.stream, self.key_prefix)
        roles: dict[dg.AssetKey, AssetRole] = {names.stream_key: "stream", names.raw_key: "raw"}
        return self.customized(context, names.stream, roles, build_kinesis_stream(**self.of(StreamSettings)))
