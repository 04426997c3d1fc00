"""What is taken for an answer, however it comes; and what is not."""

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

from kinesis_assets.kinesis.transport import http_response
from kinesis_assets.kinesis.transport.awaitables import Pause, run_until_complete
from kinesis_assets.kinesis.transport.http_response import receive
from support.virtual_time import VirtualTime

LARGEST = 1 << 20
OK = b"HTTP/1.1 200 OK\r\n"
SIZED = OK + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"
ENDED = OK + b"\r\nhello"


def answer_in(sent, told=lambda _: None):
    """What is received where that is sent, and then nothing more; what a body has at most is told before."""

    def before_body(length):
        told(length)
        yield Pause(0)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)

        def send():
            with suppress(BrokenPipeError):  # it was not read to its end
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
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(sent, piece, monkeypatch):
    monkeypatch.setattr(http_response, "_RECEIVE_BYTES", piece)
    answer = answer_in(sent)
    assert (answer.status, bytes(answer.body)) == (200, b"hello")


@settings(max_examples=50)
@given(body=st.binary(max_size=200_000))
def test_a_body_is_received_as_it_is(body):
    answer = answer_in(OK + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert answer.body == body


def test_headers_are_found_by_their_names_in_lower_case():
    answer = answer_in(OK + b"DATE: yesterday\r\nx-Other:  y \r\nContent-Length: 0\r\n\r\n")
    assert answer.headers == {"date": "yesterday", "x-other": "y", "content-length": "0"}


@pytest.mark.parametrize("status", [200, 204, 300, 400, 503])
def test_a_status_is_the_answers_own(status):
    assert answer_in(f"HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n".encode()).status == status


@pytest.mark.parametrize("sent", [SIZED, CHUNKED, OK + b"Content-Length: 0\r\n\r\n"])
@pytest.mark.parametrize(
    "before", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 x\r\nLink: x\r\n\r\n"]
)
def test_a_connection_is_kept_after_a_whole_answer_also_if_others_announce_it(sent, before):
    answer = answer_in(before + before + sent)
    assert answer.status == 200
    assert "link" not in answer.headers
    assert answer.keep_alive


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
def test_a_connection_that_ends_or_will_end_is_not_kept(sent):
    assert not answer_in(sent).keep_alive


@pytest.mark.parametrize("sent", [SIZED[:-2], CHUNKED[:-9], ENDED[:-2]])
def test_a_body_that_is_cut_is_what_came(sent):
    assert answer_in(sent).body == b"hel"


def test_trailers_are_no_headers():
    answer = answer_in(CHUNKED[:-2] + b"Date: later\r\nConnection: close\r\n\r\n")
    assert answer.headers == {"transfer-encoding": "chunked"}
    assert answer.keep_alive


def test_trailers_without_end_are_refused():
    with pytest.raises(ProtocolError, match="more than 1048576"):
        answer_in(CHUNKED[:-2] + b"x: y\r\n" * LARGEST)


def test_what_was_parsed_is_not_kept_by_the_error_of_what_follows():
    kept = None
    try:
        answer_in(CHUNKED[:-5].replace(b"llo", b"re!") + b"wrong\r\n")
    except ProtocolError as error:
        kept = error.with_traceback(None)  # as callers have it
    assert kept
    found = [each for each in gc.get_objects() if isinstance(each, http_response._ResponseParts)]
    assert not [each for each in found if each.body == b"here!"]


def test_what_a_body_has_at_most_is_told_before_it_is_received():
    told = []
    for sent in (SIZED, CHUNKED, ENDED):
        answer_in(sent, told.append)
    answer_in(b"HTTP/1.1 204 None\r\n\r\n", told.append)
    assert told == [5, LARGEST, LARGEST, 0]


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nDate: x\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_an_end_in_the_head_is_an_error_of_the_connection(sent):
    with pytest.raises(ConnectionResetError):
        answer_in(sent)


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
def test_what_is_no_answer_or_more_than_one_is_refused(sent):
    with pytest.raises(ProtocolError):
        answer_in(sent)


def test_a_head_without_end_is_refused():
    with pytest.raises(ProtocolError, match="head of more than"):
        answer_in(OK + b"x: y\r\n" * 100_000)


def test_a_body_longer_than_allowed_is_refused_before_it_is_received():
    told = []
    with pytest.raises(ProtocolError, match="more than 1048576"):
        answer_in(OK + f"Content-Length: {LARGEST + 1}\r\n\r\n".encode(), told.append)
    assert not told


def test_a_body_of_unknown_length_is_refused_when_it_is_longer_than_allowed():
    chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    with pytest.raises(ProtocolError, match="more than 1048576"):
        answer_in(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (LARGEST // (1 << 16) + 1))


def test_an_answer_that_stops_coming_is_waited_for_no_longer_than_the_limit():
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
def test_an_answer_that_goes_on_and_on_is_given_up(before, piece):
    clock = VirtualTime()
    began = clock.now

    def go_on(work):
        for _ in work:
            clock.now += 6
            theirs.sendall(piece)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(before)
        with pytest.raises(TimeoutError, match="300 s"):
            go_on(islice(receive(ours, 7, LARGEST, lambda _: iter(()), clock), 200))
    assert clock.now - began <= 300 + 2 * 6


def test_the_time_for_a_body_begins_when_there_is_room_for_it():
    clock = VirtualTime()

    def limiter(_):
        clock.now += 1000
        yield Pause(0)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(SIZED[:-2])
        work = receive(ours, 7, LARGEST, limiter, clock)
        assert isinstance([next(work) for _ in range(3)][1], Pause)
        theirs.sendall(SIZED[-2:])
        with pytest.raises(StopIteration) as end:
            next(work)
    assert bytes(end.value.value.body) == b"hello"


def test_the_limit_is_for_each_piece_and_not_for_the_answer():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        work = receive(ours, 7, LARGEST, lambda _: iter(()))
        limits = []
        for piece in (OK, b"Content-Length: 5\r\n", b"\r\n", b"he", b"llo"):
            limits.append(next(work).seconds)
            theirs.sendall(piece)
        with pytest.raises(StopIteration) as end:
            next(work)
        answer = end.value.value
    assert limits == [7] * 5
    assert answer.body == b"hello"


@pytest.mark.parametrize("sent", [SIZED[:-5], CHUNKED[: -len("2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n")]])
def test_nothing_of_a_body_is_received_before_what_is_done_before_it(sent):
    ours, theirs = socket.socketpair()
    pause = Pause(0)
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(sent)
        work = receive(ours, 5, LARGEST, lambda _: iter([pause]))
        while (wait := next(work)) is not pause:
            wait.block()
        theirs.sendall(b"later")
        assert ours.recv(100) == b"later"
        work.close()
