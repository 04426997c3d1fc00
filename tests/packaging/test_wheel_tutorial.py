"""The commands of docs/tutorial.md run in order, with what the page says that they print and show.

The name of this file orders it after test_wheel.py, which needs an environment with only the wheel and its
dependencies: the tutorial installs more.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

import kinesis_assets
from support.clean_environment import clean_environment
from support.terminal import Terminal
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]
PAGE = (PROJECT / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r'^```(\w*)(?: title="(.+)")?\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, _, text in BLOCKS if language == "sh" for line in text.splitlines()]
FILES = [(path, text) for _, path, text in BLOCKS if path]

ASSETS = """{
  assetNodes {
    assetKey { path }
    assetMaterializations(limit: 10) { partition }
    assetChecksOrError {
      ... on AssetChecks {
        checks { name executionForLatestMaterialization { status evaluation { severity } } }
      }
    }
  }
  runsOrError { ... on Runs { results { status } } }
}"""

pytestmark = pytest.mark.timeout(1800)  # the environment is downloaded and unpacked


def test_the_tutorial_takes_ten_commands_and_forty_lines() -> None:
    assert len(COMMANDS) <= 10
    assert not any(re.search(r"[;|]|&&", line) for line in COMMANDS if " -c " not in line)
    assert sum(len(text.splitlines()) for _, text in FILES) <= 40


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def ports() -> dict[str, str]:
    """Ports of this machine, by those of the page."""
    return {"4567": str(free_port()), "3000": str(free_port())}


@pytest.fixture
def terminals(shop: Path, tmp_path: Path) -> Iterator[tuple[Terminal, Terminal]]:
    """Two terminals in the folder of the tutorial. Their `python3` is this one."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = clean_environment() | {"PATH": path}
    with (
        Terminal.opened(shop, env, tmp_path / "first") as first,
        Terminal.opened(shop, env, tmp_path / "second") as second,
    ):
        yield first, second


def as_typed(command: str, wheel: Path, ports: dict[str, str]) -> str:
    """Return a command with this wheel, its tested dependencies and free ports."""
    pip = f"pip install -c {PROJECT / 'constraints.txt'}"
    for name, value in {
        "pip install": pip,
        "kinesis-assets[demo]": f"{wheel}[demo]",
        "kinesis-assets local": f"kinesis-assets local --port {ports['4567']}",
        "dg dev": f"dg dev --port {ports['3000']}",
        ":4567": f":{ports['4567']}",
    }.items():
        command = command.replace(name, value)
    return command


def asked(port: str) -> dict[str, Any]:
    """Return the answer of the UI's server to `ASSETS`; empty if it has none yet."""
    body = json.dumps({"query": ASSETS}).encode()
    request = Request(f"http://127.0.0.1:{port}/graphql", body, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=60) as response:  # noqa: S310  # of this machine
            found: dict[str, Any] = json.load(response)["data"]
    except (URLError, ConnectionError, TimeoutError):
        return {}
    return found


def nodes(port: str) -> dict[str, Any]:
    """Return what the UI's server knows of each asset."""
    return {"/".join(node["assetKey"]["path"]): node for node in asked(port).get("assetNodes", ())}


def materialized(port: str, asset: str) -> list[str | None]:
    """Return the partitions of an asset's newest materializations."""
    found = nodes(port).get(asset, {"assetMaterializations": ()})["assetMaterializations"]
    return [each["partition"] for each in found]


def test_the_tutorial_ends_with_the_revenue_of_each_day_and_its_checks(
    wheel: Path, shop: Path, terminals: tuple[Terminal, Terminal], ports: dict[str, str]
) -> None:
    first, second = terminals
    printed: dict[str, str] = {}
    *typed, ui, read = COMMANDS
    for language, path, text in BLOCKS:
        if path:
            (shop / path).parent.mkdir(exist_ok=True)
            with (shop / path).open("a") as file:
                file.write(text)
        elif language == "sh" and text.strip() not in {ui, read}:
            for command in text.splitlines():
                printed[command.split(" ")[0]] = first.run(as_typed(command, wheel, ports))
                if command.endswith("&"):
                    url = f"http://127.0.0.1:{ports['4567']}\n"
                    wait_until(lambda url=url: url in first.log.read_text(), failure=first.log)  # type: ignore[misc]
        elif language == "yaml":
            assert (shop / "src/shop/defs/orders_stream/defs.yaml").read_text() == text
    assert len(typed) == 8
    shards = dict(line.split() for line in printed["python"].splitlines())
    assert shards.keys() == {"ord-1", "ord-2", "ord-3"}

    first.start(as_typed(ui, wheel, ports))
    server = ports["3000"]
    wait_until(lambda: nodes(server), failure=first.log, interval=2)
    assert nodes(server).keys() == {"kinesis/orders", "kinesis/orders_raw", "orders", "revenue_by_day"}
    for asset in ("kinesis/orders_raw", "orders", "revenue_by_day"):
        wait_until(lambda asset=asset: materialized(server, asset), failure=first.log, interval=2)  # type: ignore[misc]
    assert {*materialized(server, "kinesis/orders_raw")} == {"shardId-000000000000", "shardId-000000000001"}

    checks = {
        check["name"]: check["executionForLatestMaterialization"]
        for check in nodes(server)["kinesis/orders_raw"]["assetChecksOrError"]["checks"]
    }
    assert checks.pop("no_duplicates") is None  # executed only by hand
    assert {check["status"] for check in checks.values()} == {"SUCCEEDED"}
    assert checks["lag"]["evaluation"]["severity"] == "ERROR"

    (rows,) = (text for language, path, text in BLOCKS if not language)
    assert sorted(second.run(read).splitlines()) == sorted(rows.splitlines())

    def runs_have_succeeded() -> bool:
        return {run["status"] for run in asked(server)["runsOrError"]["results"]} == {"SUCCESS"}

    wait_until(runs_have_succeeded, failure=first.log, interval=2)
    first.interrupt()
