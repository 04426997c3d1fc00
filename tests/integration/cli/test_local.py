"""`kinesis-assets local`, an emulator for any client of the AWS SDK."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from benchmarks.harness.waiting import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def emulator() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command on a free port, and the URL that it printed into a pipe."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [Path(sys.prefix, "bin", "kinesis-assets"), "local", "--port", "0"],
        env=buffered,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            if process.poll() is None:
                process.kill()


def client(url: str) -> Any:
    return boto3.client("kinesis", endpoint_url=url, region_name="us-east-1")


def test_boto3_reads_what_it_has_put(emulator):
    _, url = emulator
    with closing(client(url)) as kinesis:
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        put = kinesis.put_record(StreamName="orders", PartitionKey="k", Data=b"abc")
        iterator = kinesis.get_shard_iterator(
            StreamName="orders", ShardId=put["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        assert [record["Data"] for record in kinesis.get_records(ShardIterator=iterator)["Records"]] == [
            b"abc"
        ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_it_without_a_traceback(emulator, number):
    process, url = emulator
    with closing(client(url)) as kinesis:  # keeps a connection open
        assert kinesis.list_streams()["StreamNames"] == []
        process.send_signal(number)
        _, err = process.communicate(timeout=SECONDS)
    assert "Traceback" not in err
    assert process.returncode in {0, 130, -number}
    with pytest.raises(ConnectionRefusedError), socket.create_connection(_address(url), timeout=SECONDS):
        pass


def _address(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)
