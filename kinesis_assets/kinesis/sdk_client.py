"""The AWS SDK's client."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config
from botocore.loaders import create_loader

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings

CONNECTIONS = 64
"""Calls that one client makes at once without opening a connection anew."""

READ_TIMEOUT = 20.0
"""Seconds for which an answer may not come, or not go on."""

ATTEMPTS = 6
"""Tries of a call by the SDK, with its back-off, unless the caller tries again by itself."""

_making_client = threading.Lock()


@cache
def _loader(data_path: str | None) -> Any:
    """Of the SDK's data files, which it would read anew for each client."""
    return create_loader(data_path)


def sdk_client(settings: ClientSettings, attempts: int) -> Any:
    """Create the SDK's client; it makes so many tries of each call."""
    session = botocore.session.Session(profile=settings.profile_name)
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    config = Config(
        user_agent=session.user_agent(),  # else the SDK puts it together anew twice a call
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        connect_timeout=5,
        read_timeout=READ_TIMEOUT,
    )
    # Python's SDK alone looks only at AWS_DEFAULT_REGION.
    region_name = settings.region_name or os.environ.get("AWS_REGION")
    session.get_credentials()  # kept by the session; they may come over the network, so not while others wait
    with _making_client:  # it writes into the loader's data
        return session.create_client(
            "kinesis", region_name=region_name, endpoint_url=settings.endpoint_url, config=config
        )
