"""The AWS SDK: its clients, and the translation of its errors of Kinesis to those of this package."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, ProxyConnectionError
from botocore.loaders import create_loader

from kinesis_assets.errors import CallFailed, RoleNotAssumed, StreamNotFound
from kinesis_assets.kinesis.role_credentials import credentials_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.kinesis.stream import StreamAddress


_PROXY_REFUSED = (
    "The proxy of HTTPS_PROXY or HTTP_PROXY refused its user and password: correct them in its URL, with "
    "special characters percent-encoded, or name the host of the endpoint in NO_PROXY"
)

_KEY = "The key that encrypts the stream"

_ADVICE = {
    "KMSAccessDeniedException": "The reader needs kms:Decrypt for the key that encrypts the stream: in its "
    "own policy or in that of the key, and in both if the key is in another account",
    "KMSDisabledException": f"{_KEY} is disabled: enable it before unread records expire",
    "KMSInvalidStateException": f"{_KEY} must have the state Enabled, which `aws kms describe-key` shows: "
    "cancel its deletion, or import its key material, before unread records expire",
    "KMSNotFoundException": f"{_KEY} was deleted, or is not in the stream's region: set another key for the "
    "stream. Records that were encrypted with a deleted key can no longer be read",
    "KMSOptInRequired": "Subscribe the account of the key that encrypts the stream to AWS KMS",
    "KMSThrottlingException": "Request a higher quota of AWS KMS for the account of the key of the stream",
    "407": _PROXY_REFUSED,
}
"""What to do, by error code.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html (Errors)
"""


@contextmanager
def sdk_failures(
    meta: Any, address: StreamAddress, operation: str, *, of_stream: bool = False
) -> Iterator[None]:
    """Translate the SDK's errors that are raised in the context to `CallFailed`.

    Args:
        of_stream: Whether the stream is the only resource that the call names, so that `StreamNotFound` is
            raised if the service does not find it.
    """
    try:
        yield
    except ClientError as error:
        detail = error.response["Error"]
        code, message = detail.get("Code", "Unknown"), detail.get("Message", "")
        if code == "ResourceNotFoundException" and of_stream:
            raise StreamNotFound(
                address.name, f"not found ({message}); check its name, region and endpoint"
            ) from None
        if code == "AccessDeniedException" and address.arn is not None:
            message += (
                f". A stream of another account needs kinesis:{operation} in its resource policy and in "
                "the caller's own policy"
            )
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        # The SDK's error is not chained: for a rejected signature it may repeat the session token.
        raise CallFailed(
            address.name, operation, code, message, status, advice=_ADVICE.get(code, "")
        ) from None
    except RoleNotAssumed as error:
        raise CallFailed(
            address.name, operation, type(error).__name__, error.reason, advice=error.advice
        ) from None
    except BotoCoreError as error:
        message, status, advice = f"{error}{_unknown_region(meta, error)}", None, ""
        # urllib3 has the status of a refused tunnel only in the text of its error.
        if isinstance(error, ProxyConnectionError) and "failed: 407" in str(error.kwargs.get("error")):
            status, advice = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, _PROXY_REFUSED
            message += " (407 Proxy Authentication Required)"
        raise CallFailed(
            address.name, operation, type(error).__name__, message, status, advice=advice
        ) from error


def _unknown_region(meta: Any, error: BotoCoreError) -> str:
    """Return a hint for a failed connection to AWS if the SDK does not know the region; else nothing."""
    if not isinstance(error, EndpointConnectionError) or ".amazonaws." not in meta.endpoint_url:
        return ""
    session = botocore.session.get_session()
    known = {
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("kinesis", partition)
    }
    if meta.region_name in known:
        return ""
    return f". The SDK does not know the region {meta.region_name}; check its name"


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


def sdk_session(settings: ClientSettings) -> Any:
    """Create a session with the profile, the region and the role of settings. Raises `RoleNotAssumed`."""
    session = botocore.session.Session(profile=settings.profile_name)
    # Unlike the other SDKs, Python's reads only AWS_DEFAULT_REGION.
    if (region := settings.region_name or os.environ.get("AWS_REGION")) is not None:
        session.set_config_variable("region", region)
    if settings.role is not None:
        session.register_component("credential_provider", credentials_of(settings.role))
    return session


def sdk_client(settings: ClientSettings, attempts: int, service: str = "kinesis") -> Any:
    """Create a client of a service that makes at most `attempts` attempts of each call."""
    session = sdk_session(settings)
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    config = Config(
        user_agent=session.user_agent(),  # otherwise the SDK computes it twice a call
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=settings.max_pool_connections,
        connect_timeout=settings.timing.connect_timeout,
        read_timeout=settings.timing.read_timeout,
    )
    session.get_credentials()  # outside the lock: it may call the network. The session caches them.
    with _making_client:  # it modifies the loader's data
        return session.create_client(service, endpoint_url=settings.endpoint_url, config=config)
