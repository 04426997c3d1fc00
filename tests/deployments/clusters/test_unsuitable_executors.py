"""Executors that cannot run the tasks of a run: it is refused before it plans, writes or commits anything.

Other reasons that the task returns are tested where it checks them. test_standalone.py has a derivation on
executors without the packages.
"""

from __future__ import annotations

import pytest

from benchmarks.servers.spark_cluster import PYTHON_VERSION
from support.mentions import assert_mentions
from support.tables import put_numbers

OTHER_VERSION = """
import sys
from collections import namedtuple

fields = "major minor micro releaselevel serial"
sys.version_info = namedtuple("version_info", fields)(3, 99, 0, "final", 0)
"""

by_spark = pytest.mark.parametrize("spark_server", ["cluster", "connect_server"], indirect=True)
"""Marks reasons that Spark reports, in errors of its own. Others are returned by the task that checks."""


@pytest.fixture
def refused(spark_server, run, kinesis, stream, tmp_path):
    """Runs a stream with records, which is refused. Returns the line that says why.

    The line names the host of the executor, unless that is not known.
    """

    def refused(*, host_is_known=True, **given):
        put_numbers(kinesis, stream, 3)
        code, events, errors = run("--start", "LATEST", spark_config=spark_server.config, **given)
        assert (code, events) == (1, []), errors
        (error,) = [line for line in errors.splitlines() if f"stream {stream}: " in line]
        assert f"stream {stream}: on an executor{' (' if host_is_known else ''}" in error
        written = [file.name for file in (tmp_path / "table").rglob("*") if file.is_file()]
        assert written == ["writable"], "by the driver, which has checked that it can"
        return error

    return refused


def test_executors_without_the_packages_are_refused(refused):
    error = refused()
    assert_mentions(error, "No module named", "set python_environment")


@pytest.mark.thorough
@by_spark
def test_an_interpreter_that_is_missing_is_named(refused):
    error = refused(python_executable="/nowhere/python3")
    assert_mentions(error, "/nowhere/python3", "Set python_executable", f"Python {PYTHON_VERSION}")


@pytest.mark.thorough
@by_spark
def test_another_version_of_python_is_named(refused, executable, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(OTHER_VERSION)
    path = f'PYTHONPATH="{tmp_path}${{PYTHONPATH:+:$PYTHONPATH}}"'
    python = executable(f"{path} exec python{PYTHON_VERSION}")
    error = refused(python_executable=python, host_is_known=False)  # Spark does not report it
    assert_mentions(error, "3.99", "Set python_executable", f"Python {PYTHON_VERSION}")


@pytest.mark.thorough
def test_an_executor_without_credentials_is_named(refused, executable, python_with_packages):
    error = refused(python_executable=executable(f"AWS_ACCESS_KEY_ID= exec {python_with_packages}"))
    assert_mentions(error, "credentials", "docs/permissions.md")
