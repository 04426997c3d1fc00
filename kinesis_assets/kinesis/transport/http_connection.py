"""HTTP calls over the connections of the AWS SDK's session, without the rest of its HTTP.

The session opens the connections, through proxies and TLS as it is set, and keeps them. A request goes out in
one piece, and httptools parses the answer's head. Done by urllib3 and http.client, the same is most of the
CPU of a call that brings little, and such are most calls (benchmarks, scale).
"""

from __future__ import annotations

import re
import ssl
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from botocore import exceptions as named
from urllib3 import exceptions as urllib3_errors
from urllib3.util import parse_url

from kinesis_assets.kinesis.transport.awaitables import by_a_thread
from kinesis_assets.kinesis.transport.http_response import BodyTooLong, HttpAnswer, receive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kinesis_assets.kinesis.transport.awaitables import Waits
    from kinesis_assets.kinesis.transport.sdk_internals import ConnectionPool

_VALUE = re.compile(r"[\t -~\x80-\xff]*")


class ResponseTooLong(named.HTTPClientError):  # type: ignore[misc]  # botocore has no types
    """The response is longer than the memory that is kept for one; with fewer records it is shorter."""

    fmt = "{error}"


_NAMES = (
    (BodyTooLong, ResponseTooLong),
    ((ssl.SSLEOFError, ssl.SSLZeroReturnError), named.ConnectionClosedError),
    ((urllib3_errors.SSLError, ssl.SSLError), named.SSLError),
    (urllib3_errors.NewConnectionError, named.EndpointConnectionError),
    (urllib3_errors.ConnectTimeoutError, named.ConnectTimeoutError),
    (TimeoutError, named.ReadTimeoutError),
    ((OSError, HTTPException), named.ConnectionClosedError),
)
"""What is raised for what happened, the first that fits; else `HTTPClientError`."""


class HttpEndpoint:
    """A URL that is posted to. Safe to share between threads.

    Args:
        connections: To there.
        url: With its path.
        largest_body: Bytes of an answer's body at most.
    """

    def __init__(self, connections: ConnectionPool, url: str, largest_body: int) -> None:
        self._url = url
        self._largest_body = largest_body
        self._connections = connections
        self._certificate_error = connections.certificate_error
        pool = self._pool = connections.pool
        parts = parse_url(url)
        if pool.proxy and not connections.tunnels:
            target, to_proxy = parts._replace(fragment=None).url, pool.proxy_headers
        else:
            target, to_proxy = parts.request_uri, {}
        first = f"POST {target} HTTP/1.1\r\nAccept-Encoding: identity\r\n".encode("ascii")
        self._begin = first + _lines(to_proxy.items())

    def post(
        self, headers: Iterable[tuple[str, str]], body: bytes, before_body: Callable[[int], Waits[None]]
    ) -> Waits[HttpAnswer]:
        """One request, and what is answered; nothing is tried again.

        Args:
            headers: With the host, without what HTTP itself needs.
            body: Of the request.
            before_body: Done before the answer's body is received, with the bytes that it has at most.

        Raises:
            BotoCoreError: No answer came.
        """
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        request = b"".join([self._begin, _lines(headers), length, body])
        connection = self._connections.take()
        keeps = False
        try:
            if connection.is_closed:
                yield from by_a_thread(lambda: self._open(connection))
            seconds = self._pool.timeout.read_timeout
            connection.sock.sendall(request)  # shorter than what a connection takes at once
            connection.sock.settimeout(0)
            answer = yield from receive(connection.sock, seconds, self._largest_body, before_body)
            connection.sock.settimeout(seconds)  # as the SDK expects it
            keeps = answer.keeps
        except (OSError, HTTPException, urllib3_errors.HTTPError, self._certificate_error) as error:
            # An error keeps what is in its frames: there, a part of a body.
            raise self._named(error.with_traceback(None), connection) from error
        finally:
            if not keeps:
                connection.close()
            self._connections.put_back(connection)
        return answer

    def _open(self, connection: Any) -> None:
        connection.timeout = self._pool.timeout.connect_timeout  # the SDK leaves the other one there
        if self._connections.tunnels:
            self._connections.prepare_proxy(connection)
        else:
            connection.connect()
        connection.sock.settimeout(self._pool.timeout.read_timeout)

    def _named(self, error: Exception, connection: Any) -> named.BotoCoreError:
        if connection.proxy and not connection.has_connected_to_proxy:
            return named.ProxyConnectionError(proxy_url=self._connections.shown_proxy_url, error=error)
        if isinstance(error, self._certificate_error):
            return named.SSLError(endpoint_url=self._url, error=error)
        for kinds, name in _NAMES:
            if isinstance(error, kinds):
                return name(endpoint_url=self._url, error=error)
        return named.HTTPClientError(error=error)


def _lines(headers: Iterable[tuple[str, str]]) -> bytes:
    lines = []
    for name, value in headers:
        if not _VALUE.fullmatch(value):
            raise named.ParamValidationError(report=f"{name} has a character that no header may have")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")
