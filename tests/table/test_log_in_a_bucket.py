"""What a look at the log asks of a bucket does not grow with the log."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import unquote

import boto3
import pytest
from attempts import Attempt, freeze_all, shards, standing
from botocore.config import Config

from kinesis_assets.table.delta import PositionedTable, Upkeep

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def requests(tmp_path, monkeypatch):
    """The requests to an S3 endpoint in a process of its own, to which the SDK's environment leads."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    log = tmp_path / "requests"
    with log.open("wb") as told:
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    try:
        s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(retries={"max_attempts": 9}))
        s3.create_bucket(Bucket="lake")
        yield log
    finally:
        server.terminate()
        server.wait(30)


def test_opening_a_table_lists_only_what_follows_the_newest_checkpoint(requests):
    table = PositionedTable("s3://lake/raw")
    freeze_all(table, shards("a"))
    for _ in range(3):
        Attempt(table, standing(table), {"a": 1}).commit()
    Upkeep(table).checkpoint()
    summed_up = table.snapshot().delta.version()
    Attempt(table, standing(table), {"a": 1}).commit()
    before = len(requests.read_text().splitlines())
    table.snapshot()
    listings = [line for line in asked_since(requests, before) if "list-type=2" in line]
    assert listings
    for line in listings:
        (after,) = re.findall(r"start-after=raw/_delta_log/(\d+)", line)
        assert int(after) >= summed_up - 1


def asked_since(requests: Path, before: int) -> list[str]:
    return [unquote(line) for line in requests.read_text().splitlines()[before:]]
