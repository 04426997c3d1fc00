"""Why no Python worker starts, by the texts of Spark."""

from __future__ import annotations

import sys

import pytest

from kinesis_assets.ingest.executor_check import start_failure
from support.mentions import assert_mentions

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task "
    "0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): "
)

MISSING = f"""{LOST}java.io.IOException: Cannot run program "/opt/python3": error=2, No such file or directory
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
Caused by: java.io.IOException: error=2, No such file or directory"""

SHELL = "./environment/bin/python: 5: exec: python3.11: not found"

NOT_ON_PATH = f"""{LOST}org.apache.spark.SparkException:
Error from python worker:
  starting
  {SHELL}

PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number"""

MISMATCH = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different \
version{0} 3.10 than that in driver{0} 3.12, PySpark cannot run with different minor versions.
Please check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set."""

OTHER = f"Python is 3.10, and {HERE} on this machine, but Spark requires the same version"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            MISSING,
            'the Python interpreter does not start: "/opt/python3": error=2, No such file or directory',
        ),
        (NOT_ON_PATH, f"the Python interpreter does not start: {SHELL}"),
        (MISMATCH.format(":"), OTHER),
        (MISMATCH.format(""), OTHER),
    ],
    ids=["no program", "no interpreter for the archive", "another version", "another version, Spark 3.5"],
)
def test_the_reason_is_one_line_that_says_what_to_do(text, reason):
    failure = start_failure(text)
    assert_mentions(failure, reason, "Set python_executable", f"Python {HERE}")
    assert "\n" not in failure


def test_the_host_is_named_if_spark_names_it():
    assert start_failure(MISSING).startswith("on an executor (10.0.0.7): ")
    assert start_failure(MISMATCH.format(":")).startswith("on an executor: ")


def test_another_error_is_not_explained():
    assert start_failure(f"{LOST}java.lang.OutOfMemoryError: Java heap space") is None
