"""dlt's Kinesis source to Parquet files: extract, normalize and load, with unchanged payloads."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dlt

from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, serve_requests

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).parent.parent.parent / ".local" / "peers" / "dlt-project"
"""The folder into which `dlt init` copies the source, which is not published as a package."""


def read(source: Any, request: ReadRequest) -> ReadResult:
    """Read the stream of a request into Parquet files in its folder."""
    pipeline = dlt.pipeline(
        pipeline_name=request.stream.replace("-", "_"),
        pipelines_dir=str(Path(request.folder, ".pipelines")),
        destination=dlt.destinations.filesystem(Path(request.folder, "rows").as_uri()),
        dataset_name="raw",
    )
    credentials = dlt.common.configuration.specs.AwsCredentials(
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106  # the replay server does not verify it
        region_name="us-east-1",
    )
    os.environ["AWS_ENDPOINT_URL_KINESIS"] = request.url  # the source has no argument for it
    records = size = 0

    def count(message: dict[str, Any]) -> dict[str, Any]:
        nonlocal records, size
        records += 1
        size += len(message["data"])
        return message

    stream = source(
        stream_name=request.stream, credentials=credentials, initial_at_timestamp=None, parse_json=False
    )
    pipeline.run(stream.add_map(count), loader_file_format="parquet", table_name="orders")
    return ReadResult(records, size)


def main() -> None:
    """Serve requests with the source."""
    sys.path.insert(0, str(PROJECT))
    from kinesis import kinesis_stream  # noqa: PLC0415  # found only with this path

    def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
        return partial(read, kinesis_stream, request)

    serve_requests(prepare)


if __name__ == "__main__":
    main()
