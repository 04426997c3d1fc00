"""HTTP connections over TLS."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.http_pages import CHUNKED, HEAD, PAGE, SIZED, call, client_of, code_of, directly_and_by_the_sdk
from support.scripted_server import Response, ScriptedServer


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("sent", [SIZED, CHUNKED])
def test_calls_over_tls_share_a_connection(tls, sent):
    with ScriptedServer(Response(sent), tls=tls) as peer:
        client = client_of(peer.url)
        for _ in range(3):
            call(client)
        assert (len(peer.requests), peer.connections) == (3, 1)


@pytest.mark.usefixtures("trusted")
def test_a_long_body_is_received_over_tls(tls):
    page = PAGE + b" " * 1_000_000
    sent = HEAD + f"Content-Length: {len(page)}\r\n\r\n".encode() + page
    with ScriptedServer(Response(sent), tls=tls) as peer:
        call(client_of(peer.url))


@pytest.mark.usefixtures("trusted")
@pytest.mark.slow
def test_a_second_response_over_tls_is_not_returned_to_the_next_call(tls):
    head, _, body = SIZED.partition(b"\r\n\r\n")
    twice = Response(head + b"\r\n\r\n", more=body + SIZED.replace(b'"i"', b'"x"'))
    with ScriptedServer(twice, Response(SIZED), tls=tls) as peer:
        client = client_of(peer.url)
        assert code_of(client) == "HTTPClientError"
        call(client)


@directly_and_by_the_sdk
def test_an_untrusted_certificate_is_an_ssl_error_and_nothing_is_sent(tls, by_sdk):
    with ScriptedServer(Response(SIZED), tls=tls) as peer:
        assert code_of(client_of(peer.url, by_sdk)) == "SSLError"
        assert not peer.requests


@directly_and_by_the_sdk
@pytest.mark.usefixtures("trusted")
def test_a_certificate_of_another_host_is_an_ssl_error_and_nothing_is_sent(authority, by_sdk):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.2").configure_cert(context)
    with ScriptedServer(Response(SIZED), tls=context) as peer:
        assert code_of(client_of(peer.url, by_sdk)) == "SSLError"
        assert not peer.requests


def test_a_peer_that_closes_during_the_handshake_is_a_connection_closed_error():
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:

        def ends():
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1 << 16)

        ended = threads.submit(ends)
        assert code_of(client_of(f"https://127.0.0.1:{server.getsockname()[1]}")) == "ConnectionClosedError"
        ended.result()
