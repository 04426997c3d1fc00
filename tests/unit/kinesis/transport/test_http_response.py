"""Parsing HTTP responses: bodies, connections, timeouts, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3.exceptions import ProtocolError

from kinesis_assets.kinesis.transport import http
from kinesis_assets.kinesis.transport.concurrency import run
from kinesis_assets.kinesis.transport.http import receive
from support.virtual_time import VirtualTime

LARGEST = 1 << 20
OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"
ENDED = OK + b"\r\nhello"


class Pieces(socket.socket):
    """A connection that receives at most some bytes at once."""

    def __init__(self, connected, most):
        super().__init__(fileno=connected.detach())
        self._most = most

    def recv(self, size):
        return super().recv(min(size, self._most))


async def no_memory(_):
    """Reserve no memory."""


def receive_from(sent, report=lambda _: None, piece=1 << 20):
    """Receive what is sent before the connection ends; report the maximum length of a body before it."""

    async def before_body(length):
        report(length)

    connected, theirs = socket.socketpair()
    with Pieces(connected, piece) as ours, theirs:
        ours.setblocking(False)

        def send():
            with suppress(BrokenPipeError):  # the receiver may close early
                theirs.sendall(sent)
            theirs.shutdown(socket.SHUT_WR)

        sending = threading.Thread(target=send)
        sending.start()
        try:
            return run(receive(ours, lambda: 5, LARGEST, before_body))
        finally:
            ours.shutdown(socket.SHUT_RD)
            sending.join()


@pytest.mark.parametrize("sent", [SIZED, CHUNKED, ENDED])
@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 16])
def test_a_response_is_parsed_the_same_in_pieces_of_any_size(sent, piece):
    response = receive_from(sent, piece=piece)
    assert (response.status, bytes(response.body)) == (200, b"hello")


@settings(max_examples=50)
@given(body=st.binary(max_size=200_000))
def test_a_body_is_received_unchanged(body):
    response = receive_from(OK + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert response.body == body


def test_header_names_are_lower_case():
    response = receive_from(OK + b"DATE: yesterday\r\nx-Other:  y \r\nContent-Length: 0\r\n\r\n")
    assert response.headers == {"date": "yesterday", "x-other": "y", "content-length": "0"}


@pytest.mark.parametrize("status", [200, 204, 300, 400, 503])
def test_the_status_is_parsed(status):
    assert receive_from(f"HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n".encode()).status == status


@pytest.mark.parametrize("sent", [SIZED, CHUNKED, OK + b"Content-Length: 0\r\n\r\n"])
@pytest.mark.parametrize(
    "before", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 x\r\nLink: x\r\n\r\n"]
)
def test_a_connection_is_kept_alive_after_a_complete_response_even_with_interim_responses(sent, before):
    response = receive_from(before + before + sent)
    assert response.status == 200
    assert "link" not in response.headers
    assert response.keep_alive


@pytest.mark.parametrize(
    "sent",
    [
        ENDED,
        SIZED[:-1],
        CHUNKED[:-2],
        SIZED.replace(b"OK\r\n", b"OK\r\nConnection: Close\r\n"),
        CHUNKED.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"),
        SIZED.replace(b"OK\r\n", b"OK\r\nConnection: close\r\nConnection: keep-alive\r\n"),
        SIZED.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_a_connection_that_is_or_will_be_closed_is_not_kept_alive(sent):
    assert not receive_from(sent).keep_alive


@pytest.mark.parametrize("sent", [SIZED[:-2], CHUNKED[:-9], ENDED[:-2]])
def test_a_truncated_body_has_the_bytes_received(sent):
    assert receive_from(sent).body == b"hel"


def test_trailers_are_not_headers():
    response = receive_from(CHUNKED[:-2] + b"Date: later\r\nConnection: close\r\n\r\n")
    assert response.headers == {"transfer-encoding": "chunked"}
    assert response.keep_alive


def test_endless_trailers_are_refused():
    with pytest.raises(ProtocolError, match="more than 1048576"):
        receive_from(CHUNKED[:-2] + b"x: y\r\n" * LARGEST)


@pytest.mark.slow
def test_a_parse_error_does_not_keep_the_parsed_body():
    kept = None
    try:
        receive_from(CHUNKED[:-5].replace(b"llo", b"re!") + b"wrong\r\n")
    except ProtocolError as error:
        kept = error.with_traceback(None)  # as callers see it
    assert kept
    found = [each for each in gc.get_objects() if isinstance(each, http._ResponseParts)]
    assert not [each for each in found if each.body == b"here!"]


def test_the_maximum_length_of_a_body_is_reported_before_it_is_received():
    lengths = []
    for sent in (SIZED, CHUNKED, ENDED):
        receive_from(sent, lengths.append)
    receive_from(b"HTTP/1.1 204 None\r\n\r\n", lengths.append)
    assert lengths == [5, LARGEST, LARGEST, 0]


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nDate: x\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_connection_closed_within_the_head_is_a_connection_error(sent):
    with pytest.raises(ConnectionResetError):
        receive_from(sent)


@pytest.mark.parametrize(
    "sent",
    [
        b"<html>\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\nhello",
        b"HTTP/1.1 101 Other\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        SIZED + b"!",
        SIZED + SIZED,
        CHUNKED + SIZED,
        OK + b"Content-Length: 0\r\n\r\n" + SIZED,
    ],
)
def test_an_invalid_or_second_response_is_refused(sent):
    with pytest.raises(ProtocolError):
        receive_from(sent)


def test_an_endless_head_is_refused():
    with pytest.raises(ProtocolError, match="head"):
        receive_from(OK + b"x: y\r\n" * 100_000)


def test_a_body_longer_than_allowed_is_refused_before_it_is_received():
    lengths = []
    with pytest.raises(ProtocolError, match="more than 1048576"):
        receive_from(OK + f"Content-Length: {LARGEST + 1}\r\n\r\n".encode(), lengths.append)
    assert not lengths


def test_a_body_of_unknown_length_is_refused_when_it_is_longer_than_allowed():
    chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    with pytest.raises(ProtocolError, match="more than 1048576"):
        receive_from(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (LARGEST // (1 << 16) + 1))


@pytest.mark.slow
def test_a_partial_response_times_out():
    for sent in (b"", OK, SIZED[:-1], CHUNKED[:-1]):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.sendall(sent)
            with pytest.raises(TimeoutError):
                run(receive(ours, lambda: 0.05, LARGEST, no_memory))


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (OK, b"x: y\r\n"),
        (OK + b"Content-Length: 500\r\n\r\n", b"x"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
)
def test_an_endless_response_times_out(before, piece):
    clock = VirtualTime()
    began = clock.now

    def seconds():
        clock.now += 6
        theirs.sendall(piece)
        return 7

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(before)
        with pytest.raises(TimeoutError, match="300 s"):
            run(receive(ours, seconds, LARGEST, no_memory, clock))
    assert clock.now - began <= 300 + 2 * 6


def test_the_time_limit_of_a_body_starts_once_its_memory_is_reserved():
    clock = VirtualTime()

    async def reserve(_):
        clock.now += 1000
        asyncio.get_running_loop().call_soon(theirs.sendall, SIZED[-2:])

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(SIZED[:-2])
        response = run(receive(ours, lambda: 7, LARGEST, reserve, clock))
    assert bytes(response.body) == b"hello"


@pytest.mark.slow
def test_the_read_timeout_applies_to_each_piece_and_not_to_the_response():
    pieces = [OK, b"Content-Length: 5\r\n", b"\r\n", b"he", b"llo"]

    def seconds():
        """Let a piece arrive after half the timeout."""
        asyncio.get_running_loop().call_later(0.5, theirs.sendall, pieces.pop(0))
        return 1.0

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        response = run(receive(ours, seconds, LARGEST, no_memory))
    assert response.body == b"hello"
    assert not pieces


@pytest.mark.parametrize("sent", [SIZED[:-5], CHUNKED[: -len("2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n")]])
def test_no_part_of_a_body_is_received_before_its_memory_is_reserved(sent):
    class Stopped(Exception):
        """The rest is of no interest."""

    async def before_body(_):
        theirs.sendall(b"later")
        assert ours.recv(100) == b"later"
        raise Stopped

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(sent)
        with pytest.raises(Stopped):
            run(receive(ours, lambda: 5, LARGEST, before_body))


# Waits for the socket


@pytest.mark.parametrize("left", [0.0, -1.0])
def test_nothing_is_awaited_after_the_time_is_over(left):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(SIZED)
        with pytest.raises(TimeoutError, match="deadline"):
            run(receive(ours, lambda: left, LARGEST, no_memory))


def test_bytes_that_arrive_during_a_long_step_of_another_task_are_in_time():
    left = 0.05

    async def long_step():  # starts in the iteration of the loop in which the other task begins to wait
        over = time.monotonic() + 2 * left
        while time.monotonic() < over:
            pass
        theirs.sendall(SIZED)

    async def both():
        received, _ = await asyncio.gather(receive(ours, lambda: left, LARGEST, no_memory), long_step())
        return received

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        assert run(both()).body == b"hello"


@pytest.mark.parametrize("error", [BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError])
def test_a_receive_call_that_would_block_is_repeated_once_the_socket_is_ready(error):
    errors = [error, error]

    class Blocking(Pieces):
        def recv(self, size):
            if errors:
                raise errors.pop()
            return super().recv(size)

    connected, theirs = socket.socketpair()
    with Blocking(connected, 100) as ours, theirs:
        ours.setblocking(False)
        theirs.sendall(SIZED)
        assert run(receive(ours, lambda: 5, LARGEST, no_memory)).body == b"hello"
        assert not errors


def test_a_timeout_has_no_context_of_earlier_attempts():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(OK)
        with pytest.raises(TimeoutError) as raised:
            run(receive(ours, lambda: 0.05, LARGEST, no_memory))
    assert raised.value.__context__ is None
