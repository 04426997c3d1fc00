"""HTTP connections: what is sent, and when a connection is reused."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

import pytest
import urllib3

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.transport.concurrency import run
from support.http_pages import CHUNKED, HEAD, LONG, PAGE, SIZED, call, client_of, code_of
from support.scripted_server import After, Response, ScriptedServer


def test_a_request_has_each_header_once_and_its_body():
    with ScriptedServer(Response(SIZED)) as peer:
        call(client_of(peer.url))
        head, _, body = peer.requests[0].partition(b"\r\n\r\n")
    request, *headers = head.decode().split("\r\n")
    assert request == "POST / HTTP/1.1"
    names = sorted(header.partition(": ")[0].lower() for header in headers)
    assert names == [
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "x-amz-date",
        "x-amz-target",
    ]
    assert f"Host: {peer.address}" in headers
    assert body == b'{"ShardIterator":"i","Limit":10}'


@pytest.mark.parametrize("path", ["", "/", "/kinesis", "/k\xe4se", "/a b", "/?x=y z", "/a?b#c"])
def test_the_path_of_the_endpoint_is_requested_as_by_the_sdk(path):
    with ScriptedServer(Response(SIZED)) as peer:
        for by_sdk in (False, True):
            call(client_of(peer.url + path, by_sdk))
    ours, sdks = (request.partition(b"\r\n")[0] for request in peer.requests)
    assert ours == sdks


def test_a_request_is_sent_in_one_piece(monkeypatch):
    pieces = []
    sendall = socket.socket.sendall

    def note(self, data):
        pieces.append(data)
        sendall(self, data)

    with ScriptedServer(Response(SIZED)) as peer:
        client = client_of(peer.url)
        call(client)
        monkeypatch.setattr(socket.socket, "sendall", note)
        call(client)
    assert [piece for piece in pieces if piece.startswith(b"POST")] == [peer.requests[1]]


@pytest.mark.parametrize("sent", [SIZED, CHUNKED, SIZED.replace(b"200", b"503")])
def test_calls_share_one_keep_alive_connection(sent):
    with ScriptedServer(Response(sent)) as peer:
        client = client_of(peer.url)
        for _ in range(3):
            with suppress(CallFailed):
                call(client)
        assert (len(peer.requests), peer.connections) == (3, 1)


@pytest.mark.parametrize(
    "sent",
    [
        Response(SIZED.replace(b"Date", b"Connection: close\r\nDate"), After.END),
        Response(HEAD + b"\r\n" + PAGE, After.END),
        Response(SIZED, After.END),
        Response(SIZED, After.RESET),
    ],
)
def test_a_closed_connection_is_reopened(sent):
    with ScriptedServer(sent) as peer:
        client = client_of(peer.url)
        for _ in range(3):
            call(client)
            assert peer.ended.wait(SECONDS)
            peer.ended.clear()
        assert peer.connections == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [
        Response(b"", After.END),
        Response(b"", After.RESET),
        Response(b"", After.HOLD),
        Response(LONG, After.HOLD),
        Response(SIZED + b"!"),
        Response(b"<html>\r\n\r\n"),
    ],
)
def test_a_connection_is_not_reused_after_a_failed_call(sent):
    with ScriptedServer(sent, Response(SIZED)) as peer:
        client = client_of(peer.url, read_timeout=2)
        code_of(client)
        call(client)
        assert peer.connections == 2


@pytest.mark.slow
def test_a_response_may_take_longer_than_the_connect_timeout():
    with ScriptedServer(Response(SIZED, after=0.5)) as peer:
        call(client_of(peer.url, connect_timeout=0.2))


def test_a_reopened_connection_of_the_sdk_has_the_connect_timeout(monkeypatch):
    given = []
    create_connection = urllib3.util.connection.create_connection

    def note(address, timeout, **options):
        given.append(timeout)
        return create_connection(address, timeout, **options)

    monkeypatch.setattr(urllib3.util.connection, "create_connection", note)
    with ScriptedServer(Response(SIZED.replace(b"Date", b"Connection: close\r\nDate"), After.END)) as peer:
        client = client_of(peer.url, connect_timeout=3, read_timeout=7)
        client._client.get_records(ShardIterator="i")
        call(client)
    assert given == [3, 3]


def test_the_sdk_and_direct_calls_share_a_connection():
    with ScriptedServer(Response(SIZED)) as peer:
        client = client_of(peer.url)
        call(client)
        client._client.get_records(ShardIterator="i")
        call(client)
        assert (len(peer.requests), peer.connections) == (3, 1)


@pytest.mark.slow
def test_the_sdk_waits_for_the_response_on_a_connection_of_a_direct_call():
    with ScriptedServer(Response(SIZED), Response(SIZED, after=0.2)) as peer:
        client = client_of(peer.url, read_timeout=7)
        call(client)
        connection = client._records_call._endpoint._pool.pool.queue[-1]
        assert connection.sock.gettimeout() == 7
        client._client.get_records(ShardIterator="i")
        assert (len(peer.requests), peer.connections) == (2, 1)


@pytest.mark.slow
def test_the_connection_of_an_abandoned_call_is_not_reused():
    with ScriptedServer(Response(SIZED, after=0.2), Response(SIZED)) as peer:
        client = client_of(peer.url)

        async def abandon():
            calling = asyncio.create_task(client.getting_records("i", 10))
            assert await asyncio.to_thread(peer.requested.wait, SECONDS)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling

        run(abandon())
        call(client)
        assert (len(peer.requests), peer.connections) == (2, 2)


def test_a_canceled_call_keeps_its_connection_while_a_thread_opens_it(monkeypatch):
    events, opening, opens = [], threading.Event(), threading.Event()
    create_connection = urllib3.util.connection.create_connection

    def slow(*arguments, **options):
        opening.set()
        assert opens.wait(SECONDS)
        events.append("opened")
        return create_connection(*arguments, **options)

    def noted(connection):
        events.append("returned")
        put(connection)

    async def abandon(client):
        calling = asyncio.create_task(client.getting_records("i", 10))
        assert await asyncio.to_thread(opening.wait, SECONDS)
        for _ in range(2):  # as a run that fails, and then the end of its loop
            calling.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        opens.set()
        with pytest.raises(asyncio.CancelledError):
            await calling

    with ScriptedServer(Response(SIZED)) as peer:
        client = client_of(peer.url)
        monkeypatch.setattr(urllib3.util.connection, "create_connection", slow)
        connections = client._records_call._endpoint._connections
        put = connections.put
        monkeypatch.setattr(connections, "put", noted)
        run(abandon(client))
        call(client)
    assert events == ["opened", "returned", "opened", "returned"]
