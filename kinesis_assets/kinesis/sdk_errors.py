"""What the AWS SDK raises, as this package's own errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from kinesis_assets.errors import CallFailed, StreamNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.kinesis.stream_address import StreamAddress


@contextmanager
def sdk_failures(
    meta: Any, address: StreamAddress, operation: str, *, of_stream: bool = False
) -> Iterator[None]:
    """Within, what the SDK raises becomes this package's own.

    Args:
        meta: Of the SDK's client.
        address: The stream.
        operation: What is called.
        of_stream: It names nothing but the stream.
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
        # A refused signature's message may repeat the session token: the SDK's own error is not kept.
        raise CallFailed(address.name, operation, code, message, status) from None
    except BotoCoreError as error:
        said = f"{error}{_unknown_region(meta, error)}"
        raise CallFailed(address.name, operation, type(error).__name__, said) from error


def _unknown_region(meta: Any, error: BotoCoreError) -> str:
    """What is added to an error if no AWS host answers: that the SDK does not know the region."""
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
    return f". The SDK knows no region {meta.region_name}; check its name"
