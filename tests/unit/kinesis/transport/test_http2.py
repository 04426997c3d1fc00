"""Responses over HTTP/2, from a server whose bytes are given."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace

import h2.events
import pytest
from botocore.exceptions import ConnectionClosedError, HTTPClientError

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.transport import http2
from kinesis_assets.kinesis.transport.concurrency import run
from kinesis_assets.kinesis.transport.http2 import WINDOW
from support.scripted_http2 import HEAD, Http2Server
from support.scripted_server import read_request
from support.timing import READING
from support.tunnel import Tunnel

CONSUMER = "arn:aws:kinesis:us-east-1:123456789012:stream/s/consumer/c:1"
START = Position(PositionKind.TRIM_HORIZON)
SECONDS = 60.0


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "123456789012")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def client_of(server):
    return StreamClient("s", ClientSettings("us-east-1", server.url, timing=READING), attempts=1)


def subscribe(server, position=START):
    response, _ = run(client_of(server).subscribing(CONSUMER, "shardId-0", position, SECONDS))
    return response


def code_of(server):
    with pytest.raises(CallFailed) as failed:
        subscribe(server)
    return failed.value.code


def assert_no_http2(server):
    """Assert that a subscription fails, and says that there is no HTTP/2."""
    with pytest.raises(CallFailed, match="NoHttp2: no HTTP/2, which enhanced fan-out needs"):
        subscribe(server)


def received(response, count):
    """Receive a number of bytes, each part in an event loop of its own."""
    body = b""
    while len(body) < count:
        part = run(response.receive(SECONDS))
        assert part
        body += part
    return body


def sends(data):
    def script(peer):
        peer.head()
        peer.send(data)
        peer.hold()

    return script


def test_a_signed_request_asks_for_the_position_of_a_shard():
    with Http2Server(sends(b"x")) as server:
        subscribe(server, Position.after("17", 3)).close()
        peer = server.peers[0]
    assert peer.headers[":method"] == "POST"
    assert peer.headers["x-amz-target"] == "Kinesis_20131202.SubscribeToShard"
    assert peer.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=123456789012/")
    assert peer.headers[":authority"] == server.url.removeprefix("http://")
    assert peer.body == (
        b'{"ConsumerARN":"arn:aws:kinesis:us-east-1:123456789012:stream/s/consumer/c:1",'
        b'"ShardId":"shardId-0",'
        b'"StartingPosition":{"Type":"AT_SEQUENCE_NUMBER","SequenceNumber":"17"}}'
    )


def test_a_response_is_read_in_one_event_loop_after_another():
    with Http2Server(sends(b"abc" * 100)) as server:
        response = subscribe(server)
        assert received(response, 300) == b"abc" * 100
        response.close()


def test_nothing_is_waited_for_in_no_time():
    with Http2Server(sends(b"")) as server:
        response = subscribe(server)
        assert run(response.receive(0.0)) == b""
        assert not response.ended
        response.close()


def test_a_long_frame_may_arrive_together_with_the_acknowledgment_of_the_settings():
    data = b"x" * 30_000

    def script(peer):
        peer.head()
        peer.http.send_data(1, data)
        peer.corked = False
        peer.flush()
        peer.hold()

    with Http2Server(script, corked=True) as server:
        response = subscribe(server)
        assert received(response, len(data)) == data
        response.close()


def test_the_end_of_a_response_is_known():
    def script(peer):
        peer.head()
        peer.send(b"x")
        peer.end()
        peer.hold()

    with Http2Server(script) as server:
        response = subscribe(server)
        assert received(response, 1) == b"x"
        assert run(response.receive(SECONDS)) == b""
        assert response.ended
        response.close()


def test_what_is_not_received_stays_with_the_sender():
    stuck = threading.Event()
    sent = []

    def script(peer):
        peer.head()
        while peer.http.local_flow_control_window(1):
            size = min(peer.http.local_flow_control_window(1), 16_384)
            peer.http.send_data(1, bytes(size))
            peer.flush()
            sent.append(size)
        stuck.set()
        peer.send(bytes(3 * WINDOW))
        peer.hold()

    with Http2Server(script) as server:
        response = subscribe(server)
        assert stuck.wait(SECONDS)
        assert sum(sent) == WINDOW
        assert len(received(response, 4 * WINDOW)) == 4 * WINDOW
        response.close()


def test_a_ping_between_two_parts_is_answered():
    def script(peer):
        peer.head()
        peer.http.ping(b"12345678")
        peer.flush()
        peer.receive_until(h2.events.PingAckReceived)
        peer.send(b"x")
        peer.hold()

    with Http2Server(script) as server:
        response = subscribe(server)
        assert received(response, 1) == b"x"
        response.close()


ENDS = {
    "the connection is closed": lambda peer: peer.socket.shutdown(socket.SHUT_RDWR),
    "the stream is reset": lambda peer: (peer.reset(), peer.hold()),
    "the server goes away": lambda peer: (peer.go_away(), peer.hold()),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_response_that_is_canceled_raises_an_error_of_the_sdk(end):
    begun = threading.Event()

    def script(peer):
        peer.head()
        begun.wait()
        end(peer)

    with Http2Server(script) as server:
        response = subscribe(server)
        begun.set()
        with pytest.raises((ConnectionClosedError, HTTPClientError)):
            run(response.receive(SECONDS))
        response.close()


def test_bytes_that_are_not_http2_are_an_error_of_their_own():
    def script(peer):
        peer.socket.sendall(b"\0\0\1\0\0\0\0\0\0x")
        peer.hold()

    with Http2Server(script) as server:
        assert code_of(server) == "InvalidHttp2"


def test_an_error_of_the_service_has_its_code():
    def script(peer):
        peer.head(400)
        peer.send(b'{"__type":"ResourceInUseException","message":"in use"}')
        peer.end()
        peer.hold()

    with Http2Server(script) as server:
        assert code_of(server) == "ResourceInUseException"


@pytest.mark.parametrize("status", ["abc", "000", "+200", "2_0", ""])
def test_a_status_that_is_not_a_number_is_an_error(status):
    def script(peer):
        peer.http.config.validate_outbound_headers = False
        peer.http.send_headers(1, [(":status", status), *HEAD.items()])
        peer.flush()
        peer.hold()

    with Http2Server(script) as server:
        assert code_of(server) == "ConnectionClosedError"


def answers_pings(peer, then=lambda: None):
    """Ping the client again and again, each time once it has answered."""
    while True:
        then()
        peer.http.ping(b"12345678")
        peer.flush()
        peer.receive()


@pytest.mark.slow
def test_a_head_is_not_waited_for_without_end_while_other_frames_arrive():
    with Http2Server(answers_pings) as server:
        with pytest.raises(CallFailed) as failed:
            run(client_of(server).subscribing(CONSUMER, "shardId-0", START, 0.2))
        assert failed.value.code == "ReadTimeoutError"


@contextmanager
def listens(serve):
    """Serve one connection to loopback by a function, in a thread. Yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept():
            with suppress(OSError):  # nobody connects
                connection, _ = listening.accept()
                with connection:
                    serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            with suppress(OSError):  # it has accepted
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def drips(connection):
    """Answer a request for a tunnel with headers until the other end closes the connection."""
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 Connected\r\n")
    with suppress(OSError):
        while True:
            connection.sendall(b"X-More: 1\r\n")


