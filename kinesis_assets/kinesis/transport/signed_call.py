"""Calls that bypass most of the AWS SDK, for the operations that every shard needs.

The SDK still provides credentials, signatures, pooled connections and errors. Bypassed are its parser, which
builds dicts one field at a time and takes more CPU time than everything else (benchmarks, landing); its HTTP
layer (`http`); and its endpoint rules, validation and hooks, whose result is the same for every call.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from botocore.exceptions import ClientError

from kinesis_assets.kinesis.records.wire import IncompleteBody
from kinesis_assets.kinesis.settings import LARGEST_BODY
from kinesis_assets.kinesis.transport.http import HttpEndpoint
from kinesis_assets.kinesis.transport.sdk_internals import ConnectionPool, Signing, parser_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.kinesis.transport.concurrency import Reservation

ResultT_co = TypeVar("ResultT_co", covariant=True)


class WireStruct(Protocol[ResultT_co]):
    """A struct that the JSON of a response is decoded to: `WirePage` or `WireIterator` of `records.wire`."""

    def to_result(self) -> ResultT_co:
        """Convert the struct to the result of the call. Raises `ValueError` if the response is invalid."""


MEMORY_PER_BODY_BYTE = 2.5
"""Maximum memory of a page, in bytes for each byte of its body, if its records have 100 bytes or more. At
first it consists of the body and the records decoded from it, as text; then of the records as text and as
bytes; then of the records as bytes and as Arrow columns."""

_encoder = msgspec.json.Encoder()


class SignedRequests:
    """The requests of an operation, signed with parts of a botocore client for Kinesis.

    Args:
        endpoint_url: Where to send requests; by default to the client's endpoint.

    Raises:
        SdkInternalMissing: A private name of the SDK is missing.
        ValueError: The URL of the endpoint or of a proxy is invalid.

    Attributes:
        url: The URL of the endpoint, with a path.
        headers: The headers of each request, before it is signed.
    """

    def __init__(self, client: Any, operation: str, endpoint_url: str | None = None) -> None:
        self.operation = operation
        self.signing = Signing(client)
        model = client.meta.service_model
        self._shape = model.operation_model(operation).output_shape
        endpoint = endpoint_url or client.meta.endpoint_url
        self.url = endpoint if urlsplit(endpoint).path else f"{endpoint}/"
        self.connections = ConnectionPool(client, self.url)
        self.headers = {
            "Host": _host(self.url),  # without it, the signer derives it for each call
            "Content-Type": f"application/x-amz-json-{model.metadata['jsonVersion']}",
            "User-Agent": client.meta.config.user_agent,
            "X-Amz-Target": f"{model.metadata['targetPrefix']}.{operation}",
        }

    async def signed(self, arguments: Mapping[str, Any]) -> Any:
        """Return a signed request with some arguments.

        Shortly before the credentials expire, one call refreshes them over the network, in another thread.
        The other calls sign with the current ones.
        """
        request = self.signing.request("POST", self.url, self.headers, _encoder.encode(arguments))
        sign = self.signing.signer.sign
        if self.signing.needs_credentials():
            await asyncio.to_thread(sign, self.operation, request)
        else:
            sign(self.operation, request)
        return request

    def error_of(self, status: int, headers: Mapping[str, str], body: bytes) -> ClientError:
        """Return the error of a response that is one."""
        raw = {"status_code": status, "headers": headers, "body": body}
        parsed: dict[str, Any] = {}
        # A response that is not from the service, such as a proxy's, can contain anything.
        with suppress(parser_error(), ValueError, AttributeError, TypeError, KeyError, RecursionError):
            parsed = self.signing.parse_error(raw, self._shape)
        return ClientError(
            {"Error": {"Code": str(status), "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}}
            | parsed,
            self.operation,
        )


class SignedCall(Generic[ResultT_co]):
    """An operation, called with parts of a botocore client and without retries.

    Args:
        wire: The struct that the JSON of a response is decoded to; its `to_result` is the result of a call.
        endpoint_url: See `SignedRequests`.
        largest_body: The maximum size of a response body, in bytes.

    Raises what `SignedRequests` raises.
    """

    def __init__(
        self,
        client: Any,
        operation: str,
        wire: type[WireStruct[ResultT_co]],
        endpoint_url: str | None = None,
        largest_body: int = LARGEST_BODY,
    ) -> None:
        self.operation = operation
        self._decoder = msgspec.json.Decoder(wire)
        self.requests = SignedRequests(client, operation, endpoint_url)
        self._endpoint = HttpEndpoint(self.requests.connections, self.requests.url, largest_body)

    async def __call__(
        self,
        arguments: Mapping[str, Any],
        reservation: Reservation,
        seconds_left: Callable[[], float] | None = None,
    ) -> tuple[ResultT_co | IncompleteBody, str | None]:
        """Make one call, decode the response, and return the result and the `Date` header.

        The memory of the response is reserved before its body is received, except for the first 256 KiB,
        which arrive with the head. The head states the length of the body, and what has not arrived with it
        stays with the sender until then: the memory of a task is bounded by actual sizes, not by an estimate.

        Args:
            seconds_left: See `HttpEndpoint.post`.

        Raises:
            ClientError: The service returned an error.
            BotoCoreError: No complete response was received.
        """
        request = await self.requests.signed(arguments)
        response = await self._endpoint.post(
            request.headers.items(),
            request.body,
            lambda length: reservation.acquire(int(MEMORY_PER_BODY_BYTE * length)),
            seconds_left,
        )
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            error = self.requests.error_of(response.status, response.headers, bytes(response.body))
            del response  # the error keeps its frames alive
            raise error
        date = response.headers.get("date")
        try:
            wire = self._decoder.decode(response.body)
            del response  # frees its memory before the conversion
            return wire.to_result(), date
        except (ValueError, RecursionError) as error:  # includes msgspec's errors; JSON may be nested deeply
            return IncompleteBody(str(error)), date


def _host(url: str) -> str:
    """Return the Host header as the SDK signs it: in lower case, without user and without a default port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return host if parts.port in {None, default} else f"{host}:{parts.port}"
