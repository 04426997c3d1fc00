"""The YAML form of `build_kinesis_stream`."""

# Dagster derives the YAML schema from the fields' types, so their annotations must not be text.
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg

from kinesis_assets.assets import build_kinesis_stream


@dataclass
class KinesisStreamComponent(dg.Component, dg.Resolvable):
    """A Kinesis stream, brought into its table shard by shard. Fields as in `build_kinesis_stream`."""

    stream: str
    table: str
    start: str = "TRIM_HORIZON"
    max_records: int | None = 1_000_000
    max_bytes: int | None = 1 << 30
    max_seconds: float | None = 300.0
    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    spark_config: dict[str, Any] = field(default_factory=dict)
    sensor_interval_seconds: int = 30

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The stream's definitions."""
        del context
        return build_kinesis_stream(**asdict(self))