@pytest.mark.slow
def test_a_proxy_is_not_waited_for_without_end_while_it_answers(monkeypatch):
    with listens(drips) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy}")
        client = StreamClient(
            "s", ClientSettings("us-east-1", "https://127.0.0.1:1", timing=READING), attempts=1
        )
        with pytest.raises(CallFailed, match="ReadTimeoutError"):
            run(client.subscribing(CONSUMER, "shardId-0", START, 0.2))


@pytest.mark.slow
def test_a_server_that_does_not_answer_in_tls_is_not_waited_for_without_end():
    settings = ClientSettings("us-east-1", timing=replace(READING, connect_timeout=SECONDS))
    over = threading.Event()
    with listens(lambda _: over.wait()) as address:
        client = StreamClient("s", replace(settings, endpoint_url=f"https://{address}"), attempts=1)
        began = time.monotonic()
        with pytest.raises(CallFailed, match="ReadTimeoutError"):
            run(client.subscribing(CONSUMER, "shardId-0", START, 0.2))
        over.set()
    assert time.monotonic() - began < SECONDS


@pytest.mark.slow
def test_the_body_of_an_error_is_not_waited_for_without_end_while_its_bytes_arrive():
    sent = []

    def script(peer):
        peer.head(400)
        answers_pings(peer, lambda: (peer.send(b"x"), sent.append(1)))

    with Http2Server(script) as server:
        with pytest.raises(CallFailed) as failed:
            run(client_of(server).subscribing(CONSUMER, "shardId-0", START, 0.2))
        assert failed.value.code == "400"
    assert len(sent) < 64 << 10


