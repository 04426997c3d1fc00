"""dlt's Kinesis source to Parquet files: extract, normalize, load, the payload kept as it is."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dlt

from benchmarks.harness.worker_protocol import Order, Read, take_orders

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).parent.parent.parent / ".local" / "peers" / "dlt-project"
"""Where `dlt init` put the source, which is no package."""


def read(source: Any, order: Order) -> Read:
    """Read the stream into Parquet files of the order's folder."""
    pipeline = dlt.pipeline(
        pipeline_name=order.stream.replace("-", "_"),
        pipelines_dir=str(Path(order.folder, ".pipelines")),
        destination=dlt.destinations.filesystem(Path(order.folder, "rows").as_uri()),
        dataset_name="raw",
    )
    credentials = dlt.common.configuration.specs.AwsCredentials(
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106  # the replay server looks at none
        region_name="us-east-1",
    )
    os.environ["AWS_ENDPOINT_URL_KINESIS"] = order.url  # the source passes none on
    records = size = 0

    def look(message: dict[str, Any]) -> dict[str, Any]:
        nonlocal records, size
        records += 1
        size += len(message["data"])
        return message

    stream = source(
        stream_name=order.stream, credentials=credentials, initial_at_timestamp=None, parse_json=False
    )
    pipeline.run(stream.add_map(look), loader_file_format="parquet", table_name="orders")
    return Read(records, size)


def main() -> None:
    """Orders for the source as it was fetched."""
    sys.path.insert(0, str(PROJECT))
    from kinesis import kinesis_stream  # noqa: PLC0415  # there only now

    def prepare(order: Order) -> Callable[[], Read]:
        return partial(read, kinesis_stream, order)

    take_orders(prepare)


if __name__ == "__main__":
    main()
