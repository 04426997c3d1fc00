"""A local session listens on loopback only, with authentication. Those of a server are in `server`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.server.sockets import assert_authenticates, listening, outside

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="reads sockets in /proc")

SESSION = """
import json, sys
from kinesis_assets.spark.session import start_session

def unchanged(batches):
    yield from batches

spark = start_session(json.loads(sys.argv[1]))
spark.range(0, 2, 1, 2).mapInArrow(unchanged, "id long").collect()  # starts Python workers
blocks = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().keys().head()
print(json.dumps([
    int(spark.conf.get("spark.driver.port")),
    int(blocks.rpartition(":")[2]),
]), flush=True)
sys.stdin.read()
"""


@contextmanager
def session(**config: str) -> Iterator[tuple[int, list[int]]]:
    """Start a session in a process as a run does; yield its id and the ports of its RPC and block manager."""
    names = ("SPARK_REMOTE", "SPARK_LOCAL_IP", "SPARK_CONF_DIR")
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, json.dumps(config)],
        env={name: value for name, value in os.environ.items() if name not in names},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.pid, json.loads(process.stdout.readline())


def test_the_check_detects_a_socket_that_other_machines_can_reach() -> None:
    with socket.create_server(("0.0.0.0", 0)) as everywhere:  # noqa: S104  # that is what must be found
        assert outside(os.getpid()) >= {f"0.0.0.0:{everywhere.getsockname()[1]}"}


def test_a_local_session_listens_on_loopback_only_and_authenticates_clients() -> None:
    with session(**{"spark.master": "local[2]", "spark.ui.enabled": "true"}) as (pid, ports):
        assert outside(pid) == set()
        assert {port for _, port in listening(pid)} >= {*ports}
        for port in ports:
            assert_authenticates(port)