def test_data_are_not_waited_for_without_end_while_other_frames_arrive(monkeypatch):
    monkeypatch.setattr(http2, "_NO_DATA", 0.0)

    async def receives(response):
        while True:
            assert await response.receive(0.0) == b""

    with Http2Server(lambda peer: (peer.head(), answers_pings(peer))) as server:
        response = subscribe(server)
        with pytest.raises(ConnectionClosedError):
            run(receives(response))
        response.close()


def test_an_empty_frame_of_data_does_not_end_a_wait():
    def script(peer):
        peer.head()
        peer.http.send_data(1, b"")
        peer.flush()
        peer.http.ping(b"12345678")
        peer.flush()
        peer.receive_until(h2.events.PingAckReceived)  # the client has received the empty frame
        peer.send(b"x")
        peer.hold()

    with Http2Server(script) as server:
        response = subscribe(server)
        assert run(response.receive(SECONDS)) == b"x"
        response.close()


def test_a_server_that_closes_before_its_response_is_a_connection_closed_error():
    with Http2Server(lambda _: None) as server:
        assert code_of(server) == "ConnectionClosedError"


def test_a_server_without_http2_is_an_error():
    def serve(connection):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        while connection.recv(1 << 16):
            pass

    with listens(serve) as address:
        assert_no_http2(SimpleNamespace(url=f"http://{address}"))


@pytest.mark.usefixtures("trusted")
def test_a_response_over_tls_is_received_whole(tls):
    tls.set_alpn_protocols(["h2"])
    with Http2Server(sends(bytes(2 * WINDOW)), tls=tls) as server:
        response = subscribe(server)
        assert len(received(response, 2 * WINDOW)) == 2 * WINDOW
        response.close()


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("offered", [[], ["http/1.1"]])
def test_a_server_that_does_not_choose_http2_in_tls_gets_no_request(tls, offered):
    if offered:
        tls.set_alpn_protocols(offered)
    with Http2Server(sends(b"x"), tls=tls) as server:
        assert_no_http2(server)
        assert not server.peers


def test_an_untrusted_certificate_is_refused(tls):
    tls.set_alpn_protocols(["h2"])
    with Http2Server(sends(b"x"), tls=tls) as server:
        assert code_of(server) == "SSLError"


@pytest.mark.usefixtures("trusted")
def test_a_certificate_of_another_host_is_refused(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    authority.issue_cert("127.0.0.2").configure_cert(context)
    with Http2Server(sends(b"x"), tls=context) as server:
        assert code_of(server) == "SSLError"
        assert not server.peers


def test_a_proxy_for_plain_http_is_not_asked(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with Http2Server(sends(b"x")) as server:
        assert_no_http2(server)


@pytest.mark.usefixtures("trusted")
def test_a_proxy_over_tls_is_not_asked(monkeypatch, tls):
    tls.set_alpn_protocols(["h2"])
    with Http2Server(sends(b"x"), tls=tls) as server, Tunnel(server, tls) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", f"https://{tunnel.address}")
        assert_no_http2(server)
        assert not tunnel.requested


@pytest.mark.usefixtures("trusted")
def test_a_proxy_without_tls_tunnels_http2(monkeypatch, tls):
    tls.set_alpn_protocols(["h2"])
    with Http2Server(sends(b"x"), tls=tls) as server, Tunnel(server) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{tunnel.address}")
        response = subscribe(server)
        assert received(response, 1) == b"x"
        response.close()
        assert len(tunnel.requested) == 1


def test_a_canceled_request_closes_its_connection():
    requested, closed = threading.Event(), threading.Event()

    def script(peer):
        requested.set()
        try:
            peer.hold()
        except OSError:
            closed.set()

    async def cancels():
        task = asyncio.ensure_future(client_of(server).subscribing(CONSUMER, "shardId-0", START, SECONDS))
        await asyncio.to_thread(requested.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Http2Server(script) as server:
        run(cancels())
        assert closed.wait(SECONDS)
