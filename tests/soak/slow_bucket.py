"""A bucket whose requests take as long as those over a network."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS.parent), str(TESTS / "faults")]

from s3_proxy import S3Proxy  # noqa: E402  # isort: skip

from benchmarks.bucket import create_bucket, moto_endpoint  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def slow_bucket(latency: float) -> Iterator[str]:
    """Have one while the block runs, to which the environment of this process leads; gives its URI.

    Args:
        latency: Seconds by which each request is delayed.
    """
    with moto_endpoint() as (endpoint, _), S3Proxy(endpoint, latency) as proxy:
        os.environ |= proxy.environment | {"AWS_ALLOW_HTTP": "true"}
        yield create_bucket(endpoint)
