"""A session whose Java runs out of memory."""

from __future__ import annotations

import subprocess
import sys

from support.mentions import assert_mentions

JOB = """
from kinesis_assets.spark.session import start_session, wrap_spark_errors

spark = start_session({"spark.driver.memory": "512m"})
with wrap_spark_errors("table orders"):
    spark.sql("SELECT length(repeat('x', 800000000))").collect()
"""


def test_the_error_names_the_setting_of_the_memory():
    done = subprocess.run([sys.executable, "-c", JOB], capture_output=True, text=True, check=False)
    assert_mentions(done.stderr.splitlines()[-1], "LandingFailed: table orders", "spark.driver.memory")
