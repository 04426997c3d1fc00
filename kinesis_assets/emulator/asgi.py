"""The types of ASGI, and what an application does with a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def read_body(receive: Receive) -> bytes:
    """Read the whole body of a request."""
    parts = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def send_parts(parts: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send the parts of a response's body until the last one, or until the client has disconnected."""

    async def send_all() -> None:
        async for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    sending = asyncio.ensure_future(send_all())
    disconnected = asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        await asyncio.wait((sending, disconnected), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        sending.cancel()
        disconnected.cancel()
        await asyncio.gather(sending, disconnected, return_exceptions=True)


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
