"""HTTP calls over the connection pool of the AWS SDK's session.

The session opens and pools the connections, with its settings for proxies and TLS. This module sends each
request in one piece, and httptools parses the head of the response. In urllib3 and http.client, the same work
takes most of the CPU time of a call that returns little data, as most calls do (benchmarks, scale).
"""

from __future__ import annotations

import re
import ssl
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from botocore import exceptions as sdk_errors
from urllib3 import exceptions as urllib3_errors
from urllib3.util import parse_url

from kinesis_assets.kinesis.transport.http_response import BodyTooLong, HttpResponse, receive
from kinesis_assets.kinesis.transport.waits import to_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kinesis_assets.kinesis.transport.sdk_internals import ConnectionPool
    from kinesis_assets.kinesis.transport.waits import NonBlocking

_VALUE = re.compile(r"[\t -~\x80-\xff]*")


class ResponseTooLong(sdk_errors.HTTPClientError):  # type: ignore[misc]  # botocore has no types
    """The response exceeds the maximum size. A request for fewer records returns a smaller one."""

    fmt = "{error}"


_SDK_ERRORS = (
    (BodyTooLong, ResponseTooLong),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError), sdk_errors.ConnectionClosedError),
    ((urllib3_errors.SSLError, ssl.SSLError), sdk_errors.SSLError),
    (urllib3_errors.NewConnectionError, sdk_errors.EndpointConnectionError),
    (urllib3_errors.ConnectTimeoutError, sdk_errors.ConnectTimeoutError),
    (TimeoutError, sdk_errors.ReadTimeoutError),
    ((OSError, HTTPException), sdk_errors.ConnectionClosedError),
)
"""The SDK's error for each error: the first entry that matches; otherwise `HTTPClientError`."""


class HttpEndpoint:
    """A URL that requests are posted to. Thread-safe.

    Args:
        connections: Connections to the URL.
        url: The URL, with its path.
        largest_body: Maximum size of a response body, in bytes.
    """

    def __init__(self, connections: ConnectionPool, url: str, largest_body: int) -> None:
        self._url = url
        self._largest_body = largest_body
        self._connections = connections
        self._certificate_error = connections.certificate_error
        pool = self._pool = connections.pool
        parts = parse_url(url)
        if pool.proxy and not connections.uses_tunnel:
            target, proxy_headers = parts._replace(fragment=None).url, pool.proxy_headers
        else:
            target, proxy_headers = parts.request_uri, {}
        request_line = f"POST {target} HTTP/1.1\r\nAccept-Encoding: identity\r\n".encode("ascii")
        self._start = request_line + _lines(proxy_headers.items())

    def post(
        self, headers: Iterable[tuple[str, str]], body: bytes, before_body: Callable[[int], NonBlocking[None]]
    ) -> NonBlocking[HttpResponse]:
        """Send one request, without retries, and return the response.

        Args:
            headers: Headers of the request, including Host and excluding Content-Length and Accept-Encoding.
            body: Body of the request.
            before_body: Called before the body of the response is received, with its length or, if that is
                unknown, the maximum.

        Raises:
            BotoCoreError: No response was received.
        """
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        request = b"".join([self._start, _lines(headers), length, body])
        connection = self._connections.get()
        reusable = False
        try:
            if connection.is_closed:
                yield from to_thread(lambda: self._open(connection))
            seconds = self._pool.timeout.read_timeout
            connection.sock.sendall(request)  # fits in the send buffer
            connection.sock.settimeout(0)
            response = yield from receive(connection.sock, seconds, self._largest_body, before_body)
            connection.sock.settimeout(seconds)  # as the SDK expects
            reusable = response.keep_alive
        except (OSError, HTTPException, urllib3_errors.HTTPError, self._certificate_error) as error:
            # The traceback would keep its frames alive, and with them a part of a body.
            raise self._sdk_error(error.with_traceback(None), connection) from error
        finally:
            if not reusable:
                connection.close()
            self._connections.put(connection)
        return response

    def _open(self, connection: Any) -> None:
        connection.timeout = self._pool.timeout.connect_timeout  # the SDK leaves the read timeout there
        if self._connections.uses_tunnel:
            self._connections.prepare_proxy(connection)
        else:
            connection.connect()
        connection.sock.settimeout(self._pool.timeout.read_timeout)

    def _sdk_error(self, error: Exception, connection: Any) -> sdk_errors.BotoCoreError:
        if connection.proxy and not connection.has_connected_to_proxy:
            return sdk_errors.ProxyConnectionError(proxy_url=self._connections.masked_proxy_url, error=error)
        if isinstance(error, self._certificate_error):
            return sdk_errors.SSLError(endpoint_url=self._url, error=error)
        for types, sdk_error in _SDK_ERRORS:
            if isinstance(error, types):
                return sdk_error(endpoint_url=self._url, error=error)
        return sdk_errors.HTTPClientError(error=error)


def _lines(headers: Iterable[tuple[str, str]]) -> bytes:
    lines = []
    for name, value in headers:
        if not _VALUE.fullmatch(value):
            report = f"the value of header {name} has an invalid character"
            raise sdk_errors.ParamValidationError(report=report)
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")
