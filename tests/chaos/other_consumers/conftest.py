"""A stream that another consumer has read in part."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.testing import UserRecord, aggregate, aws_environment
from support.bench import Bench

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.testing import LocalKinesis

SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")


@dataclass
class HandOver:
    """A stream with records that are partly aggregates, some of them in a shard that was split since.

    Attributes:
        items: The data of all user records.
        environment: That of a consumer in another process. It switches off CBOR, which the embedded stream
            does not speak, in the AWS SDK for Java.
    """

    bench: Bench
    items: list[str]
    environment: dict[str, str]

    def landed(self, source: str, path: Path) -> list[str]:
        """Import positions into the table, land the rest, and return the data of all rows."""
        bench = self.bench
        options = [
            "--stream",
            bench.stream,
            "--table",
            bench.table.uri,
            "--from",
            source,
            "--path",
            str(path),
        ]
        options += ["--endpoint-url", str(bench.settings.endpoint_url), "--apply"]
        command = [SCRIPT, "leases", "import", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        bench.run()
        bench.run()  # children of a shard that the first run has finished
        return [data.decode() for data in bench.data]


@pytest.fixture
def hand_over(
    local_kinesis: LocalKinesis, kinesis: Any, settings: ClientSettings, stream: str, table: PositionedTable
) -> HandOver:
    bench = Bench(kinesis, settings, stream, table)
    first, _ = bench.create(2)
    items: list[str] = []

    def put(numbers: range) -> None:
        for number in numbers:
            names = [f"{number}-{each}" for each in range(1 + number % 2 * 3)]
            records = [UserRecord(str(number), name.encode()) for name in names]
            data = aggregate(records) if len(records) > 1 else records[0].data
            kinesis.put_record(StreamName=stream, PartitionKey=str(number), Data=data)
            items.extend(names)

    put(range(30))
    bench.split(first)
    put(range(30, 40))
    environment = os.environ | aws_environment(local_kinesis) | {"AWS_CBOR_DISABLE": "1"}
    return HandOver(bench, items, environment)
