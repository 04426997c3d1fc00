"""Calls over the wire: connections, proxies and TLS as the SDK has them; its names for what goes wrong."""

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
from support.raw_peer import RawPeer, Sent, Then, read_request

PAGE = b'{"Records": [], "MillisBehindLatest": 0, "NextShardIterator": "i"}'
HEAD = b"HTTP/1.1 200 OK\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\n"
SIZED = HEAD + f"Content-Length: {len(PAGE)}\r\n\r\n".encode() + PAGE
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(PAGE), PAGE)
LONG = HEAD + b"Content-Length: 1000000\r\n\r\n"

directly_and_by_the_sdk = pytest.mark.parametrize("by_sdk", [False, True], ids=["direct", "SDK"])


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """None but the test's own."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


IMPATIENT = {"read_timeout": 0.2, "connect_timeout": 0.2}


def client_of(url, by_sdk=False, **timeouts):
    settings = ClientSettings("us-east-1", url, sdk_parser=by_sdk, timing=ReadTiming(**timeouts))
    return StreamClient("orders", settings, attempts=1)


def call(client):
    page, _ = client.get_records("i", 10)
    assert page.next_shard_iterator == "i"


def code_of(client):
    """What a call that fails fails with."""
    with pytest.raises(CallFailed) as raised:
        call(client)
    return raised.value.code


# Connections


def test_a_request_is_whole_and_names_its_host_once():
    with RawPeer(Sent(SIZED)) as peer:
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
def test_a_path_is_asked_for_as_the_sdk_does(path):
    with RawPeer(Sent(SIZED)) as peer:
        for by_sdk in (False, True):
            call(client_of(peer.url + path, by_sdk))
    ours, sdks = (request.partition(b"\r\n")[0] for request in peer.requests)
    assert ours == sdks


def test_a_request_goes_out_in_one_piece(monkeypatch):
    pieces = []
    sendall = socket.socket.sendall

    def note(self, data):
        pieces.append(data)
        sendall(self, data)

    with RawPeer(Sent(SIZED)) as peer:
        client = client_of(peer.url)
        call(client)
        monkeypatch.setattr(socket.socket, "sendall", note)
        call(client)
    assert [piece for piece in pieces if piece.startswith(b"POST")] == [peer.requests[1]]


@pytest.mark.parametrize("sent", [SIZED, CHUNKED, SIZED.replace(b"200", b"503")])
def test_calls_share_a_connection_that_is_kept(sent):
    with RawPeer(Sent(sent)) as peer:
        client = client_of(peer.url)
        for _ in range(3):
            with suppress(CallFailed):
                call(client)
        assert (len(peer.requests), peer.connections) == (3, 1)


@pytest.mark.parametrize(
    "sent",
    [
        Sent(SIZED.replace(b"Date", b"Connection: close\r\nDate"), Then.END),
        Sent(HEAD + b"\r\n" + PAGE, Then.END),
        Sent(SIZED, Then.END),
        Sent(SIZED, Then.RESET),
    ],
)
def test_a_connection_that_has_ended_is_opened_anew(sent):
    with RawPeer(sent) as peer:
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
        Sent(b"", Then.END),
        Sent(b"", Then.RESET),
        Sent(b"", Then.HOLD),
        Sent(LONG, Then.HOLD),
        Sent(SIZED + b"!"),
        Sent(b"<html>\r\n\r\n"),
    ],
)
def test_a_connection_is_not_used_again_after_a_call_that_failed(sent):
    with RawPeer(sent, Sent(SIZED)) as peer:
        client = client_of(peer.url, read_timeout=2)
        code_of(client)
        call(client)
        assert peer.connections == 2


def test_an_answer_may_take_longer_than_a_connection():
    with RawPeer(Sent(SIZED, after=0.5)) as peer:
        call(client_of(peer.url, connect_timeout=0.2))


def test_a_connection_that_the_sdk_used_is_opened_anew_within_the_time_for_that(monkeypatch):
    given = []
    create_connection = urllib3.util.connection.create_connection

    def note(address, timeout, **options):
        given.append(timeout)
        return create_connection(address, timeout, **options)

    monkeypatch.setattr(urllib3.util.connection, "create_connection", note)
    with RawPeer(Sent(SIZED.replace(b"Date", b"Connection: close\r\nDate"), Then.END)) as peer:
        client = client_of(peer.url, connect_timeout=3, read_timeout=7)
        client._client.get_records(ShardIterator="i")
        call(client)
    assert given == [3, 3]


def test_the_sdk_uses_the_same_connections():
    with RawPeer(Sent(SIZED)) as peer:
        client = client_of(peer.url)
        call(client)
        client._client.get_records(ShardIterator="i")
        call(client)
        assert (len(peer.requests), peer.connections) == (3, 1)


def test_the_sdk_waits_for_the_answer_on_a_connection_of_a_direct_call():
    with RawPeer(Sent(SIZED), Sent(SIZED, after=0.2)) as peer:
        client = client_of(peer.url, read_timeout=7)
        call(client)
        connection = client._get_records._endpoint._pool.pool.queue[-1]
        assert connection.sock.gettimeout() == 7
        client._client.get_records(ShardIterator="i")
        assert (len(peer.requests), peer.connections) == (2, 1)


def test_a_call_that_is_given_up_does_not_leave_its_connection_to_others():
    with RawPeer(Sent(SIZED, after=0.2), Sent(SIZED)) as peer:
        client = client_of(peer.url)
        getting = client.getting_records("i", 10)
        next(getting).block()  # it is connected
        next(getting)
        assert peer.asked.wait(5)
        getting.close()
        call(client)
        assert (len(peer.requests), peer.connections) == (2, 2)


# What goes wrong, by its name


@directly_and_by_the_sdk
def test_an_endpoint_that_nobody_serves_is_named_so(by_sdk):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert code_of(client_of(f"http://127.0.0.1:{port}", by_sdk)) == "EndpointConnectionError"


@directly_and_by_the_sdk
def test_a_host_that_is_unknown_is_named_so(by_sdk, monkeypatch):
    getaddrinfo = socket.getaddrinfo

    def unknown(host, *arguments, **named):
        if host == "kinesis.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return getaddrinfo(host, *arguments, **named)  # for other threads

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert code_of(client_of("http://kinesis.invalid", by_sdk)) == "EndpointConnectionError"


@directly_and_by_the_sdk
def test_an_endpoint_that_takes_no_connection_in_time_is_named_so(by_sdk):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        client = client_of(f"http://127.0.0.1:{address[1]}", by_sdk, **IMPATIENT)
        assert code_of(client) == "ConnectTimeoutError"
        for each in waiting:
            each.close()


@directly_and_by_the_sdk
@pytest.mark.parametrize("data", [b"", HEAD])
def test_an_answer_that_does_not_come_in_time_is_named_so(by_sdk, data):
    with RawPeer(Sent(data, Then.HOLD)) as peer:
        assert code_of(client_of(peer.url, by_sdk, **IMPATIENT)) == "ReadTimeoutError"


def test_a_body_that_does_not_come_in_time_is_named_so():
    with RawPeer(Sent(LONG, Then.HOLD)) as peer:
        assert code_of(client_of(peer.url, **IMPATIENT)) == "ReadTimeoutError"


@directly_and_by_the_sdk
@pytest.mark.parametrize("then", [Then.END, Then.RESET])
def test_a_connection_that_ends_before_the_answer_is_named_so(by_sdk, then):
    with RawPeer(Sent(b"", then)) as peer:
        assert code_of(client_of(peer.url, by_sdk)) == "ConnectionClosedError"


def test_a_connection_that_is_reset_within_the_body_is_named_so():
    with RawPeer(Sent(LONG, Then.RESET)) as peer:
        assert code_of(client_of(peer.url)) == "ConnectionClosedError"


def test_what_is_no_http_is_told_as_it_is():
    with RawPeer(Sent(b"220 mail ready\r\n\r\n")) as peer, pytest.raises(CallFailed) as raised:
        call(client_of(peer.url))
    assert raised.value.code == "HTTPClientError"
    assert "the response is not HTTP/1.1" in str(raised.value)


def test_an_answer_that_stops_is_not_kept_by_its_error():
    with RawPeer(Sent(LONG + bytes(500_000), Then.HOLD)) as peer, pytest.raises(CallFailed) as raised:
        call(client_of(peer.url, **IMPATIENT))
    kept, error = [], raised.value
    while error is not None:
        kept += [value for frame, _ in walk_tb(error.__traceback__) for value in frame.f_locals.values()]
        error = error.__context__
    assert kept
    assert max(len(each) for each in kept if isinstance(each, (bytes, bytearray, memoryview, str))) < 100_000


def test_credentials_with_a_line_break_are_neither_sent_nor_told(monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hidden\r\nX-Evil: 1")
    with RawPeer(Sent(SIZED)) as peer, pytest.raises(CallFailed, match="X-Amz-Security-Token") as raised:
        call(client_of(peer.url))
    assert not peer.requests
    assert "hidden" not in str(raised.value)
    assert raised.value.code == "ParamValidationError"  # which no reading tries again


# TLS


@pytest.fixture(scope="module")
def authority():
    """Who certifies a server on loopback."""
    return trustme.CA()


@pytest.fixture
def tls(authority):
    """What such a server speaks TLS with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority, monkeypatch, tmp_path):
    """The SDK is told to trust that authority."""
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "authority.pem"))


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("sent", [SIZED, CHUNKED])
def test_calls_by_tls_share_a_connection(tls, sent):
    with RawPeer(Sent(sent), tls=tls) as peer:
        client = client_of(peer.url)
        for _ in range(3):
            call(client)
        assert (len(peer.requests), peer.connections) == (3, 1)


