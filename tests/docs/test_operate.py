"""docs/operate.md agrees with the code, and its commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from kinesis_assets import errors
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.preview import Effect
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.table.run_files.pause import PAUSE_FILE

PAGE = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
LINES = [
    shlex.split(line)[1:]
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
COMMANDS = {line[0]: line for line in LINES}
"""The last command of each name."""


@pytest.fixture
def operate(clicks, cli, monkeypatch, tmp_path):
    """Run the page's command of a name on its stream, whose records are in its table."""
    del clicks
    monkeypatch.chdir(tmp_path)
    with StreamProject.from_settings("clicks", table="./clicks").open_stream() as opened:
        plan = plan_run(opened.client, opened.table, asked=["shardId-000000000000"], policy=ReadPolicy())
        execute_run(land_group, opened.client, opened.table, plan)

    def run(name, *arguments):
        done = cli(*COMMANDS[name], *arguments)
        assert done.exit_code == 0, done.err
        return done

    return run


def test_the_shown_configuration_contains_that_of_the_page(operate):
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    wanted, found = yaml.safe_load(text), yaml.safe_load(operate("show").out)
    assert found["type"] == wanted["type"]
    assert wanted["attributes"].items() <= found["attributes"].items()


def test_the_plan_is_that_of_the_page(operate):
    header, *rows = next(
        block.splitlines() for block in re.findall(r"^```\n(of .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    )
    printed = operate("plan").out.splitlines()
    assert printed[0].split() == header.split()
    assert [line.split()[0] for line in printed[1:]] == [line.split()[0] for line in rows]
    assert [re.split(r" {2,}", line)[2] for line in printed[1:]] == [
        re.split(r" {2,}", line)[2] for line in rows
    ]


def test_every_effect_of_a_plan_is_documented():
    table = re.findall(r"^\| ([a-z ]+) \| (?=[A-Z])", PAGE, re.MULTILINE)
    assert table == list(Effect)


def test_a_paused_stream_is_refused_until_it_is_resumed(operate, cli):
    operate("pause")
    assert "the producers change their format" in cli("run", "--stream", "clicks", "--table", "./clicks").err
    assert cli("maintain", "--stream", "clicks", "--table", "./clicks").exit_code == 0
    assert "the producers change their format" in operate("resume").out
    assert operate("resume", "--json").lines[0]["reason"] is None


def test_a_catch_up_is_planned_and_applied(spark, operate, cli):
    del spark
    assert [command for command in LINES if command[0] == "catch-up"] == [
        COMMANDS["catch-up"][:-1],
        COMMANDS["catch-up"],
    ]
    assert cli(*COMMANDS["catch-up"][:-1]).exit_code == 0
    operate("catch-up")
    assert f"`{StreamNames('clicks').job('catch_up')}`" in PAGE


def test_the_documented_names_exist():
    assert f"`{PAUSE_FILE}`" in PAGE
    for name in re.findall(r"`([A-Z]\w+)`", PAGE):
        assert hasattr(errors, name), name
