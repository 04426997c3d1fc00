"""Responses with a page, and clients that read them."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings, ReadTiming

PAGE = b'{"Records": [], "MillisBehindLatest": 0, "NextShardIterator": "i"}'

HEAD = b"HTTP/1.1 200 OK\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\n"

SIZED = HEAD + f"Content-Length: {len(PAGE)}\r\n\r\n".encode() + PAGE

CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(PAGE), PAGE)

LONG = HEAD + b"Content-Length: 1000000\r\n\r\n"

directly_and_by_the_sdk = pytest.mark.parametrize("by_sdk", [False, True], ids=["direct", "SDK"])


def client_of(url, by_sdk=False, **timeouts):
    settings = ClientSettings("us-east-1", url, sdk_parser=by_sdk, timing=ReadTiming(**timeouts))
    return StreamClient("orders", settings, attempts=1)


def call(client):
    page, _ = client.get_records("i", 10)
    assert page.next_shard_iterator == "i"


def code_of(client):
    """Make a call that fails and return its error code."""
    with pytest.raises(CallFailed) as raised:
        call(client)
    return raised.value.code
