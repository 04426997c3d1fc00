"""Create a Kinesis client of the AWS SDK."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config
from botocore.loaders import create_loader

from kinesis_assets.kinesis.role_credentials import credentials_of

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings

ATTEMPTS = 6
"""Attempts of a call by the SDK, with its back-off, unless the caller retries by itself."""

CORRECT_SETTINGS = (
    "Correct region_name, endpoint_url or profile_name, or the AWS configuration of this process"
)
"""The advice for a client that cannot be created."""

_making_client = threading.Lock()


@cache
def _loader(data_path: str | None) -> Any:
    """Return the loader of the SDK's data files, which are otherwise read again for each client."""
    return create_loader(data_path)


def sdk_client(settings: ClientSettings, attempts: int) -> Any:
    """Create a client that makes at most `attempts` attempts of each call.

    Raises:
        RoleNotAssumed: The role of the settings cannot be assumed.
    """
    session = botocore.session.Session(profile=settings.profile_name)
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    if settings.role is not None:
        session.register_component("credential_provider", credentials_of(settings.role))
    config = Config(
        user_agent=session.user_agent(),  # otherwise the SDK computes it twice a call
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=settings.max_pool_connections,
        connect_timeout=settings.timing.connect_timeout,
        read_timeout=settings.timing.read_timeout,
    )
    # Unlike the other SDKs, Python's reads only AWS_DEFAULT_REGION.
    region_name = settings.region_name or os.environ.get("AWS_REGION")
    session.get_credentials()  # outside the lock: it may call the network. The session caches them.
    with _making_client:  # it modifies the loader's data
        return session.create_client(
            "kinesis", region_name=region_name, endpoint_url=settings.endpoint_url, config=config
        )