@pytest.mark.usefixtures("trusted")
def test_a_long_body_comes_by_tls_as_it_is(tls):
    page = PAGE + b" " * 1_000_000
    sent = HEAD + f"Content-Length: {len(page)}\r\n\r\n".encode() + page
    with RawPeer(Sent(sent), tls=tls) as peer:
        call(client_of(peer.url))


@pytest.mark.usefixtures("trusted")
def test_a_second_answer_by_tls_is_not_given_to_the_next_call(tls):
    head, _, body = SIZED.partition(b"\r\n\r\n")
    twice = Sent(head + b"\r\n\r\n", more=body + SIZED.replace(b'"i"', b'"x"'))
    with RawPeer(twice, Sent(SIZED), tls=tls) as peer:
        client = client_of(peer.url)
        assert code_of(client) == "HTTPClientError"
        call(client)


@directly_and_by_the_sdk
def test_a_certificate_that_nobody_vouches_for_is_named_so_and_nothing_is_sent(tls, by_sdk):
    with RawPeer(Sent(SIZED), tls=tls) as peer:
        assert code_of(client_of(peer.url, by_sdk)) == "SSLError"
        assert not peer.requests


@directly_and_by_the_sdk
@pytest.mark.usefixtures("trusted")
def test_a_certificate_of_another_host_is_named_so_and_nothing_is_sent(authority, by_sdk):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.2").configure_cert(context)
    with RawPeer(Sent(SIZED), tls=context) as peer:
        assert code_of(client_of(peer.url, by_sdk)) == "SSLError"
        assert not peer.requests


