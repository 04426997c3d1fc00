"""The public Kinesis emulators of npm, run as child processes: second opinions on how Kinesis answers."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator

Emulator = Literal["kinesalite", "kinesis-local"]

HERE = Path(__file__).parent
INSTALL_SECONDS = 180
START_SECONDS = 60
STOP_SECONDS = 5

# Both bind to all interfaces when started their own way. Here they serve a socket that is already bound to
# loopback, which also leaves no moment in which another process can take the port. Standard input ends when
# the test process does, however it ends, and the emulator with it.
_PREAMBLE = """
const socket = {fd: Number(process.argv[1])};
process.stdin.on('end', () => process.exit()).resume();
"""
_SCRIPTS: dict[Emulator, str] = {
    "kinesalite": """
        const quick = {createStreamMs: 50, updateStreamMs: 50, deleteStreamMs: 50, shardLimit: 1000};
        require('kinesalite')(quick).listen(socket);
    """,
    # It takes ports but no host. Its TLS port, set to 0, has no use here and cannot be turned off.
    "kinesis-local": """
        const {Server} = require('net'), {listen} = Server.prototype;
        Server.prototype.listen = function (port, done) {
            return listen.call(this, port ? socket : {port, host: '127.0.0.1'}, done);
        };
        require('kinesis-local');
    """,
}
_SETTINGS = {
    "AWS_ACCOUNT_ID": "000000000000",
    "AWS_REGION": "us-east-1",
    "KINESIS_MOCK_TLS_PORT": "0",
    "KINESIS_MOCK_CERT_PATH": "node_modules/kinesis-local/server.json",
    "CREATE_STREAM_DURATION": "50ms",
    "DELETE_STREAM_DURATION": "50ms",
    "SPLIT_SHARD_DURATION": "50ms",
    "MERGE_SHARDS_DURATION": "50ms",
    "UPDATE_SHARD_COUNT_DURATION": "50ms",
    "SHARD_LIMIT": "1000",
}


class EmulatorError(RuntimeError):
    """An emulator could not be installed or started, or ended by itself; carries what it printed."""


def install() -> Path:
    """Install the versions that package.json pins, unless they are there, and return node_modules."""
    manifest = HERE / "package.json"
    modules = HERE / "node_modules"
    with manifest.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two test sessions may share the folder
        pinned: dict[str, str] = json.load(file)["dependencies"]
        if all(_version(modules / name) == version for name, version in pinned.items()):
            return modules
        # The one optional dependency is native code for a store on disk, and no package needs its scripts.
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--omit=optional", "--ignore-scripts"]
        result = subprocess.run(
            ["npm", "install", *options],
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    if result.returncode:
        raise EmulatorError(f"npm install ended with {result.returncode}:\n{result.stdout}")
    return modules


@contextmanager
def running(name: Emulator) -> Iterator[str]:
    """Run an installed emulator on a free loopback port, and yield its endpoint URL once it answers."""
    with (
        tempfile.TemporaryFile("w+") as log,
        socket.create_server(("127.0.0.1", 0)) as listener,
        subprocess.Popen(
            ["node", "-e", _PREAMBLE + _SCRIPTS[name], str(listener.fileno())],
            cwd=HERE,
            env={"PATH": os.environ["PATH"], **_SETTINGS},
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.close()  # the child's copy is the only one left, so its end refuses connections
        try:
            problem = _await_answer(endpoint, process)
            if not problem:
                yield endpoint
                problem = _ended(process)
        finally:
            _stop(process)
        if problem:
            log.seek(0)
            raise EmulatorError(f"{name} {problem}:\n{log.read()}")


def client(endpoint: str, **config: Any) -> Any:
    """Return a boto3 client for an emulator that takes nothing from the caller's AWS or proxy settings."""
    return boto3.client(
        "kinesis",
        endpoint_url=endpoint,
        region_name=_SETTINGS["AWS_REGION"],
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - nothing checks it
        config=Config(proxies={}, **config),
    )


def _version(package: Path) -> str | None:
    """Return the version of a package that is installed in a folder."""
    try:
        version: str = json.loads((package / "package.json").read_text())["version"]
    except FileNotFoundError:
        return None
    return version


def _await_answer(endpoint: str, process: subprocess.Popen[bytes]) -> str:
    """Call ListStreams until it is answered; return what went wrong instead, if anything."""
    deadline = time.monotonic() + START_SECONDS
    config = {"connect_timeout": 1, "read_timeout": 1, "retries": {"total_max_attempts": 1}}
    with closing(client(endpoint, **config)) as kinesis:
        while time.monotonic() < deadline:
            try:
                kinesis.list_streams()
            except ClientError as error:
                return f"refused: {error}"
            except BotoCoreError:  # not yet
                if problem := _ended(process):
                    return problem
            else:
                return ""
    return f"gave no answer in {START_SECONDS} s"


def _ended(process: subprocess.Popen[bytes]) -> str:
    """Say how a process ended that should be running."""
    return "" if process.poll() is None else f"ended by itself with {process.returncode}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process group of an emulator, kindly at first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
            return
