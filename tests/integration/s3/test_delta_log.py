"""The requests to read a table's log do not grow with the log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from benchmarks.servers.bucket import bucket
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import Attempt, current_positions, freeze_all, shards

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def requests(tmp_path):
    """The log of requests to an S3 endpoint, to which the SDK's environment variables point."""
    log = tmp_path / "requests"
    with bucket(log):
        yield log


def test_a_snapshot_lists_only_commits_after_the_newest_checkpoint(requests):
    table = PositionedTable("s3://lake/raw")
    freeze_all(table, shards("a"))
    for _ in range(3):
        Attempt(table, current_positions(table), {"a": 1}).commit()
    DeltaOperations(table).checkpoint()
    checkpoint = table.snapshot().delta.version()
    Attempt(table, current_positions(table), {"a": 1}).commit()
    before = len(requests.read_text().splitlines())
    table.snapshot()
    listings = [line for line in requests_since(requests, before) if "list-type=2" in line]
    assert listings
    for line in listings:
        (after,) = re.findall(r"start-after=raw/_delta_log/(\d+)", line)
        assert int(after) >= checkpoint - 1


def requests_since(requests: Path, before: int) -> list[str]:
    return [unquote(line) for line in requests.read_text().splitlines()[before:]]
