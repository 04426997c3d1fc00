"""`kinesis-assets dev` as a user starts it. The tests of the wheel start `kinesis-assets demo`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import kinesis_assets
from benchmarks.harness.waiting import SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]
SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")


def test_dev_reports_a_port_in_use(tmp_path):
    (tmp_path / "workspace.yaml").touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        done = subprocess.run(
            [SCRIPT, "dev", "--port", port],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            text=True,
            timeout=SECONDS,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: port {port}: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def marker() -> str:
    """A value in the environment of every process that the test starts, and of no other."""
    return uuid4().hex


def processes_with(marker: str) -> dict[int, str]:
    """Return the command lines of the processes whose environment contains the marker, by process id."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # the process has ended, or belongs to another user
    return found


LATEST = "assetMaterializations(limit: 1) {runId}"


class Dev:
    """A running `kinesis-assets dev`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self._url = f"http://127.0.0.1:{port}/graphql"
        self._log = log

    def query(self, text: str) -> dict[str, Any]:
        """Return the webserver's response to a GraphQL query."""
        body = json.dumps({"query": text}).encode()
        request = urllib.request.Request(  # noqa: S310  # a webserver on loopback
            self._url, body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as response:  # noqa: S310
            content = json.loads(response.read())
        assert "errors" not in content, content
        data: dict[str, Any] = content["data"]
        return data

    def materialized(self) -> int:
        """Return the number of materialized shards; 0 until the webserver responds."""
        try:
            node = self.query(
                '{assetNodeOrError(assetKey: {path: ["kinesis", "orders_raw"]})'
                "{... on AssetNode {partitionStats {numMaterialized}}}}"
            )["assetNodeOrError"]
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return 0
        return int(node.get("partitionStats", {}).get("numMaterialized", 0))

    def wait_until_derived(self, asset: str) -> None:
        """Wait until an asset was materialized."""
        query = f'{{assetNodeOrError(assetKey: {{path: ["{asset}"]}}) {{... on AssetNode {{{LATEST}}}}}}}'
        wait_until(
            lambda: self.query(query)["assetNodeOrError"]["assetMaterializations"],
            self.process,
            failure=self._log,
        )

    def wait_until_materialized(self, shards: int) -> None:
        wait_until(lambda: self.materialized() >= shards, self.process, failure=self._log)

    def runs(self) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.query(
            "{runsOrError {... on Runs {results {status tags {key value}}}}}"
        )["runsOrError"]["results"]
        return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in results]


@pytest.fixture
def dev(tmp_path: Path, marker: str) -> Iterator[Dev]:
    """`kinesis-assets dev` in a copy of this project's configuration."""
    for name in ("workspace.yaml", "dagster.yaml"):
        shutil.copy(PROJECT / name, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [SCRIPT, "dev", "--port", str(port)],
            cwd=tmp_path,
            env=os.environ | {"KINESIS_ASSETS_TEST": marker},
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Dev(process, port, log)
        finally:
            for pid in processes_with(marker):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")
def test_dev_materializes_all_shards_and_tables_and_ends_with_all_its_processes(dev, marker, tmp_path):
    dev.wait_until_materialized(4)
    dev.wait_until_derived("revenue_by_day")
    runs = dev.runs()
    assert {run["tags"].get("dagster/sensor_name") for run in runs} == {
        "kinesis__orders_raw_sensor",
        "kinesis__orders_raw_automation",
    }
    assert "FAILURE" not in {run["status"] for run in runs}
    assert (tmp_path / ".local" / "dev" / "orders" / "_delta_log").is_dir()
    assert len(processes_with(marker)) > 1

    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(SECONDS) == 0

    wait_until(lambda: not processes_with(marker), failure="processes are left")
