"""Every block of docs/your-project.md does what the page says."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from benchmarks.harness.waiting import wait_for_next_second
from kinesis_assets import KinesisStreamComponent
from kinesis_assets.cli.command_line import commands
from support.dagster_components import dagsters_own_warnings, loaded
from support.notebook_kernel import NotebookKernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    import dagster as dg

pytestmark = dagsters_own_warnings

PAGE = (Path(__file__).parents[2] / "docs" / "your-project.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def names(definitions: dg.Definitions) -> set[str]:
    repository = definitions.get_repository_def()
    return {
        *(key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()),
        *(sensor.name for sensor in repository.sensor_defs),
        *(job.name for job in repository.get_all_jobs() if not job.name.startswith("__")),
    }


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[NotebookKernel]:
    with NotebookKernel.started(tmp_path) as kernel:
        yield kernel


@pytest.fixture
def in_yaml() -> dg.Definitions:
    (text,) = blocks("yaml")
    document = yaml.safe_load(text)
    assert document["type"] == "kinesis_assets.KinesisStreamComponent"
    return loaded(KinesisStreamComponent, **document["attributes"])[1]


def test_the_python_defines_what_the_yaml_defines(in_yaml: dg.Definitions) -> None:
    found: dict[str, Any] = {}
    exec(blocks("python")[0], found)  # noqa: S102  # the page's own lines
    assert names(found["defs"]) == names(in_yaml)


def test_the_page_lists_the_definitions(in_yaml: dg.Definitions) -> None:
    (table,) = re.findall(r"## What the definitions contain\n(.*?)\n## ", PAGE, re.DOTALL)
    assert set(re.findall(r"`(kinesis[_/]\w+)`", table)) == names(in_yaml)


def test_the_commands_of_the_page_take_their_options() -> None:
    lines = [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]
    assert [line[:2] for line in lines[:2]] == [["pip", "wheel"], ["pip", "install"]]
    del lines[:2]
    assert len(lines) == 3
    for program, name, *options in lines:
        assert program == "kinesis-assets"
        commands.commands[name].make_context(name, options)


@pytest.mark.usefixtures("clicks")
@pytest.mark.thorough
def test_the_data_source_reads_the_stream_in_a_kernel_whose_environment_is_not_on_the_path(
    kernel: NotebookKernel,
) -> None:
    wait_for_next_second()  # the records of the stream arrived before this one
    until = datetime.now(UTC).isoformat(timespec="seconds")
    cell = (
        blocks("python")[1].replace("2026-01-31T12:00:00Z", until).replace("spark.read", "frame = spark.read")
    )
    assert kernel.value_of("(frame.count(), frame.columns[:3])", after=cell) == (
        10,
        ["stream", "shard_id", "sequence_number"],
    )
