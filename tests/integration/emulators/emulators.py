"""The public Kinesis emulators of npm as child processes, to compare the embedded stream with."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import tempfile
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from benchmarks.harness.waiting import SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Emulator = Literal["kinesalite", "kinesis-local"]

HERE = Path(__file__).parent
CHANGE_MS = 50
STOPPED_CHANGE_MS = 60_000
"""How long a stream is CREATING, UPDATING or DELETING while the clock runs, and while it is stopped."""

# By default, both bind to all interfaces. Here they serve a socket that is already bound to the loopback, so
# that no other process can take the port in between. Standard input is a socket as well. It closes when the
# test process ends for any reason, and the emulator then exits. Each line on it stops the clock at that
# millisecond, or lets the clock run if it is 0, and is acknowledged with a dot. Timers use real time, except
# for those that end a change of a stream: while the clock is stopped, they wait until it is advanced far
# enough.
_PREAMBLE = """
const socket = {fd: Number(process.argv[1])}, {CHANGE_MS, STOPPED_CHANGE_MS} = process.env;
const present = Date.now, realTimer = setTimeout, {writeSync} = require('fs');
let stopped = 0, changes = [];
const now = () => stopped || present();
globalThis.Date = new Proxy(Date, {
    construct: (date, parts) => new date(...(parts.length ? parts : [now()])),
    get: (date, key) => key === 'now' ? now : Reflect.get(date, key),
});
globalThis.performance = {timeOrigin: 0, now};
globalThis.setTimeout = (act, ms, ...rest) => {
    if (!stopped || ms !== Number(CHANGE_MS)) return realTimer(act, ms, ...rest);
    changes.push({act, due: stopped + Number(STOPPED_CHANGE_MS)});
};
process.stdin.on('end', () => process.exit()).on('data', (line) => {
    stopped = Number(line);
    const ended = changes.filter(({due}) => !stopped || due <= stopped);
    changes = changes.filter((change) => !ended.includes(change));
    ended.forEach(({act}) => act());
    writeSync(0, '.');
});
"""
_SCRIPTS: dict[Emulator, str] = {
    "kinesalite": """
        const ms = Number(process.env.CHANGE_MS);
        const options = {createStreamMs: ms, updateStreamMs: ms, deleteStreamMs: ms, shardLimit: 1000};
        require('kinesalite')(options).listen(socket);
    """,
    # It has no option for the host. Its TLS port is not used here and cannot be turned off, so it is set to
    # 0.
    "kinesis-local": """
        const {Server} = require('net'), {listen} = Server.prototype;
        Server.prototype.listen = function (port, done) {
            return listen.call(this, port ? socket : {port, host: '127.0.0.1'}, done);
        };
        require('kinesis-local');
    """,
}
_SETTINGS = {
    "CHANGE_MS": str(CHANGE_MS),
    "STOPPED_CHANGE_MS": str(STOPPED_CHANGE_MS),
    "AWS_ACCOUNT_ID": "000000000000",
    "AWS_REGION": "us-east-1",
    "KINESIS_MOCK_TLS_PORT": "0",
    "KINESIS_MOCK_CERT_PATH": "node_modules/kinesis-local/server.json",
    "CREATE_STREAM_DURATION": f"{CHANGE_MS}ms",
    "DELETE_STREAM_DURATION": f"{CHANGE_MS}ms",
    "SPLIT_SHARD_DURATION": f"{CHANGE_MS}ms",
    "MERGE_SHARDS_DURATION": f"{CHANGE_MS}ms",
    "UPDATE_SHARD_COUNT_DURATION": f"{CHANGE_MS}ms",
    "REGISTER_STREAM_CONSUMER_DURATION": f"{CHANGE_MS}ms",
    "DEREGISTER_STREAM_CONSUMER_DURATION": f"{CHANGE_MS}ms",
    "SHARD_LIMIT": "1000",
}


@dataclass(frozen=True)
class Service:
    """A Kinesis endpoint, and a function that stops its clock at a time since the epoch; None lets it run."""

    name: str
    endpoint: str
    stop_clock: Callable[[float | None], None]


class EmulatorError(RuntimeError):
    """An emulator could not be installed or started, or ended unexpectedly; the message has its output."""


def install() -> Path:
    """Install the versions that package.json pins, unless they are installed, and return node_modules."""
    manifest = HERE / "package.json"
    modules = HERE / "node_modules"
    with manifest.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several test sessions may share the folder
        pinned: dict[str, str] = json.load(file)["dependencies"]
        if all(_version(modules / name) == version for name, version in pinned.items()):
            return modules
        # The only optional dependency is native code for storage on disk, and no package needs its scripts.
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--omit=optional", "--ignore-scripts"]
        result = subprocess.run(
            ["npm", "install", *options],
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if result.returncode:
        raise EmulatorError(f"npm install ended with {result.returncode}:\n{result.stdout}")
    return modules


@contextmanager
def running(name: Emulator) -> Iterator[Service]:
    """Run an installed emulator on a free port of the loopback, and yield it as soon as it responds."""
    control, stdin = socket.socketpair()
    with (
        control,
        stdin,
        tempfile.TemporaryFile("w+") as log,
        socket.create_server(("127.0.0.1", 0)) as listener,
        subprocess.Popen(
            ["node", "-e", _PREAMBLE + _SCRIPTS[name], str(listener.fileno())],
            cwd=HERE,
            env={"PATH": os.environ["PATH"], **_SETTINGS},
            pass_fds=[listener.fileno()],
            stdin=stdin.fileno(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        control.settimeout(SECONDS)
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # Only the child process has these sockets now, so that connections are refused after it ends.
        listener.close()
        stdin.close()
        try:
            problem = _await_response(endpoint, process)
            if not problem:
                yield Service(name, endpoint, partial(_stop_clock, control))
                problem = _ended(process)
        finally:
            _stop(process)
        if problem:
            log.seek(0)
            raise EmulatorError(f"{name} {problem}:\n{log.read()}")


def client(endpoint: str, **config: Any) -> Any:
    """Return a boto3 client for an emulator that ignores the AWS and proxy settings of the caller."""
    return boto3.client(
        "kinesis",
        endpoint_url=endpoint,
        region_name=_SETTINGS["AWS_REGION"],
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106  # it is not verified
        config=Config(proxies={}, **config),
    )


def _stop_clock(control: socket.socket, seconds: float | None) -> None:
    """Set the clock of an emulator."""
    try:
        control.sendall(f"{round((seconds or 0) * 1000)}\n".encode())
        acknowledgement = control.recv(1)
    except OSError as error:
        raise EmulatorError(f"the clock of the emulator cannot be set: {error}") from error
    if not acknowledgement:
        raise EmulatorError("the emulator ended unexpectedly")


def _version(package: Path) -> str | None:
    """Return the version of the package that is installed in a folder."""
    try:
        version: str = json.loads((package / "package.json").read_text())["version"]
    except FileNotFoundError:
        return None
    return version


def _await_response(endpoint: str, process: subprocess.Popen[bytes]) -> str:
    """Call ListStreams until it succeeds or the emulator ends, and return what went wrong, if anything."""
    config = {"connect_timeout": SECONDS, "read_timeout": SECONDS, "retries": {"total_max_attempts": 1}}
    with closing(client(endpoint, **config)) as kinesis:

        def has_responded_or_ended() -> bool:
            try:
                kinesis.list_streams()
            except BotoCoreError:  # it does not respond yet
                return process.poll() is not None
            return True

        try:
            wait_until(has_responded_or_ended, failure="the emulator does not respond")
        except ClientError as error:
            return f"returned an error: {error}"
    return _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> str:
    """Return how a process ended that should be running."""
    return "" if process.poll() is None else f"ended unexpectedly with {process.returncode}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of an emulator, which keeps nothing."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
