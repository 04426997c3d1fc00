"""Adds the token of a Spark Connect server to each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = "x-aws-proxy-auth"
"""The header that the proxies in front of Spark on AWS read.
Source: https://docs.aws.amazon.com/glue/latest/dg/interactive-sessions-spark-connect-connecting.html"""


class _Details(grpc.ClientCallDetails):  # type: ignore[misc]
    """The details of a call, with one more header."""

    def __init__(self, details: Any, header: tuple[str, str]) -> None:
        self.method = details.method
        self.timeout = details.timeout
        self.metadata = [*(details.metadata or ()), header]
        self.credentials = details.credentials
        self.wait_for_ready = details.wait_for_ready
        self.compression = details.compression


class AddToken(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
    grpc.StreamUnaryClientInterceptor,  # type: ignore[misc]
):
    """An interceptor that asks for the token at each call, because it may have been replaced."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Add the token to a call."""
        return continuation(self._with_token(client_call_details), request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Add the token to a call whose response is a stream."""
        return continuation(self._with_token(client_call_details), request)

    def intercept_stream_unary(
        self, continuation: Any, client_call_details: Any, request_iterator: Any
    ) -> Any:
        """Add the token to a call whose request is a stream."""
        return continuation(self._with_token(client_call_details), request_iterator)

    def _with_token(self, details: Any) -> _Details:
        return _Details(details, (HEADER, self._token()))
