"""The shared fixtures of support/fixtures, and a check that Java is installed if a test needs it."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings as hypothesis_settings

from kinesis_assets.errors import JavaUnavailable
from kinesis_assets.spark.local_settings import require_java

pytest_plugins = [
    "support.fixtures.bench",
    "support.fixtures.command_line",
    "support.fixtures.confluent",
    "support.fixtures.credentials",
    "support.fixtures.dagster",
    "support.fixtures.gateway",
    "support.fixtures.glue",
    "support.fixtures.iceberg",
    "support.fixtures.metrics",
    "support.fixtures.moto",
    "support.fixtures.spark",
    "support.fixtures.stream",
]

pytest.register_assert_rewrite("support")

gc.disable()  # until the tests are collected: everything that is imported stays

UNIT = Path(__file__).parent / "unit"

hypothesis_settings.register_profile("untimed", hypothesis_settings(), deadline=None)
hypothesis_settings.load_profile("untimed")  # how long an example takes depends on the machine
hypothesis_settings.register_profile("quick", hypothesis_settings(), max_examples=20)  # for `make check`


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exit with one line if Java is missing and any of the tests needs it."""
    gc.enable()
    gc.freeze()  # what is loaded by now stays to the end: no collection needs to visit it
    gc.set_threshold(20_000)
    if all(item.path.is_relative_to(UNIT) for item in session.items):
        stay_on_one_core()
        pa.set_cpu_count(1)  # the tables are small: threads would only wait for each other
        pa.set_io_thread_count(1)
        return
    try:
        require_java()
    except JavaUnavailable as error:
        pytest.exit(str(error), returncode=1)


def stay_on_one_core() -> None:
    """Keep a process of pytest-xdist on one core: waking threads on others costs a sixth of the CPU time."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None and sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
