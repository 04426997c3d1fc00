"""What a local session prints, and what it leaves on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.waiting import SECONDS, wait_until

if TYPE_CHECKING:
    from pathlib import Path

_RUN = """
from kinesis_assets.spark.session import start_session
spark = start_session({"spark.master": "local[1]"})
print(spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
import pyarrow as pa
received = pa.table({"received": [bytes(3 << 20)]})  # as a task gets it of a subscription
print(spark.createDataFrame(received).mapInArrow(lambda batches: batches, "received binary").count())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def test_a_session_logs_no_warning_and_removes_its_temporary_folders(folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"}
    command = [sys.executable, "-c", _RUN]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=SECONDS
    )
    javas_own = ("Picked up JAVA_TOOL_OPTIONS", "WARNING: Using incubator modules")
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith(javas_own)]
    assert (done.stdout.split(), lines) == (["3", "1"], [])
    wait_until(lambda: not list(folder.iterdir()))  # the JVM ends after this process
