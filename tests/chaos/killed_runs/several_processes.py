"""Definitions of a run in several processes. The environment names the stream and the table."""

import json
import os

from kinesis_assets import build_kinesis_stream

# Dagster's default executor starts a process for each step.
defs = build_kinesis_stream(**json.loads(os.environ["STREAM_IN_PROCESSES"]))
