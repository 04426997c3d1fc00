"""A bucket whose requests take as long as those over a network."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from benchmarks.servers.bucket import REGION, create_bucket, moto_endpoint
from benchmarks.servers.s3_proxy import S3Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection


@contextmanager
def slow_bucket(latency: float) -> Iterator[str]:
    """Have one while the block runs, to which the environment of this process leads; gives its URI.

    Args:
        latency: Seconds by which each request is delayed, whoever makes it.
    """
    processes = multiprocessing.get_context("spawn")
    with moto_endpoint() as (endpoint, _):
        here, there = processes.Pipe()
        # In a process of its own: delta-rs holds the interpreter lock while it waits for some responses.
        proxy = processes.Process(target=_serve, args=(endpoint, latency, there), daemon=True)
        proxy.start()
        try:
            with patch.dict(os.environ, here.recv()):
                yield create_bucket(endpoint)
        finally:
            proxy.kill()
            proxy.join()


def _serve(endpoint: str, latency: float, there: Connection) -> None:
    with S3Proxy(endpoint, latency) as proxy:
        there.send(proxy.environment | {"AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION})
        there.poll(None)  # until it is killed
