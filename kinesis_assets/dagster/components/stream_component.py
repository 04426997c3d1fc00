"""The YAML form of `build_kinesis_stream`."""

from __future__ import annotations

import dagster as dg

from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.components.yaml_component import (
    STREAM_DEFINITIONS,
    SettingsScaffolder,
    YamlComponent,
    stream_roles,
)
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.dagster.stream_names import StreamNames


class StreamScaffolder(SettingsScaffolder):
    """`dg scaffold defs kinesis_assets.KinesisStreamComponent`."""

    settings = StreamSettings


@dg.scaffold_with(StreamScaffolder)
class KinesisStreamComponent(StreamSettings, YamlComponent):
    """Ingest a Kinesis stream into its table, each record exactly once."""

    produces = STREAM_DEFINITIONS

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the stream's definitions."""
        names = StreamNames.of(self.stream, self.key_prefix)
        definitions = build_kinesis_stream(**self.of(StreamSettings))
        return self.customized(context, names.stream, stream_roles(names), definitions)
