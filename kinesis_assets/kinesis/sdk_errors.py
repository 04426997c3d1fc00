"""Translate the errors of the AWS SDK to those of this package."""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, ProxyConnectionError

from kinesis_assets.errors import CallFailed, RoleNotAssumed, StreamNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.stream_address import StreamAddress

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
    """Translate the SDK's errors that are raised in the context.

    Args:
        meta: The `meta` attribute of the SDK's client.
        address: The stream.
        operation: The name of the operation.
        of_stream: Whether the stream is the only resource that the call names.

    Raises:
        StreamNotFound: The service does not find the stream.
        CallFailed: The call failed.
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
