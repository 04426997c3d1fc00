"""The commands for contributors: make, pytest, and the servers, which run until Ctrl-C."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from benchmarks.harness.waiting import SECONDS, wait_until
from benchmarks.servers.spark_cluster import CLUSTERS
from kinesis_assets.cli.options import parse_settings
from support.shell import Shell

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "CONTRIBUTING.md").read_text()
COMMANDS = [command.strip() for command in re.findall(r"^\.venv/bin/python( -m [^#\n]+)", PAGE, re.MULTILINE)]
TARGETS = re.findall(r"(?:^|`)make ([a-z][\w-]*)", PAGE, re.MULTILINE)
TESTED = [PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").glob("*.md")]


def test_make_has_the_targets():
    names = re.findall(r"^([\w -]+):(?![=:])", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert {*TARGETS} - {target for each in names for target in each.split()} == set()


def test_pytest_collects_tests_from_each_documented_path():
    paths = {
        path for page in TESTED for path in re.findall(r"pytest(?: -\w+)* (tests/[\w/.]+)", page.read_text())
    }
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", *sorted(paths)]
    environment = os.environ | {"PYTEST_ADDOPTS": ""}  # other options print other lines
    done = subprocess.run(
        collect, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout
    assert [path for path in paths if f"\n{path}" not in f"\n{done.stdout}"] == []


@pytest.fixture
def shell(tmp_path):
    with Shell.opened(PROJECT, os.environ, tmp_path / "shell") as shell:
        yield shell


def started(shell, *words):
    """Start the documented command of these last words. Return what it prints before it waits."""
    (command,) = (command for command in COMMANDS if command.endswith(" ".join(words)))
    shell.start(f"{shlex.quote(sys.executable)} {command}")
    wait_until(lambda: "Press Ctrl-C" in shell.log.read_text(), failure=shell.log)
    return shell.log.read_text()


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_spark_cluster_prints_options_and_ends_at_ctrl_c(shell, kind):
    printed = started(shell, "spark_cluster", kind)
    (options,) = re.findall(r"kinesis-assets run (.*) --stream", printed)
    settings = parse_settings([word for word in shlex.split(options) if word != "--set"])
    assert settings["python_executable"] == sys.executable
    (url,) = {settings["spark_config"].get(name) for name in ("spark.master", "spark.remote")} - {None}
    port = int(url.rpartition(":")[2])
    assert accepts(port)
    shell.interrupt()
    assert not accepts(port)
    assert shell.log.read_text() == printed


@pytest.mark.usefixtures("gateway_program")
def test_the_s3_server_prints_variables_and_ends_at_ctrl_c(shell, monkeypatch):
    printed = started(shell, "versitygw")
    (bucket,) = re.findall(r"s3://(\w+)", printed)
    (variables,) = re.findall(r"^export (.*)", printed, re.MULTILINE)
    for pair in variables.split():
        monkeypatch.setenv(*pair.split("="))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of its first use
    s3 = boto3.client("s3")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    shell.interrupt()
    assert not accepts(int(os.environ["AWS_ENDPOINT_URL_S3"].rpartition(":")[2]))
    assert shell.log.read_text() == printed
