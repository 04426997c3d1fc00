"""Parsing HTTP responses: bodies, connections, timeouts, and what is refused."""

from __future__ import annotations

import gc
import socket
import threading
from contextlib import suppress
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3.exceptions import ProtocolError

from kinesis_assets.kinesis.transport import http
from kinesis_assets.kinesis.transport.event_loop import Pause, run_until_complete
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


def receive_from(sent, report=lambda _: None, piece=1 << 20):
    """Receive what is sent before the connection ends; report the maximum length of a body before it."""

    def before_body(length):
        report(length)
        yield Pause(0)

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
            return run_until_complete(receive(ours, 5, LARGEST, before_body))
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
                run_until_complete(receive(ours, 0.05, LARGEST, lambda _: iter(())))


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

    def keep_sending(generator):
        for _ in generator:
            clock.now += 6
            theirs.sendall(piece)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(before)
        with pytest.raises(TimeoutError, match="300 s"):
            keep_sending(islice(receive(ours, 7, LARGEST, lambda _: iter(()), clock), 200))
    assert clock.now - began <= 300 + 2 * 6


def test_the_time_limit_of_a_body_starts_once_its_memory_is_reserved():
    clock = VirtualTime()

    def reserve(_):
        clock.now += 1000
        yield Pause(0)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(SIZED[:-2])
        generator = receive(ours, 7, LARGEST, reserve, clock)
        assert isinstance([next(generator) for _ in range(3)][1], Pause)
        theirs.sendall(SIZED[-2:])
        with pytest.raises(StopIteration) as end:
            next(generator)
    assert bytes(end.value.value.body) == b"hello"


def test_the_read_timeout_applies_to_each_piece_and_not_to_the_response():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        generator = receive(ours, 7, LARGEST, lambda _: iter(()))
        limits = []
        for piece in (OK, b"Content-Length: 5\r\n", b"\r\n", b"he", b"llo"):
            limits.append(next(generator).seconds)
            theirs.sendall(piece)
        with pytest.raises(StopIteration) as end:
            next(generator)
        response = end.value.value
    assert limits == [7] * 5
    assert response.body == b"hello"


@pytest.mark.parametrize("sent", [SIZED[:-5], CHUNKED[: -len("2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n")]])
def test_no_part_of_a_body_is_received_before_its_memory_is_reserved(sent):
    ours, theirs = socket.socketpair()
    pause = Pause(0)
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(sent)
        generator = receive(ours, 5, LARGEST, lambda _: iter([pause]))
        while (wait := next(generator)) is not pause:
            wait.block()
        theirs.sendall(b"later")
        assert ours.recv(100) == b"later"
        generator.close()
