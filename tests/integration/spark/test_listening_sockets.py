"""A Spark that this package starts listens on loopback only, with authentication."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.spark.server import SparkServer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="reads sockets in /proc")

_LISTENS = "0A"

DRIVER_PORT = (
    "from pyspark.sql import SparkSession as S; print(S.builder.getOrCreate().conf.get('spark.driver.port'))"
)

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


def process_tree(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
    tree = {pid}
    while found := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= found
    return tree


def listening(pid: int) -> set[tuple[IPv4Address | IPv6Address, int]]:
    """Return the addresses and ports on which a process or a descendant accepts TCP connections."""
    inodes = set()
    for process in process_tree(pid):
        for descriptor in Path(f"/proc/{process}/fd").glob("*"):
            try:
                inodes.add(str(descriptor.readlink()))
            except FileNotFoundError:
                continue  # the socket was closed
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in inodes:
                found.add(_address(fields[1]))
    return found


def _address(field: str) -> tuple[IPv4Address | IPv6Address, int]:
    """Parse an address of /proc, which consists of 32-bit words in the machine's byte order."""
    words, _, port = field.partition(":")
    packed = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    address = ip_address(packed)
    return getattr(address, "ipv4_mapped", None) or address, int(port, 16)


def outside(pid: int) -> set[str]:
    """Return the sockets of a process and its descendants that other machines can reach."""
    sockets = listening(pid)
    assert sockets, "no socket was found"
    return {f"{address}:{port}" for address, port in sockets if not address.is_loopback}


def answer_without_a_secret(port: int) -> bytes:
    """Return the response of a Spark RPC server to a client that has not authenticated."""
    body = b"any"
    message = struct.pack(">bqi", 3, 1, len(body)) + body  # Spark's RpcRequest: type, id, bytes of the body
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(struct.pack(">q", 8 + len(message)) + message)
        answers = connection.makefile("rb")
        (length,) = struct.unpack(">q", answers.read(8))
        return answers.read(length - 8)


def assert_authenticates(port: int) -> None:
    assert b"Expected SaslMessage, received something else" in answer_without_a_secret(port)


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


@pytest.fixture(scope="module")
def server(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    del environment
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPARK_LOCAL_IP", raising=False)
        with SparkServer(tmp_path_factory.mktemp("server") / "log") as server:
            yield server


def test_a_server_listens_on_loopback_only(server: SparkServer) -> None:
    assert outside(server.pid) == set()


def test_a_server_authenticates_clients(server: SparkServer) -> None:
    attached = subprocess.run(
        [sys.executable, "-c", DRIVER_PORT],
        env=os.environ | {"SPARK_REMOTE": server.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert_authenticates(int(attached.stdout))


def test_no_command_line_of_a_server_contains_its_token(server: SparkServer) -> None:
    token = server.url.partition(";token=")[2]
    assert token
    shown = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in process_tree(server.pid)]
    assert not [line for line in shown if token.encode() in line]
