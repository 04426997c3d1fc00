"""Executors that cannot run the tasks of a run: it is refused before it plans, writes or commits anything."""

from __future__ import annotations

import errno
import os

import boto3
import pytest

from benchmarks.servers.spark_cluster import PYTHON_VERSION
from support.mentions import assert_mentions
from support.process_clock import shifted_clock
from support.tables import put_numbers

OTHER_VERSION = """
import sys
from collections import namedtuple

fields = "major minor micro releaselevel serial"
sys.version_info = namedtuple("version_info", fields)(3, 99, 0, "final", 0)
"""

NOWHERE = "http://127.0.0.1:9"

HOURS = 2
"""How far the clock of an executor is ahead of this machine's."""

pytestmark = pytest.mark.timeout(900)

by_spark = pytest.mark.parametrize("spark_server", ["cluster", "connect_server"], indirect=True)
"""Marks reasons that Spark reports, in errors of its own. Others are returned by the task that checks."""


@pytest.fixture
def refused(spark_server, run, kinesis, stream, tmp_path):
    """Runs a stream with records, which is refused. Returns the line that says why.

    The line names the host of the executor, unless that is not known.
    """

    def refused(*options, client=kinesis, host_is_known=True, **given):
        put_numbers(client, stream, 3)
        code, events, errors = run("--start", "LATEST", *options, spark_config=spark_server.config, **given)
        assert (code, events) == (1, []), errors
        (error,) = [line for line in errors.splitlines() if f"stream {stream}: " in line]
        assert f"stream {stream}: on an executor{' (' if host_is_known else ''}" in error
        written = [file.name for file in (tmp_path / "table").rglob("*") if file.is_file()]
        assert written == ["writable"], "by the driver, which has checked that it can"
        return error

    return refused


@pytest.fixture
def in_own_mounts(mounts, executable, python_with_packages, tmp_path):
    """Returns an interpreter that mounts something at the table's folder, which only it can see."""
    del mounts
    folder = tmp_path / "table"

    def in_own_mounts(command):
        folder.mkdir()
        script = f'{command.format(folder)} && exec {python_with_packages} "$@"'
        return executable(f"exec unshare --mount sh -c '{script}' sh")

    return in_own_mounts


@by_spark
def test_executors_without_the_packages_are_refused(refused):
    error = refused()
    assert_mentions(error, "No module named", "set python_environment")


@by_spark
def test_an_interpreter_that_is_missing_is_named(refused):
    error = refused(python_executable="/nowhere/python3")
    assert_mentions(error, "/nowhere/python3", "Set python_executable", f"Python {PYTHON_VERSION}")


@by_spark
def test_another_version_of_python_is_named(refused, executable, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(OTHER_VERSION)
    path = f'PYTHONPATH="{tmp_path}${{PYTHONPATH:+:$PYTHONPATH}}"'
    python = executable(f"{path} exec python{PYTHON_VERSION}")
    error = refused(python_executable=python, host_is_known=False)  # Spark does not report it
    assert_mentions(error, "3.99", "Set python_executable", f"Python {PYTHON_VERSION}")


def test_an_executor_without_credentials_is_named(refused, executable, python_with_packages):
    error = refused(python_executable=executable(f"AWS_ACCESS_KEY_ID= exec {python_with_packages}"))
    assert_mentions(error, "credentials", "docs/permissions.md")


def test_an_executor_that_may_not_read_the_stream_is_named(refused, guarded, python_with_packages):
    client = boto3.client("kinesis", endpoint_url=guarded.endpoint_url)
    place = ["--endpoint-url", guarded.endpoint_url]
    error = refused(*place, client=client, python_executable=python_with_packages)
    assert_mentions(error, "AccessDeniedException", "docs/permissions.md")


def test_an_executor_that_cannot_reach_kinesis_is_named(refused, executable, python_with_packages):
    error = refused(python_executable=executable(f"HTTP_PROXY={NOWHERE} exec {python_with_packages}"))
    assert_mentions(error, "ProxyConnectionError", NOWHERE, "docs/permissions.md")


def test_an_executor_that_cannot_write_into_the_folder_of_the_table_is_named(
    refused, in_own_mounts, tmp_path
):
    error = refused(python_executable=in_own_mounts("mount --bind {0} {0} && mount -o remount,bind,ro {0}"))
    assert_mentions(error, tmp_path / "table", os.strerror(errno.EROFS), "docs/permissions.md")


def test_an_executor_that_writes_into_a_folder_of_its_own_is_named(refused, in_own_mounts, tmp_path):
    error = refused(python_executable=in_own_mounts("mount -t tmpfs tmpfs {0}"))
    assert_mentions(error, tmp_path / "table", "Use a bucket")


def test_an_executor_with_another_clock_is_named(refused, executable, python_with_packages, tmp_path):
    clock = shifted_clock(HOURS * 3600, tmp_path / "clock.so")
    pairs = " ".join(f"{name}={value}" for name, value in clock.items())
    error = refused(python_executable=executable(f"{pairs} exec {python_with_packages}"))
    assert_mentions(error, "clock", f"{HOURS * 3600} s", "NTP")
