"""Definitions of a Dagster daemon. The environment names the stream and the table."""

import json
import os

import dagster as dg

from kinesis_assets import build_kinesis_stream

defs = dg.Definitions.merge(
    build_kinesis_stream(**json.loads(os.environ["SENSED_STREAM"]), sensor_interval_seconds=1),
    dg.Definitions(executor=dg.in_process_executor),
)