def test_a_peer_that_ends_within_the_handshake_is_a_connection_that_was_closed():
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
    """A proxy on loopback that connects to one peer, whatever is asked for, and notes what is asked."""

    def __init__(self, peer, tls=None):
        self.asked = []
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
            with suppress(OSError):  # it has ended by itself
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._listening, *self._open):
            end.close()

    def _serve(self):
        with suppress(OSError):  # the end of listening
            while True:
                near, _ = self._listening.accept()
                if self._tls:
                    near = self._tls.wrap_socket(near, server_side=True)
                self._open.append(near)
                self.asked.append(read_request(near))
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


def test_a_proxy_of_plain_http_is_asked_for_the_whole_url(monkeypatch):
    with RawPeer(Sent(SIZED)) as peer:
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
def test_a_proxy_by_tls_is_asked_for_the_whole_url_of_plain_http(monkeypatch, tls):
    with RawPeer(Sent(SIZED), tls=tls) as peer:
        monkeypatch.setenv("HTTP_PROXY", peer.url)
        call(client_of("http://kinesis.example/a#b"))
    assert peer.requests[0].startswith(b"POST http://kinesis.example/a HTTP/1.1\r\n")


@pytest.mark.usefixtures("trusted")
def test_a_proxy_tunnels_tls_and_its_password_stays_with_it(authority, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("kinesis.example").configure_cert(context)
    with RawPeer(Sent(SIZED), tls=context) as peer, Tunnel(peer) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{tunnel.address}")
        client = client_of("https://kinesis.example")
        call(client)
        call(client)
        assert (len(peer.requests), len(tunnel.asked)) == (2, 1)
    assert tunnel.asked[0].startswith(b"CONNECT kinesis.example:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic" in tunnel.asked[0]
    for request in peer.requests:
        assert request.startswith(b"POST / HTTP/1.1\r\n")
        assert b"roxy" not in request


@pytest.mark.usefixtures("trusted")
@directly_and_by_the_sdk
def test_a_proxy_by_tls_tunnels_tls(authority, monkeypatch, tls, by_sdk):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("kinesis.example").configure_cert(context)
    with RawPeer(Sent(SIZED), tls=context) as peer, Tunnel(peer, tls) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", f"https://{tunnel.address}")
        client = client_of("https://kinesis.example", by_sdk)
        call(client)
        call(client)
        assert (len(peer.requests), len(tunnel.asked)) == (2, 1)


@directly_and_by_the_sdk
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_nobody_serves_is_named_so_without_its_password(monkeypatch, by_sdk, scheme):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv(f"{scheme}_proxy", f"http://user:secret@127.0.0.1:{port}")
    with pytest.raises(CallFailed) as raised:
        call(client_of(f"{scheme}://kinesis.example", by_sdk))
    assert raised.value.code == "ProxyConnectionError"
    assert "secret" not in f"{raised.value}{raised.value.__cause__}"


def test_a_proxy_that_connects_slowly_holds_no_other_work_back(monkeypatch):
    codes = []

    def calls(client):
        try:
            yield from client.getting_records("i", 10)
        except CallFailed as error:
            codes.append(error.code)

    def others():
        assert (yield from to_thread(lambda: proxy.asked.wait(5)))
        assert not codes
        proxy.end()

    with RawPeer(Sent(b"", Then.HOLD)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        EventLoop(2).run([calls(client_of("https://kinesis.example")), others()])
    assert codes == ["ConnectionClosedError"]


@directly_and_by_the_sdk
def test_a_proxy_that_refuses_is_named_so(monkeypatch, by_sdk):
    with RawPeer(Sent(b"HTTP/1.1 407 No\r\n\r\n", Then.END)) as peer:
        monkeypatch.setenv("https_proxy", f"http://{peer.address}")
        assert code_of(client_of("https://kinesis.example", by_sdk)) == "ProxyConnectionError"


def test_an_endpoint_that_needs_no_proxy_is_called_itself(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with RawPeer(Sent(SIZED)) as peer:
        call(client_of(peer.url))


@pytest.mark.parametrize("proxy", ["http://user:secret@proxy:port", "http://:80"])
def test_a_proxy_that_cannot_be_meant_is_invalid_input_without_its_password(monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(InvalidInput) as raised:
        client_of("http://kinesis.example")
    assert "the environment's proxy" in str(raised.value)
    assert "secret" not in str(raised.value)
