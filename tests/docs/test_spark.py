"""docs/spark.md agrees with the code, and its commands and YAML are valid.

tests/integration/spark/server tests the servers.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks.harness.waiting import SECONDS
from kinesis_assets import KinesisStreamComponent
from kinesis_assets.cli.command_line import commands
from kinesis_assets.dagster.settings.spark_settings import SERVICE_SETTINGS
from kinesis_assets.spark.local_settings import ARCHIVES, MANAGED, archive_path, local_settings
from support.dagster_components import dagsters_own_warnings, loaded, validator_of

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
CLUSTER, SERVICE = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = [shlex.split(block) for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]

ARCHIVE = archive_path()
"""This user's archive."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Hide this user's archive and this machine's Spark settings."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_documented_commands_are_valid(command):
    name, *arguments = command
    assert name == "kinesis-assets"
    assert commands.commands[arguments[0]].make_context(name, arguments[1:]).params


@dagsters_own_warnings
@pytest.mark.parametrize("block", [CLUSTER, SERVICE], ids=["cluster", "service"])
def test_a_yaml_block_is_valid_and_sets_the_session(block):
    attributes = block["attributes"]
    assert block["type"] == "kinesis_assets.KinesisStreamComponent"
    validator_of(KinesisStreamComponent).validate(attributes)
    component, _ = loaded(**attributes)
    config = component.session_config
    assert attributes.get("spark_config", {}).items() <= config.items()
    assert attributes.get("managed_spark", {}).items() <= config.get(MANAGED, {}).items()
    assert config[ARCHIVES].partition("#")[0] == attributes["python_environment"]


def test_the_page_says_what_every_service_needs():
    table = PAGE.partition("| `service` | needs |\n|---|---|\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [*SERVICE_SETTINGS]


def test_the_documented_settings_are_those_of_a_local_session():
    documented = dict(re.findall(r"^\| (spark\.\S+(?:, spark\.\S+)*) \| (.+) \|$", PAGE, re.MULTILINE))
    settings = {name: value for names, value in documented.items() for name in names.split(", ")}
    options, log = "spark.driver.extraJavaOptions", r" -Dlog4j2\.configurationFile=\S+"
    ours = local_settings({})
    assert ours | {options: re.sub(log, "", ours[options])} == settings


@pytest.fixture
def archive(tmp_path):
    """The archive that the command writes. `make` has executed the command before, which takes a while."""
    if ARCHIVE.exists():
        return ARCHIVE
    command = next(command for command in COMMANDS if "--archive" in command)
    done = subprocess.run(
        [Path(sys.prefix, "bin", command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    archive = Path(done.stdout.strip())
    assert archive.parent == tmp_path / "cache" / "kinesis-assets"
    assert [archive] == list(archive.parent.iterdir())
    return archive


def test_a_session_uses_the_archive_that_the_command_writes(archive):
    script = (
        "from kinesis_assets.spark.session import start_session\n"
        "spark = start_session({'spark.master': 'local[1]'})\n"
        "print(open(f'/proc/{spark.sparkContext._gateway.proc.pid}/maps').read())\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    session = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"XDG_CACHE_HOME": str(archive.parents[1])},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert str(archive) in session.stdout, session.stderr
