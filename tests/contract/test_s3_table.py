"""The same way of a record with the table on S3 (moto's endpoint, which has the conditional put)."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline import Pipeline


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on an S3 endpoint in a process of its own, to which the SDK's environment leads."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    try:
        s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(retries={"max_attempts": 9}))
        s3.create_bucket(Bucket="lake")
        yield "s3://lake"
    finally:
        server.terminate()
        server.wait(30)


def test_a_table_on_s3_holds_each_record_exactly_once(pipeline: Pipeline, bucket: str) -> None:
    # In processes of their own: Spark's workers have the environment in which the session began.
    pipeline.table = f"{bucket}/raw/orders"
    pipeline.create(2)
    pipeline.put(300)
    run = [str(Path(sys.executable).with_name("kinesis-assets")), *pipeline.command()]
    subprocess.run(run, check=True, capture_output=True, timeout=120)
    first, second = pipeline.listed()
    pipeline.merge(first, second)
    pipeline.put(300)
    subprocess.run(run, check=True, capture_output=True, timeout=120)
    pipeline.assert_exactly_once()
