"""HTTP/2 beside HTTP/1.1 on the port of the endpoint."""

from __future__ import annotations

import base64
import socket
import ssl
from contextlib import closing
from http.client import HTTPSConnection

import pytest
import trustme

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.emulator import LocalKinesis
from support.http2 import Http2Client

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture
def http2(local):
    with closing(Http2Client(local)) as client:
        yield client


def test_every_operation_is_served(http2, stream):
    record = {"Data": base64.b64encode(b"data").decode(), "PartitionKey": "k"}
    put = http2.request("PutRecord", StreamName=stream.name, **record)
    assert (put.status, put.json()["ShardId"]) == (200, "shardId-000000000000")
    assert stream.data() == [b"data"]


def test_an_error_has_its_status_and_type(http2):
    refused = http2.request("DescribeStream", StreamName="missing")
    assert (refused.status, refused.json()["__type"]) == (400, "ResourceNotFoundException")


def test_a_large_request_arrives_whole(http2, stream):
    record = {"Data": base64.b64encode(b"x" * 1_000_000).decode(), "PartitionKey": "k"}
    put = http2.request("PutRecords", StreamName=stream.name, Records=[record] * 2)  # twice a window
    assert len(put.json()["Records"]) == 2


@pytest.mark.slow
def test_a_large_response_arrives_whole(http2, stream):
    for _ in range(4):
        stream.put(b"x" * 1_000_000)
    page = http2.request("GetRecords", ShardIterator=stream.iterator())
    assert sum(len(base64.b64decode(record["Data"])) for record in page.json()["Records"]) == 4_000_000


@pytest.mark.parametrize("split", [1, 10, 23])
def test_a_client_is_recognized_by_its_first_bytes_however_they_arrive(local, split):
    with closing(socket.create_connection(("127.0.0.1", local.port), timeout=SECONDS)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(PREFACE[:split])
        with closing(Http2Client(local)) as other:  # served after the first bytes have arrived
            other.request("ListStreams")
        connection.sendall(PREFACE[split:] + b"\0\0\0\4\0\0\0\0\0")
        assert connection.recv(9)[3] == 4  # the type of a SETTINGS frame


def test_http_1_is_recognized_by_its_first_byte_that_differs(local):
    with closing(socket.create_connection(("127.0.0.1", local.port), timeout=SECONDS)) as connection:
        connection.sendall(b"P")
        with closing(Http2Client(local)) as other:
            other.request("ListStreams")
        connection.sendall(b"OST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 400"


def test_a_client_that_breaks_the_protocol_is_disconnected(local):
    with closing(socket.create_connection(("127.0.0.1", local.port), timeout=SECONDS)) as connection:
        connection.sendall(PREFACE + b"\0\0\1\0\0\0\0\0\0x")  # DATA that belongs to no request
        while connection.recv(1 << 16):
            pass


def test_an_application_that_fails_is_an_internal_error(caplog):
    def wrap(_):
        async def fail(*_):
            raise RuntimeError("broken")

        return fail

    with LocalKinesis(wrap=wrap) as local, closing(Http2Client(local)) as client:
        assert client.request("ListStreams").status == 500
    assert "Exception in ASGI application" in caplog.text


def test_an_application_that_fails_within_its_response_resets_it(caplog):
    def wrap(_):
        async def fail(_scope, _receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise RuntimeError("broken")

        return fail

    with LocalKinesis(wrap=wrap) as local, closing(Http2Client(local)) as client:
        response = client.request("ListStreams")
        assert b"".join(response.parts()) == b""
        assert response.reset
    assert "Exception in ASGI application" in caplog.text


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def secure(authority):
    """An endpoint with TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with LocalKinesis(tls=context) as local:
        yield local


@pytest.fixture
def trusting(authority):
    """The context of a client that trusts the endpoint."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_http2_is_negotiated_with_tls(secure, trusting):
    assert secure.endpoint_url == f"https://127.0.0.1:{secure.port}"
    trusting.set_alpn_protocols(["h2"])
    plain = socket.create_connection(("127.0.0.1", secure.port), timeout=SECONDS)
    with closing(trusting.wrap_socket(plain, server_hostname="127.0.0.1")) as connected:
        assert connected.selected_alpn_protocol() == "h2"
        answer = Http2Client(secure, connected).request("ListStreams")
        assert answer.json()["StreamNames"] == []


def test_http_1_is_negotiated_with_tls(secure, trusting):
    with closing(HTTPSConnection("127.0.0.1", secure.port, context=trusting)) as connection:
        connection.request("POST", "/")
        assert connection.getresponse().status == 400
