"""The server: address, clock, middleware, start and stop."""

import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from http.client import HTTPConnection

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.emulator import LocalKinesis

SERVE = """
import signal
from kinesis_assets.emulator import serve
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests run in the background
signal.signal(signal.SIGTERM, signal.SIG_DFL)
serve(0, lambda url: print(url, flush=True))
"""


def test_a_server_accepts_requests_as_soon_as_it_is_entered(connect):
    with LocalKinesis() as local:
        assert connect(local).list_streams()["StreamNames"] == []


def test_a_server_can_listen_on_a_given_port(connect):
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    with LocalKinesis(port) as local:
        assert local.endpoint_url == f"http://127.0.0.1:{port}"
        connect(local).list_streams()


def test_a_port_in_use_is_an_immediate_error():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken, pytest.raises(OSError, match="in use"):
        LocalKinesis(taken.getsockname()[1]).__enter__()


def test_a_stopped_server_refuses_connections(connect):
    with LocalKinesis() as local:
        connect(local).list_streams()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", local.port))


def test_a_server_that_is_entered_again_has_its_streams_at_the_same_endpoint(connect):
    with LocalKinesis() as local:
        connect(local).create_stream(StreamName="stream", ShardCount=1)
        endpoint = local.endpoint_url
    with local:
        assert local.endpoint_url == endpoint
        assert connect(local).list_streams()["StreamNames"] == ["stream"]


def test_only_the_loopback_address_is_bound(local):
    bound = local._server.servers[0].sockets[0].getsockname()
    assert bound == ("127.0.0.1", local.port)


def test_servers_do_not_share_streams(connect):
    with LocalKinesis() as one, LocalKinesis() as other:
        connect(one).create_stream(StreamName="mine", ShardCount=1)
        assert connect(other).list_streams()["StreamNames"] == []


def test_the_default_clock_is_that_of_the_machine(connect):
    with LocalKinesis() as local:
        client = connect(local)
        before = int(time.time())  # more than the resolution of the service's time
        client.create_stream(StreamName="stream", ShardCount=1)
        after = time.time()
        created = client.describe_stream(StreamName="stream")["StreamDescription"]["StreamCreationTimestamp"]
    assert before <= created.timestamp() <= after


def test_the_application_can_be_wrapped_in_middleware(connect):
    seen = []

    def wrap(app):
        async def middleware(scope, receive, send):
            seen.append(dict(scope["headers"])[b"x-amz-target"])
            await app(scope, receive, send)

        return middleware

    with LocalKinesis(wrap=wrap) as local:
        connect(local).list_streams()
    assert seen == [b"Kinesis_20131202.ListStreams"]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_serve_runs_until_it_receives_a_signal(stop):
    command = [sys.executable, "-W", "error", "-c", SERVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            connection = HTTPConnection(url.removeprefix("http://"))
            connection.request("POST", "/")
            assert connection.getresponse().read()
            connection.close()
            process.send_signal(stop)
            assert process.wait(timeout=SECONDS) == -stop
        finally:
            process.kill()
