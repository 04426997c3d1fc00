"""The service over HTTP: an ASGI application that implements AWS JSON 1.1 and ignores signatures."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from kinesis_assets.emulator import requests
from kinesis_assets.emulator.errors import ServiceError, UnknownOperationException
from kinesis_assets.emulator.operations import OPERATIONS

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ACCESS_KEY = re.compile(rb"Credential=([0-9]{12})/")

CONTENT_TYPE = b"application/x-amz-json-1.1"
TARGET_PREFIX = "Kinesis_20131202."


class KinesisApp:
    """An ASGI application that serves one account. Its `Date` header follows the account's clock."""

    def __init__(self, account: Account) -> None:
        self.account = account

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        body = await read_body(receive)
        try:
            with self.account.lock:
                status, content = 200, self._execute(dict(scope["headers"]), body)
        except ServiceError as error:
            status = 400
            content = msgspec.json.encode({"__type": type(error).__name__, "message": str(error)})
        headers = self.headers(len(content))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def headers(self, length: int) -> list[tuple[bytes, bytes]]:
        """Return the headers of a response that is sent now with a body of `length` bytes."""
        with self.account.lock:
            now = self.account.clock.now()
        return [
            (b"x-amzn-requestid", str(uuid4()).encode()),
            (b"content-type", CONTENT_TYPE),
            (b"content-length", str(length).encode()),
            (b"date", formatdate(now / 1000, usegmt=True).encode()),
        ]

    def caller(self, headers: dict[bytes, bytes]) -> Account:
        """Return the calling account: the access key id if it has twelve digits, else the default account."""
        found = _ACCESS_KEY.search(headers.get(b"authorization", b""))
        return self.account.by_id(found[1].decode()) if found else self.account

    def _execute(self, headers: dict[bytes, bytes], body: bytes) -> bytes:
        if headers.get(b"content-type", b"").partition(b";")[0].strip() != CONTENT_TYPE:
            raise UnknownOperationException(f"The Content-Type must be {CONTENT_TYPE.decode()}.")
        target = headers.get(b"x-amz-target", b"").decode("latin-1")
        operation = OPERATIONS.get(target.removeprefix(TARGET_PREFIX))
        if operation is None or not target.startswith(TARGET_PREFIX):
            raise UnknownOperationException(
                f"Unknown operation: X-Amz-Target is {target!r}." if target else "X-Amz-Target is missing."
            )
        output = requests.decode(body, operation).execute(self.caller(headers))
        return b"" if output is None else msgspec.json.encode(output)


async def read_body(receive: Receive) -> bytes:
    """Read the whole body of a request."""
    parts = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)
