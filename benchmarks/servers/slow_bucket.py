"""An emulated bucket whose requests take as long as over a network."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
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
    with (
        moto_endpoint() as (endpoint, _),
        proxy_process(endpoint, latency=latency) as environment,
        patch.dict(os.environ, environment),
    ):
        yield create_bucket(endpoint)


@contextmanager
def proxy_process(endpoint: str, **fields: Any) -> Iterator[dict[str, str]]:
    """Run a proxy in a process of its own until the end of the block.

    delta-rs holds the interpreter lock while it waits for some responses, so a process cannot be its own
    proxy.

    Args:
        endpoint: The URL of an S3 endpoint.
        fields: Fields of `S3Proxy`.

    Yields:
        The environment variables that point a process to the proxy.
    """
    processes = multiprocessing.get_context("spawn")
    receiver, sender = processes.Pipe()
    proxy = processes.Process(target=_serve, args=(endpoint, fields, sender), daemon=True)
    proxy.start()
    try:
        yield receiver.recv()
    finally:
        proxy.kill()
        proxy.join()


def _serve(endpoint: str, fields: dict[str, Any], sender: Connection) -> None:
    with S3Proxy(endpoint, **fields) as proxy:
        sender.send(proxy.environment | {"AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION})
        sender.poll(None)  # until this process is killed
