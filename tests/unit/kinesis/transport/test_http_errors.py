"""Errors of HTTP connections have the codes of the SDK's errors."""

from __future__ import annotations

import socket
from traceback import walk_tb

import pytest

from kinesis_assets.errors import CallFailed
from support.http_pages import HEAD, LONG, SIZED, call, client_of, code_of, directly_and_by_the_sdk
from support.scripted_server import After, Response, ScriptedServer

SHORT_TIMEOUTS = {"read_timeout": 0.2, "connect_timeout": 0.2}


@directly_and_by_the_sdk
def test_a_refused_connection_is_an_endpoint_connection_error(by_sdk):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert code_of(client_of(f"http://127.0.0.1:{port}", by_sdk)) == "EndpointConnectionError"


@directly_and_by_the_sdk
def test_an_unknown_host_is_an_endpoint_connection_error(by_sdk, monkeypatch):
    getaddrinfo = socket.getaddrinfo

    def unknown(host, *arguments, **named):
        if host == "kinesis.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return getaddrinfo(host, *arguments, **named)  # for other threads

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert code_of(client_of("http://kinesis.invalid", by_sdk)) == "EndpointConnectionError"


@pytest.mark.slow
@directly_and_by_the_sdk
def test_an_endpoint_that_does_not_accept_in_time_is_a_connect_timeout_error(by_sdk):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        client = client_of(f"http://127.0.0.1:{address[1]}", by_sdk, **SHORT_TIMEOUTS)
        assert code_of(client) == "ConnectTimeoutError"
        for each in waiting:
            each.close()


@pytest.mark.slow
@directly_and_by_the_sdk
@pytest.mark.parametrize("data", [b"", HEAD])
def test_a_response_that_does_not_arrive_in_time_is_a_read_timeout_error(by_sdk, data):
    with ScriptedServer(Response(data, After.HOLD)) as peer:
        assert code_of(client_of(peer.url, by_sdk, **SHORT_TIMEOUTS)) == "ReadTimeoutError"


@pytest.mark.slow
def test_a_body_that_does_not_arrive_in_time_is_a_read_timeout_error():
    with ScriptedServer(Response(LONG, After.HOLD)) as peer:
        assert code_of(client_of(peer.url, **SHORT_TIMEOUTS)) == "ReadTimeoutError"


@directly_and_by_the_sdk
@pytest.mark.parametrize("then", [After.END, After.RESET])
def test_a_connection_closed_before_the_response_is_a_connection_closed_error(by_sdk, then):
    with ScriptedServer(Response(b"", then)) as peer:
        assert code_of(client_of(peer.url, by_sdk)) == "ConnectionClosedError"


def test_a_connection_reset_within_the_body_is_a_connection_closed_error():
    with ScriptedServer(Response(LONG, After.RESET)) as peer:
        assert code_of(client_of(peer.url)) == "ConnectionClosedError"


def test_a_response_that_is_not_http_is_an_http_client_error():
    with ScriptedServer(Response(b"220 mail ready\r\n\r\n")) as peer, pytest.raises(CallFailed) as raised:
        call(client_of(peer.url))
    assert raised.value.code == "HTTPClientError"
    assert "HTTP/1.1" in str(raised.value)


@pytest.mark.slow
def test_the_error_of_a_partial_response_does_not_keep_its_body():
    with (
        ScriptedServer(Response(LONG + bytes(500_000), After.HOLD)) as peer,
        pytest.raises(CallFailed) as raised,
    ):
        call(client_of(peer.url, **SHORT_TIMEOUTS))
    kept, error = [], raised.value
    while error is not None:
        kept += [value for frame, _ in walk_tb(error.__traceback__) for value in frame.f_locals.values()]
        error = error.__context__
    assert kept
    assert max(len(each) for each in kept if isinstance(each, (bytes, bytearray, memoryview, str))) < 100_000


def test_credentials_with_a_line_break_are_neither_sent_nor_shown_in_the_error(monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hidden\r\nX-Evil: 1")
    with (
        ScriptedServer(Response(SIZED)) as peer,
        pytest.raises(CallFailed, match="X-Amz-Security-Token") as raised,
    ):
        call(client_of(peer.url))
    assert not peer.requests
    assert "hidden" not in str(raised.value)
    assert raised.value.code == "ParamValidationError"  # which a reading does not retry
