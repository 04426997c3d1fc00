"""A stand-in for EMR Serverless: its API for sessions, and the proxy before them that demands a token."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import grpc

from support.http_service import HttpService, Reply, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = "x-aws-proxy-auth"
_LARGEST = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


@dataclass
class TokenProxy:
    """The stand-in, which runs while it is entered as a context.

    Attributes:
        server_url: The Spark Connect server that it forwards calls to.
        seconds: How long a token is valid.
        requests: The requests to the API: method and path.
        tokens: The tokens that it has issued, with the time until which each is valid.
        used: The tokens of the calls that it has forwarded, in order.
        refused: The methods of the calls that it has refused.
        url: The URL of the API.
    """

    server_url: str
    seconds: float
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: dict[str, float] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Self:
        self._upstream = grpc.insecure_channel(urlsplit(self.server_url).netloc, options=_LARGEST)
        self._proxy = grpc.server(ThreadPoolExecutor(32), handlers=[_Handler(self)], options=_LARGEST)
        self._port = self._proxy.add_insecure_port("127.0.0.1:0")
        self._proxy.start()
        self._api = HttpService.of(self._respond)
        self.url = self._api.url
        return self

    def __exit__(self, *_: object) -> None:
        self._api.stop()
        self._proxy.stop(None).wait()
        self._upstream.close()

    def _respond(self, request: Request) -> Reply:
        self.requests.append((request.method, request.path))
        return Reply(200, json.dumps(self._content(request.path)).encode())

    def _content(self, path: str) -> dict[str, Any]:
        ids = {"applicationId": "00f1", "sessionId": "s1", "arn": "arn:aws:emr-serverless:::session"}
        if path.endswith("/endpoint"):
            token, expires = f"token {len(self.tokens)}", time.time() + self.seconds
            self.tokens[token] = expires
            endpoint = f"sc://127.0.0.1:{self._port}"
            return {**ids, "endpoint": endpoint, "authToken": token, "authTokenExpiresAt": expires}
        return {**ids, "session": {**ids, "state": "STARTED"}}

    def forward(
        self, method: str, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        """Forward a call with a valid token to the server."""
        token = dict(context.invocation_metadata()).get(HEADER, "")
        if time.time() >= self.tokens.get(token, 0.0):
            self.refused.append(method)
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token has expired")
        self.used.append(token)
        call = self._upstream.stream_stream(method)(requests)
        try:
            yield from call
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata() or ())
            context.abort(error.code(), error.details() or "")


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, proxy: TokenProxy) -> None:
        self._proxy = proxy

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method
        return grpc.stream_stream_rpc_method_handler(
            lambda requests, context: self._proxy.forward(method, requests, context)
        )
