"""The YAML form of `build_kinesis_stream`."""

# Dagster derives the YAML schema from the fields' types, so annotations must not be strings.
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg

from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.io_manager import STOP_TIMEOUT
from kinesis_assets.dagster.jobs.maintenance import SCHEDULE
from kinesis_assets.ingest.run_timing import COMMIT_INTERVAL
from kinesis_assets.kinesis.limits import MAX_BYTES, MAX_RECORDS, MAX_SECONDS


@dataclass
class KinesisStreamComponent(dg.Component, dg.Resolvable):
    """Ingest a Kinesis stream into its table. The fields are the arguments of `build_kinesis_stream`."""

    stream: str
    table: str
    start: str | dict[str, str] = "TRIM_HORIZON"
    max_records: int | None = MAX_RECORDS
    max_bytes: int | None = MAX_BYTES
    max_seconds: float | None = MAX_SECONDS
    max_run_records: int | None = None
    max_run_bytes: int | None = None
    max_run_seconds: float | None = None
    max_bad_records: int | None = None
    on_data_loss: str = "fail"
    on_recreated: str = "fail"
    stop_timeout: float = STOP_TIMEOUT
    follow_for: float | None = None
    commit_interval: float = COMMIT_INTERVAL
    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    sdk_parser: bool = False
    spark_config: dict[str, Any] = field(default_factory=dict)
    sensor_interval_seconds: int = 30
    retention_days: int | None = None
    maintenance_schedule: str | None = SCHEDULE

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the stream's definitions."""
        del context
        return build_kinesis_stream(**asdict(self))
