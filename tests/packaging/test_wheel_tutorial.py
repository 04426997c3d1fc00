"""The commands of docs/tutorial.md run in order, and print and show what the page says.

The name of this file orders it after test_wheel.py, which needs an environment with only the wheel and its
dependencies: the tutorial installs more.
"""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kinesis_assets
from benchmarks.harness.waiting import wait_until
from support.clean_environment import clean_environment
from support.shell import Shell
from support.webserver import Webserver

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]
PAGE, _ = (PROJECT / "docs" / "tutorial.md").read_text().split("\n## 6. ")
"""The page without its last section, which tests/docs/test_tutorial.py executes."""
BLOCKS = re.findall(r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
FILES = {path: text for _, path, text in BLOCKS if path}


def commands(language: str, text: str) -> list[str]:
    """Return the commands of a block. One that continues on the next line is one command."""
    return re.findall(r"(?:.*\\\n)*.+\n", text) if language == "sh" else []


COMMANDS = [command for language, _, text in BLOCKS for command in commands(language, text)]
START_UI, SHOW_REVENUE = COMMANDS[-2:]
ENVIRONMENT = [command for command in COMMANDS if command.startswith(("source ", "export "))]
FURTHER = (
    "kinesis-assets doctor --stream orders",
    "dg launch --assets revenue_by_day",
)
"""Commands of other pages, which find the project of the tutorial."""

STREAM, RAW, TYPED, ROLLUP = "kinesis/orders", "kinesis/orders_raw", "latest_orders", "revenue_by_day"
ON_DEMAND = "no_duplicates"
DAGSTERS_OWN = "BetaWarning: Parameter `execution_type` of function `AssetsDefinition.__init__`"
"""Dagster warns of its own code, which copies the checks of components. It restores the filters of warnings
after it has loaded components, so no component can leave this one out."""

CHECKS = {
    RAW: {"bad_records", "every_shard_read", "no_accepted_data_loss", "time_to_loss"},
    TYPED: {"bad_records"},
    ROLLUP: set(),
}
"""The checks of each table beyond those that all have. The check on demand has no result."""

ASSETS = """{
  assetNodes {
    assetKey {path}
    assetMaterializations(limit: 10) {partition}
    assetChecksOrError {
      ... on AssetChecks {checks {name executionForLatestMaterialization {status evaluation {severity}}}}
    }
  }
  runsOrError {... on Runs {results {status}}}
}"""


def test_the_tutorial_takes_eleven_commands_and_some_forty_lines() -> None:
    assert PAGE.count("```") == 2 * len(BLOCKS)
    assert {language for language, path, _ in BLOCKS if not path} == {"sh", "yaml", ""}
    assert len(COMMANDS) <= 11
    assert not [command for command in COMMANDS if re.search(r"[;|]|&&", command)]
    assert sum(len(text.splitlines()) for text in FILES.values()) < 45


def test_the_text_of_the_tutorial_names_each_file() -> None:
    assert [path for path in FILES if f"`{path}`" not in PAGE] == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def endpoint() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def ui() -> Webserver:
    return Webserver(free_port())


@pytest.fixture
def shells(shop: Path, tmp_path: Path) -> Iterator[tuple[Shell, Shell]]:
    """Two terminals in the folder of the tutorial."""
    env = clean_environment()
    with (
        Shell.opened(shop, env, tmp_path / "first") as first,
        Shell.opened(shop, env, tmp_path / "second") as second,
    ):
        yield first, second


@pytest.fixture
def replaced(wheel: Path, endpoint: str, ui: Webserver) -> dict[str, str]:
    """What is typed instead of what is on the page: this wheel, and free ports."""
    return {
        "python3 -m venv": f"{Path(sys.executable).resolve()} -m venv",
        "pip install": "pip install --quiet",
        "kinesis-assets[demo]": f"{wheel}[demo]",
        "kinesis-assets local": f"kinesis-assets local --port {endpoint.rpartition(':')[2]}",
        "127.0.0.1:4567": endpoint,
        "dg dev": f"dg dev --port {ui.url.rpartition(':')[2]}",
    }


def typed(command: str, replaced: dict[str, str]) -> str:
    for on_page, instead in replaced.items():
        command = command.replace(on_page, instead)
    return command


def nodes(ui: Webserver) -> dict[str, Any]:
    """Return what the UI's server knows of each asset."""
    return {"/".join(node["assetKey"]["path"]): node for node in ui.query(ASSETS)["assetNodes"]}


def partitions(ui: Webserver, asset: str) -> list[str | None]:
    """Return the partition of each materialization of an asset."""
    return [event["partition"] for event in nodes(ui)[asset]["assetMaterializations"]]


def results(ui: Webserver, asset: str) -> dict[str, Any]:
    """Return the results of the checks of an asset's latest materialization, or {} until all are there."""
    checks = nodes(ui)[asset]["assetChecksOrError"]["checks"]
    found = {
        check["name"]: check["executionForLatestMaterialization"]
        for check in checks
        if check["name"] != ON_DEMAND
    }
    return found if all(found.values()) else {}


def is_idle(ui: Webserver) -> bool:
    """Return whether no run is queued or running."""
    states = {run["status"] for run in ui.query(ASSETS)["runsOrError"]["results"]}
    assert states <= {"QUEUED", "NOT_STARTED", "STARTING", "STARTED", "SUCCESS"}
    return states == {"SUCCESS"}


def check_ui(ui: Webserver, log: Path) -> None:
    """Wait until all tables are materialized, and check what the UI shows of them."""
    wait_until(ui.version, failure=log, interval=1)
    wait_until(lambda: nodes(ui), failure=log, interval=1)
    assert nodes(ui).keys() == {STREAM, RAW, TYPED, ROLLUP}
    for asset in (RAW, TYPED, ROLLUP):
        wait_until(lambda asset=asset: partitions(ui, asset), failure=log, interval=2)
    totals = {None}  # they have no partition
    assert {*partitions(ui, RAW)} - totals == {"shardId-000000000000", "shardId-000000000001"}
    wait_until(lambda: is_idle(ui), failure=log, interval=2)
    for asset, further in CHECKS.items():
        found = wait_until(lambda asset=asset: results(ui, asset), failure=log, interval=2)
        assert found.keys() == {"lag", "continuity", "no_accepted_data_loss", "compaction_debt", *further}
        assert {name: result["status"] for name, result in found.items()} == dict.fromkeys(found, "SUCCEEDED")
    assert results(ui, ROLLUP)["lag"]["evaluation"]["severity"] == "ERROR"  # by default it is a warning


def test_the_tutorial_ends_with_the_revenue_of_each_day_and_its_checks(
    shop: Path, shells: tuple[Shell, Shell], replaced: dict[str, str], endpoint: str, ui: Webserver
) -> None:
    first, second = shells
    printed, ran = "", []
    assert [on_page for on_page in replaced if on_page not in PAGE] == []
    for language, path, text in BLOCKS:
        if path:
            (shop / path).parent.mkdir(exist_ok=True)
            (shop / path).write_text(text)
        elif language == "yaml":
            (written,) = shop.glob("src/shop/defs/*/defs.yaml")
            assert written.read_text() == text
        elif language == "":
            assert printed == text
        for command in commands(language, text):
            if command == START_UI:
                first.start(typed(command, replaced))
                check_ui(ui, first.log)
            elif command == SHOW_REVENUE:
                printed = second.run(typed(command, replaced))
            else:
                printed = first.run(typed(command, replaced))
            if command.endswith("&\n"):
                wait_until(lambda: f"http://{endpoint}\n" in first.log.read_text(), failure=first.log)
            ran.append(command)
    assert ran == COMMANDS
    for command in (*ENVIRONMENT, *FURTHER):
        second.run(typed(command, replaced))
    first.interrupt()
    warned = re.findall(r".*\w+Warning: .*", first.log.read_text() + second.log.read_text())
    assert [line for line in warned if DAGSTERS_OWN not in line] == []
