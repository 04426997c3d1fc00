"""versitygw, an S3 server that honors conditional puts also if they come at the same time, unlike moto."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from benchmarks.harness.file_lock import locked
from benchmarks.harness.interruption import wait_for_interruption
from benchmarks.harness.waiting import wait_until
from benchmarks.servers.bucket import REGION, create_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"
"""Older versions check the condition of a put before they write, but not again when they publish."""

QUICK_BUILD = ["-ldflags=-s -w", "-gcflags=all=-l"]
"""Options that leave out the debugging information, and the inlining of functions."""

LOOPBACK = "127.0.0.1"
BUILDS = Path(__file__).parents[2] / ".local" / "versitygw"

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
}
"""The environment of a server that is started by hand, and of the processes that use it."""


class GatewayUnavailable(RuntimeError):
    """versitygw cannot be built on this machine."""


def build() -> Path:
    """Return the path of the program, which is built if this version has not been built here before.

    Raises:
        GatewayUnavailable: Go is not installed, or cannot build it.
    """
    program = BUILDS / VERSION / "versitygw"
    BUILDS.mkdir(parents=True, exist_ok=True)
    with locked(BUILDS / "lock"):  # several test sessions may share the folder
        if program.exists():
            return program
        if shutil.which("go") is None:
            raise GatewayUnavailable("Go is not on the PATH; versitygw needs version 1.25 or newer")
        command = ["go", "install", *QUICK_BUILD, f"{PROGRAM}@{VERSION}"]
        with TemporaryDirectory(dir=BUILDS) as unfinished:
            settings = {"GOBIN": unfinished, "CGO_ENABLED": "0"}
            done = subprocess.run(
                command, env=os.environ | settings, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise GatewayUnavailable(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
            program.parent.mkdir(exist_ok=True)
            return Path(unfinished, program.name).rename(program)


@contextmanager
def running(program: Path, folder: Path, host: str = LOOPBACK) -> Iterator[str]:
    """Run the server until the end of the block. Its keys are those of the environment.

    Args:
        folder: A folder for the buckets. Its file system needs extended attributes.
        host: The address at which it listens.

    Yields:
        The URL of the server.
    """
    with socket.create_server((host, 0)) as probe:
        address = f"{host}:{probe.getsockname()[1]}"
    buckets, log = folder / "buckets", folder / "log"
    buckets.mkdir()
    keys = ["--access", os.environ["AWS_ACCESS_KEY_ID"], "--secret", os.environ["AWS_SECRET_ACCESS_KEY"]]
    region = ["--region", os.environ["AWS_REGION"]]
    command = [str(program), "--quiet", "--port", address, *keys, *region, "posix", str(buckets)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        wait_until(lambda: _accepts(address), server, failure=log)
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(30)


def variables_of(url: str) -> dict[str, str]:
    """Return the environment variables that point a process to a server."""
    return {"AWS_ENDPOINT_URL_S3": url, "AWS_ALLOW_HTTP": "true"}


@click.command()
def main() -> None:
    """Run the server with an empty bucket, and print the variables of processes that use it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(VARIABLES)
    try:
        program = build()
    except GatewayUnavailable as error:
        raise click.ClickException(str(error)) from error
    with TemporaryDirectory() as folder, running(program, Path(folder)) as url:
        variables = VARIABLES | variables_of(url)
        command = "export " + " ".join(f"{name}={value}" for name, value in variables.items())
        wait_for_interruption(f"To use the bucket {create_bucket(url)}:\n{command}")


def _accepts(address: str) -> bool:
    host, _, port = address.partition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=10):
        return True
    return False


if __name__ == "__main__":
    main()
