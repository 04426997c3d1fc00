"""What the start of Spark is told to cost is all of it, and of what it is said to be."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.harness.measure import ChildFailed, Usage
from benchmarks.harness.process_tree import spent
from benchmarks.sections.start import AS_IT_COMES, KEPT, TRIMMED, Starts, Way, told, untold
from kinesis_assets.spark.local_settings import local_settings

IDLE = "import time; time.sleep(1.5)"  # a run that has no CPU of its own
BURN = "import time\nwhile time.process_time() < {}: pass"


def python(code):
    return [sys.executable, "-c", code]


def test_what_outlives_the_command_counts_and_who_had_started_it_need_not_wait():
    orphan = python(BURN.format(0.6))
    usage = spent(*python(f"import subprocess; subprocess.Popen({orphan})"), environment={})
    assert 0.6 <= usage.cpu < 1.2


def test_a_command_that_fails_is_told_with_what_it_said():
    with pytest.raises(ChildFailed, match=r"ended with 3: no such stream$"):
        spent(*python("import sys; print('no such stream'); sys.exit(3)"), environment={})


def test_the_cpu_of_the_server_that_a_run_attaches_to_is_the_runs():
    with subprocess.Popen(python(BURN.format(60))) as server:
        try:
            alone = Way(TRIMMED, {}).usage(*python(IDLE))
            attached = Way(KEPT, {}, server.pid).usage(*python(IDLE))
        finally:
            server.kill()
    assert attached.cpu - alone.cpu > 0.1


def test_a_spark_as_it_comes_is_given_no_setting_of_a_run(tmp_path, monkeypatch):
    assert local_settings({})
    for name, value in untold(tmp_path).items():
        monkeypatch.setenv(name, value)
    assert local_settings({}) == {}


def test_a_way_has_the_environment_that_it_names():
    code = "import os, sys; sys.exit(os.environ.get('KINESIS_ASSETS_TEST') != 'way')"
    assert "KINESIS_ASSETS_TEST" not in os.environ
    Way(TRIMMED, {"KINESIS_ASSETS_TEST": "way"}).usage(*python(code))


def test_ways_are_compared_with_the_first_of_the_same_round():
    runs = {
        AS_IT_COMES: [Usage(20, 10), Usage(30, 11), Usage(24, 12)],
        TRIMMED: [Usage(10, 8), Usage(15, 9), Usage(18, 7)],
    }
    text = told(Starts(runs, archive=Usage(27, 20), server=Usage(12, 9)))
    assert f"| {TRIMMED} | 15.0 (10.0 to 18.0) | 8.0 (7.0 to 9.0) | 0.50 (0.50 to 0.75) |" in text
    assert "The archive takes 27.0 CPU s (20.0 s), once for all; the server's start 12.0 (9.0 s)" in text
