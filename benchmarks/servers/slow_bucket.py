"""An emulated bucket whose requests take as long as over a network."""

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
    """Run an emulated bucket until the end of the block, and point the environment of this process to it.

    Args:
        latency: Seconds by which every request is delayed.

    Yields:
        The URI of the bucket.
    """
    processes = multiprocessing.get_context("spawn")
    with moto_endpoint() as (endpoint, _):
        receiver, sender = processes.Pipe()
        # It runs in a process of its own, because delta-rs holds the interpreter lock while it waits for some
        # responses.
        proxy = processes.Process(target=_serve, args=(endpoint, latency, sender), daemon=True)
        proxy.start()
        try:
            with patch.dict(os.environ, receiver.recv()):
                yield create_bucket(endpoint)
        finally:
            proxy.kill()
            proxy.join()


def _serve(endpoint: str, latency: float, sender: Connection) -> None:
    with S3Proxy(endpoint, latency) as proxy:
        sender.send(proxy.environment | {"AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION})
        sender.poll(None)  # until this process is killed
