"""AWS services beside Kinesis on this machine: moto's endpoint, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
    """Have one while the block runs.

    Args:
        log: Takes a line for each request.

    Returns:
        Its URL, and its process.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (log or Path(os.devnull)).open("wb") as told:
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told)
    try:
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def bucket(log: Path | None = None) -> Iterator[str]:
    """Have one while the block runs, to which the SDK's environment leads; gives its URI.

    Args:
        log: As of `moto_endpoint`.
    """
    with moto_endpoint(log) as (url, _):
        environment = {"AWS_ENDPOINT_URL_S3": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION}
        with patch.dict(os.environ, environment):
            yield create_bucket(url)


def create_bucket(url: str) -> str:
    """Create it at an endpoint, as soon as that is up; gives its URI."""
    _client(url).create_bucket(Bucket=BUCKET)
    return f"s3://{BUCKET}"


def upload(folder: Path, name: str) -> None:
    """Put all files of a folder into the environment's bucket, under a name."""
    client = _client()

    def put(path: Path) -> None:
        key = f"{name}/{path.relative_to(folder).as_posix()}"
        client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, [path for path in folder.rglob("*") if path.is_file()]))


def _client(url: str | None = None) -> Any:  # boto3 has no types of its own
    return boto3.client(
        "s3", region_name=REGION, endpoint_url=url, config=Config(retries={"max_attempts": 9})
    )
