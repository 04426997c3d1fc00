"""The same way of a record with the table on S3 (moto's endpoint, which has the conditional put)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.servers.bucket import bucket as s3_bucket
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.pipeline import Pipeline


@pytest.fixture
def bucket() -> Iterator[str]:
    """A bucket on an S3 endpoint in a process of its own, to which the SDK's environment leads."""
    with s3_bucket() as uri:
        yield uri


def test_a_table_on_s3_holds_each_record_exactly_once(pipeline: Pipeline, bucket: str) -> None:
    # In processes of their own: Spark's workers have the environment in which the session began.
    pipeline.table = PositionedTable(f"{bucket}/raw/orders")
    pipeline.create(2)
    pipeline.put_many(300)
    run = [str(Path(sys.executable).with_name("kinesis-assets")), *pipeline.command()]
    subprocess.run(run, check=True, capture_output=True, timeout=120)
    first, second = pipeline.listed()
    pipeline.merge(first, second)
    pipeline.put_many(300)
    subprocess.run(run, check=True, capture_output=True, timeout=120)
    pipeline.assert_exactly_once()
