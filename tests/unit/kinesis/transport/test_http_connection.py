"""HTTP calls: connections, proxies and TLS work as with the SDK, and errors have the SDK's codes."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from traceback import walk_tb

import pytest
import trustme
import urllib3

from kinesis_assets.errors import CallFailed, InvalidInput
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.read_timing import ReadTiming
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.transport.awaitables import to_thread
from kinesis_assets.kinesis.transport.event_loop import EventLoop
from support.scripted_server import After, Response, ScriptedServer, read_request

PAGE = b'{"Records": [], "MillisBehindLatest": 0, "NextShardIterator": "i"}'
HEAD = b"HTTP/1.1 200 OK\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\n"
SIZED = HEAD + f"Content-Length: {len(PAGE)}\r\n\r\n".encode() + PAGE
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(PAGE), PAGE)
LONG = HEAD + b"Content-Length: 1000000\r\n\r\n"

directly_and_by_the_sdk = pytest.mark.parametrize("by_sdk", [False, True], ids=["direct", "SDK"])


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """Remove the proxies of the environment."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


SHORT_TIMEOUTS = {"read_timeout": 0.2, "connect_timeout": 0.2}


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


# Connections


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
            assert peer.ended.wait(5)
            peer.ended.clear()
        assert peer.connections == 3


@pytest.mark.real_time
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


def test_the_sdk_waits_for_the_response_on_a_connection_of_a_direct_call():
    with ScriptedServer(Response(SIZED), Response(SIZED, after=0.2)) as peer:
        client = client_of(peer.url, read_timeout=7)
        call(client)
        connection = client._get_records._endpoint._pool.pool.queue[-1]
        assert connection.sock.gettimeout() == 7
        client._client.get_records(ShardIterator="i")
        assert (len(peer.requests), peer.connections) == (2, 1)


def test_the_connection_of_an_abandoned_call_is_not_reused():
    with ScriptedServer(Response(SIZED, after=0.2), Response(SIZED)) as peer:
        client = client_of(peer.url)
        getting = client.getting_records("i", 10)
        next(getting).block()  # it is connected
        next(getting)
        assert peer.requested.wait(5)
        getting.close()
        call(client)
        assert (len(peer.requests), peer.connections) == (2, 2)


# Error codes


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


@directly_and_by_the_sdk
@pytest.mark.parametrize("data", [b"", HEAD])
def test_a_response_that_does_not_arrive_in_time_is_a_read_timeout_error(by_sdk, data):
    with ScriptedServer(Response(data, After.HOLD)) as peer:
        assert code_of(client_of(peer.url, by_sdk, **SHORT_TIMEOUTS)) == "ReadTimeoutError"


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
    assert "the response is not HTTP/1.1" in str(raised.value)


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


# TLS


@pytest.fixture(scope="module")
def authority():
    """A certificate authority for servers on loopback."""
    return trustme.CA()


@pytest.fixture
def tls(authority):
    """The TLS context of such a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority, monkeypatch, tmp_path):
    """Make the SDK trust that authority."""
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "authority.pem"))


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


# Proxies


class Tunnel:
    """A proxy on loopback that connects every request to one peer and records the requests."""

    def __init__(self, peer, tls=None):
        self.requested = []
        self._tls = tls
        self._to = ("127.0.0.1", int(peer.address.rpartition(":")[2]))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._open = []
        self._threads = [threading.Thread(target=self._serve)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        for end in (self._listening, *self._open):
            with suppress(OSError):  # already closed
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._listening, *self._open):
            end.close()

    def _serve(self):
        with suppress(OSError):  # the listening socket was closed
            while True:
                near, _ = self._listening.accept()
                if self._tls:
                    near = self._tls.wrap_socket(near, server_side=True)
                self._open.append(near)
                self.requested.append(read_request(near))
                near.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                far = socket.create_connection(self._to)
                self._open.append(far)
                for ends in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._pump, args=ends))
                    self._threads[-1].start()

    @staticmethod
    def _pump(source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


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


def test_a_slow_proxy_does_not_delay_other_generators(monkeypatch):
    codes = []

    def calls(client):
        try:
            yield from client.getting_records("i", 10)
        except CallFailed as error:
            codes.append(error.code)

    def others():
        assert (yield from to_thread(lambda: proxy.requested.wait(5)))
        assert not codes
        proxy.end()

    with ScriptedServer(Response(b"", After.HOLD)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        EventLoop(2).run([calls(client_of("https://kinesis.example")), others()])
    assert codes == ["ConnectionClosedError"]


@directly_and_by_the_sdk
def test_a_proxy_that_refuses_is_a_proxy_connection_error(monkeypatch, by_sdk):
    with ScriptedServer(Response(b"HTTP/1.1 407 No\r\n\r\n", After.END)) as peer:
        monkeypatch.setenv("https_proxy", f"http://{peer.address}")
        assert code_of(client_of("https://kinesis.example", by_sdk)) == "ProxyConnectionError"


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
    assert "the environment's proxy" in str(raised.value)
    assert "secret" not in str(raised.value)
