"""A query with Qubole's Kinesis connector is killed, and its checkpoint folder imported. Needs Spark 3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from benchmarks.harness.waiting import wait_until
from support.java import class_path

SOURCES = Path(__file__).parent / "spark"

pytestmark = pytest.mark.skipif(
    not pyspark.__version__.startswith("3."), reason="the connector was built for Scala 2.12: `make spark35`"
)


def written(folder: Path) -> list[str]:
    """Return the items in the rows of the query's committed batches."""
    files = set()
    for log in (folder / "rows" / "_spark_metadata").glob("[0-9]*"):
        files |= {Path(json.loads(line)["path"]).name for line in log.read_text().splitlines()[1:]}
    lines = [line for name in files for line in (folder / "rows" / name).read_text().splitlines()]
    return [json.loads(line)["item"] for line in lines]


def test_a_checkpoint_and_the_table_have_each_record_once(hand_over, tmp_path):
    endpoint, stream = str(hand_over.bench.settings.endpoint_url), hand_over.bench.stream
    command = [sys.executable, str(SOURCES / "query.py"), endpoint, stream, str(tmp_path)]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, class_path(SOURCES, tmp_path)],
            env=hand_over.environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            wait_until((tmp_path / "checkpoint" / "commits" / "1").exists, process, failure=log)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the JVM too
            process.wait()
    read, landed = written(tmp_path), hand_over.landed("spark", tmp_path / "checkpoint")
    assert landed, "the query has read everything"
    assert Counter([*read, *landed]) == Counter(hand_over.items)
