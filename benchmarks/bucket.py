"""A bucket on this machine: moto's S3 endpoint, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REGION = "us-east-1"
BUCKET = "lake"


@contextmanager
def bucket() -> Iterator[str]:
    """Have one while the block runs, to which the SDK's environment leads; gives its URI."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": REGION,
    }
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with patch.dict(os.environ, environment):
            _client().create_bucket(Bucket=BUCKET)
            yield f"s3://{BUCKET}"
    finally:
        server.terminate()
        server.wait(30)


def upload(folder: Path, name: str) -> None:
    """Put all files of a folder into it, under a name."""
    client = _client()
    for path in folder.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), BUCKET, f"{name}/{path.relative_to(folder).as_posix()}")


def _client() -> Any:  # boto3 has no types of its own
    return boto3.client("s3", region_name=REGION, config=Config(retries={"max_attempts": 9}))
