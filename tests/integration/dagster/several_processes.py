"""What a run's own process and those of its steps load: the stream and table that the environment names."""

import json
import os

from kinesis_assets import build_kinesis_stream

# No executor is named: Dagster's own default starts a process for each step.
defs = build_kinesis_stream(**json.loads(os.environ["STREAM_IN_PROCESSES"]))
