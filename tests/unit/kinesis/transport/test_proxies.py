"""HTTP connections through proxies."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import CallFailed, InvalidInput
from kinesis_assets.kinesis.reading.calls import is_transient
from kinesis_assets.kinesis.transport.concurrency import Turns
from support.http_pages import SIZED, call, client_of, directly_and_by_the_sdk
from support.mentions import assert_mentions
from support.scripted_server import After, Response, ScriptedServer
from support.tunnel import Tunnel


def test_an_http_proxy_is_sent_the_full_url(monkeypatch):
    with ScriptedServer(Response(SIZED)) as peer:
        monkeypatch.setenv("HTTP_PROXY", f"http://user:secret@{peer.address}")
        client = client_of("http://kinesis.example")
        call(client)
        call(client)
    for request in peer.requests:
        lines = request.decode().split("\r\n")
        assert lines[0] == "POST http://kinesis.example/ HTTP/1.1"
        assert "Host: kinesis.example" in lines
        assert f"Proxy-Authorization: Basic {base64.b64encode(b'user:secret').decode()}" in lines
    assert peer.connections == 1


@pytest.mark.usefixtures("trusted")
def test_a_proxy_over_tls_is_sent_the_full_url_of_an_http_endpoint(monkeypatch, tls):
    with ScriptedServer(Response(SIZED), tls=tls) as peer:
        monkeypatch.setenv("HTTP_PROXY", peer.url)
        call(client_of("http://kinesis.example/a#b"))
    assert peer.requests[0].startswith(b"POST http://kinesis.example/a HTTP/1.1\r\n")


@pytest.mark.usefixtures("trusted")
def test_tls_is_tunneled_and_the_proxys_password_is_not_sent_to_the_endpoint(authority, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("kinesis.example").configure_cert(context)
    with ScriptedServer(Response(SIZED), tls=context) as peer, Tunnel(peer) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{tunnel.address}")
        client = client_of("https://kinesis.example")
        call(client)
        call(client)
        assert (len(peer.requests), len(tunnel.requested)) == (2, 1)
    assert tunnel.requested[0].startswith(b"CONNECT kinesis.example:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic" in tunnel.requested[0]
    for request in peer.requests:
        assert request.startswith(b"POST / HTTP/1.1\r\n")
        assert b"roxy" not in request


@pytest.mark.usefixtures("trusted")
@directly_and_by_the_sdk
@pytest.mark.slow
def test_a_proxy_over_tls_tunnels_tls(authority, monkeypatch, tls, by_sdk):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("kinesis.example").configure_cert(context)
    with ScriptedServer(Response(SIZED), tls=context) as peer, Tunnel(peer, tls) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", f"https://{tunnel.address}")
        client = client_of("https://kinesis.example", by_sdk)
        call(client)
        call(client)
        assert (len(peer.requests), len(tunnel.requested)) == (2, 1)


@directly_and_by_the_sdk
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_unreachable_proxy_is_a_proxy_connection_error_without_its_password(monkeypatch, by_sdk, scheme):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv(f"{scheme}_proxy", f"http://user:secret@127.0.0.1:{port}")
    with pytest.raises(CallFailed) as raised:
        call(client_of(f"{scheme}://kinesis.example", by_sdk))
    assert raised.value.code == "ProxyConnectionError"
    assert "secret" not in f"{raised.value}{raised.value.__cause__}"


def test_a_slow_proxy_does_not_delay_others(monkeypatch):
    codes = []

    async def calls(client):
        try:
            await client.getting_records("i", 10)
        except CallFailed as error:
            codes.append(error.code)

    async def others():
        assert await asyncio.to_thread(proxy.requested.wait, SECONDS)
        assert not codes
        proxy.end()

    with ScriptedServer(Response(b"", After.HOLD)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        Turns(2).run([calls(client_of("https://kinesis.example")), others()])
    assert codes == ["ConnectionClosedError"]


@directly_and_by_the_sdk
@pytest.mark.parametrize(("scheme", "code"), [("https", "ProxyConnectionError"), ("http", "407")])
def test_a_proxy_that_refuses_the_password_is_an_error_that_says_so_and_is_not_retried(
    monkeypatch, by_sdk, scheme, code
):
    with ScriptedServer(Response(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", After.END)) as peer:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://user:secret@{peer.address}")
        with pytest.raises(CallFailed) as raised:
            call(client_of(f"{scheme}://kinesis.example", by_sdk))
    assert (raised.value.code, is_transient(raised.value)) == (code, False)
    assert_mentions(str(raised.value), "407", "proxy", "user and password", "HTTPS_PROXY")
    assert "secret" not in str(raised.value)


@directly_and_by_the_sdk
def test_a_proxy_that_refuses_for_another_reason_is_a_proxy_connection_error(monkeypatch, by_sdk):
    with ScriptedServer(Response(b"HTTP/1.1 503 No\r\n\r\n", After.END)) as peer:
        monkeypatch.setenv("https_proxy", f"http://{peer.address}")
        with pytest.raises(CallFailed) as raised:
            call(client_of("https://kinesis.example", by_sdk))
    assert (raised.value.code, is_transient(raised.value)) == ("ProxyConnectionError", True)
    assert "password" not in str(raised.value)


def test_an_endpoint_in_no_proxy_is_called_directly(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ScriptedServer(Response(SIZED)) as peer:
        call(client_of(peer.url))


@pytest.mark.parametrize("proxy", ["http://user:secret@proxy:port", "http://:80"])
def test_an_invalid_proxy_is_invalid_input_without_its_password(monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(InvalidInput) as raised:
        client_of("http://kinesis.example")
    assert "environment's proxy" in str(raised.value)
    assert "secret" not in str(raised.value)
