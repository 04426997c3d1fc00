"""Definitions of a derived table whose transformation waits for a file. The environment names the places."""

import json
import os
from pathlib import Path

import dagster as dg

from benchmarks.harness.waiting import wait_until
from kinesis_assets import build_kinesis_stream, derived_table

places = json.loads(os.environ["WAITING_DERIVATION"])


@derived_table(source=places["stream"]["stream"], table=places["numbers"])
def numbers(new):
    wait_until(Path(places["released"]).exists)
    return new.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number")


defs = dg.Definitions.merge(build_kinesis_stream(**places["stream"]), dg.Definitions(assets=[numbers]))
