"""The YAML form of `build_kinesis_stream`."""

import dagster as dg
from pydantic import BaseModel

from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.settings import StreamSettings
from kinesis_assets.dagster.yaml_model import YamlComponent, yaml_model


class KinesisStreamComponent(StreamSettings, YamlComponent):
    """Ingest a Kinesis stream into its table, each record exactly once."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the model of the YAML."""
        return yaml_model(cls.__name__, StreamSettings)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the stream's definitions."""
        del context
        return build_kinesis_stream(**self.of(StreamSettings))
