"""Translate the errors of the AWS SDK to those of this package."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from kinesis_assets.errors import CallFailed, RoleNotAssumed, StreamNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.stream_address import StreamAddress


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
        raise CallFailed(address.name, operation, code, message, status) from None
    except RoleNotAssumed as error:
        raise CallFailed(
            address.name, operation, type(error).__name__, error.reason, advice=error.advice
        ) from None
    except BotoCoreError as error:
        message = f"{error}{_unknown_region(meta, error)}"
        raise CallFailed(address.name, operation, type(error).__name__, message) from error


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
