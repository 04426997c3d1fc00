"""Other AWS services than Kinesis, emulated by moto in a process of its own."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION = "us-east-1"
BUCKET = "lake"


@contextmanager
def moto_endpoint(log: Path | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run moto until the end of the block.

    Args:
        log: A file that receives a line for each request.

    Yields:
        The URL of the endpoint, and its process.
    """
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (log or Path(os.devnull)).open("wb") as stderr:
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
    try:
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.terminate()
        server.wait(30)


_PORTS = range(20_000, 32_768)
"""Ports that Linux gives to no program that asks for any: none takes one before the server listens."""


def _free_port() -> int:
    while True:
        port = secrets.choice(_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextmanager
def bucket(log: Path | None = None) -> Iterator[str]:
    """Run an emulated bucket until the end of the block, and point the environment of this process to it.

    Args:
        log: A file that receives a line for each request.

    Yields:
        The URI of the bucket.
    """
    with moto_endpoint(log) as (url, _):
        environment = {"AWS_ENDPOINT_URL_S3": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION}
        with patch.dict(os.environ, environment):
            yield create_bucket(url)


def create_bucket(url: str) -> str:
    """Create the bucket at an endpoint as soon as it responds, and return the URI of the bucket."""
    _client(url).create_bucket(Bucket=BUCKET)
    return f"s3://{BUCKET}"


def upload(folder: Path, prefix: str) -> None:
    """Upload all files of a folder to the bucket of the environment, with a key prefix."""
    client = _client()

    def put(path: Path) -> None:
        key = f"{prefix}/{path.relative_to(folder).as_posix()}"
        client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, [path for path in folder.rglob("*") if path.is_file()]))


def _client(url: str | None = None) -> Any:  # boto3 has no type hints
    return boto3.client(
        "s3", region_name=REGION, endpoint_url=url, config=Config(retries={"max_attempts": 9})
    )
