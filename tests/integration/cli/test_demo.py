"""`kinesis-assets demo` and `kinesis-assets dev`, as a user starts them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import kinesis_assets

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]
SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")
DEMO_SECONDS = 120
MATERIALIZED_SECONDS = 150
STOP_SECONDS = 65


def test_dev_on_a_taken_port_is_one_line(tmp_path):
    (tmp_path / "workspace.yaml").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [SCRIPT, "dev", "--port", port],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: port {port}: ")
    assert len(done.stderr.splitlines()) == 1


def test_demo_ends_well_and_says_what_it_proved(tmp_path):
    done = subprocess.run(
        [SCRIPT, "demo"],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *_, sentence, place = done.stdout.splitlines()
    assert sentence == (
        "25000 records acknowledged, 25000 rows in the table, 25000 of them exactly once "
        "with their bytes unchanged: every record is there exactly once."
    )
    assert Path(place.removeprefix("The table: "), "_delta_log").is_dir()
    shards = re.findall(r"^(shardId-\d{12}) .* (open|finished) ", done.stdout, flags=re.MULTILINE)
    assert [state for _, state in shards] == ["finished"] * 3 + ["open"] * 4
    assert "Traceback" not in done.stdout + done.stderr


# dev


@pytest.fixture
def marker() -> str:
    """In the environment of everything that a test starts, and of nothing else."""
    return uuid4().hex


def alive(marker: str) -> dict[int, str]:
    """The processes that have the marker in their environment, however they descend from the test's."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or is another user's
    return found


class Dev:
    """`kinesis-assets dev`, running in a folder of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self._url = f"http://127.0.0.1:{port}/graphql"
        self._log = log

    def ask(self, query: str) -> dict[str, Any]:
        """What the webserver answers."""
        content = json.dumps({"query": query}).encode()
        request = urllib.request.Request(  # noqa: S310  # its own webserver
            self._url, content, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            told = json.loads(answer.read())
        assert "errors" not in told, told
        data: dict[str, Any] = told["data"]
        return data

    def materialized(self) -> int:
        """How many shards of the raw table are materialized; 0 as long as nothing answers."""
        try:
            node = self.ask(
                '{assetNodeOrError(assetKey: {path: ["kinesis", "orders_raw"]})'
                "{... on AssetNode {partitionStats {numMaterialized}}}}"
            )["assetNodeOrError"]
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return 0
        return int(node.get("partitionStats", {}).get("numMaterialized", 0))

    def await_materialized(self, shards: int) -> None:
        deadline = time.monotonic() + MATERIALIZED_SECONDS
        while (found := self.materialized()) < shards:
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"{found} of {shards}:\n{self._log.read_text()}"
            time.sleep(0.5)  # between two looks

    def runs(self) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.ask(
            "{runsOrError {... on Runs {results {status tags {key value}}}}}"
        )["runsOrError"]["results"]
        return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in results]


@pytest.fixture
def dev(tmp_path: Path, marker: str) -> Iterator[Dev]:
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
            for pid in alive(marker):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_dev_materializes_all_shards_by_its_sensor_and_ends_whole_on_ctrl_c(dev, marker, tmp_path):
    dev.await_materialized(4)
    runs = dev.runs()
    assert runs
    assert {run["tags"].get("dagster/sensor_name") for run in runs} == {"kinesis__orders_raw_sensor"}
    assert "FAILURE" not in {run["status"] for run in runs}
    assert (tmp_path / ".local" / "dev" / "orders" / "_delta_log").is_dir()
    assert len(alive(marker)) > 1

    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(STOP_SECONDS) == 0

    deadline = time.monotonic() + STOP_SECONDS
    while left := alive(marker):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)  # between two looks
