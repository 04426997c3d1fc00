"""What work waits for, waited out."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress

import pytest

from kinesis_assets.kinesis.transport.awaitables import (
    MemoryWait,
    Pause,
    SocketWait,
    ThreadWait,
    call_when_ready,
    run_until_complete,
    to_thread,
    wait_for_socket,
    with_socket_timeout,
)


@pytest.fixture
def ends():
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        yield near, far


def waits_of(wait):
    yield wait
    return "over"


def fill(end):
    with suppress(BlockingIOError):
        while True:
            end.send(bytes(1 << 16))


# Waiting all out


def test_work_gives_its_result_after_all_its_waits():
    began = time.monotonic()

    def work():
        yield Pause(0.05)
        return (yield from waits_of(Pause(0.05)))

    assert run_until_complete(work()) == "over"
    assert time.monotonic() - began >= 0.1


def test_what_work_raises_is_raised():
    def work():
        yield Pause(0)
        raise KeyError("k")

    with pytest.raises(KeyError):
        run_until_complete(work())


@pytest.mark.parametrize("to_send", [False, True])
def test_a_socket_that_is_ready_is_not_timed_out(ends, to_send):
    near, far = ends
    far.send(b"x")
    wait = SocketWait(near, to_send, seconds=5)
    assert run_until_complete(waits_of(wait)) == "over"
    assert not wait.timed_out


@pytest.mark.parametrize("to_send", [False, True])
def test_a_socket_that_is_not_ready_in_time_is_timed_out(ends, to_send):
    near, far = ends
    if to_send:
        fill(near)
        far.send(b"x")
    wait = SocketWait(near, to_send, seconds=0.05)
    began = time.monotonic()
    run_until_complete(waits_of(wait))
    assert wait.timed_out
    assert time.monotonic() - began >= 0.05


def test_what_a_thread_was_for_is_done_and_tells_its_result_or_error():
    wait = ThreadWait(threading.get_ident)
    run_until_complete(waits_of(wait))
    assert wait.result() == threading.get_ident()
    wrong = ThreadWait(lambda: {}["k"])
    run_until_complete(waits_of(wrong))
    with pytest.raises(KeyError):
        wrong.result()


def test_room_that_nobody_will_make_is_an_error_and_not_waited_for():
    with pytest.raises(RuntimeError, match="no memory is available"):
        run_until_complete(waits_of(MemoryWait(lambda: False)))


# By a thread


def test_what_blocks_is_one_wait_and_done_in_it():
    done = []

    def blocks():
        done.append(1)
        return "given"

    work = to_thread(blocks)
    wait = next(work)
    assert isinstance(wait, ThreadWait)
    assert not done
    wait.block()
    with pytest.raises(StopIteration) as end:
        next(work)
    assert (end.value.value, done) == ("given", [1])


def test_what_is_raised_by_a_thread_is_raised_by_the_work():
    with pytest.raises(KeyError):
        run_until_complete(to_thread(lambda: {}["k"]))


# A socket, when it can


def test_what_can_be_done_at_once_waits_for_nothing(ends):
    with pytest.raises(StopIteration) as end:
        next(call_when_ready(lambda: "done", ends[0], 5))
    assert end.value.value == "done"


@pytest.mark.parametrize(
    ("error", "to_send"),
    [(BlockingIOError, False), (ssl.SSLWantReadError, False), (ssl.SSLWantWriteError, True)],
)
def test_it_waits_for_what_it_is_told_and_tries_again(ends, error, to_send):
    tries = [error(), error(), None]

    def do():
        wrong = tries.pop(0)
        if wrong:
            raise wrong
        return "done"

    work = call_when_ready(do, ends[0], 7)
    waits = [next(work), next(work)]
    assert [(wait.socket, wait.to_send, wait.seconds) for wait in waits] == [(ends[0], to_send, 7)] * 2
    with pytest.raises(StopIteration) as end:
        next(work)
    assert (end.value.value, tries) == ("done", [])


def test_what_comes_later_is_received(ends):
    near, far = ends
    work = call_when_ready(lambda: near.recv(5), near, 5)
    wait = next(work)
    far.send(b"later")
    wait.block()
    with pytest.raises(StopIteration) as end:
        next(work)
    assert end.value.value == b"later"


@pytest.mark.parametrize("error", [BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError])
def test_what_cannot_be_done_in_time_is_a_time_out_that_keeps_nothing_of_the_tries(ends, error):
    def do():
        raise error

    fill(ends[0])
    with pytest.raises(TimeoutError) as raised:
        run_until_complete(call_when_ready(do, ends[0], 0.05))
    assert raised.value.__context__ is None


def test_a_socket_is_waited_for_once_before_anything_is_tried(ends):
    waited = wait_for_socket(ends[0], 7)
    wait = next(waited)
    assert (wait.socket, wait.to_send, wait.seconds) == (ends[0], False, 7)
    assert list(waited) == []
    with pytest.raises(TimeoutError):
        run_until_complete(wait_for_socket(ends[0], 0.05))


def test_what_is_wrong_with_a_connection_is_raised_as_it_is(ends):
    def reset():
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        run_until_complete(call_when_ready(reset, ends[0], 5))


# In time


@pytest.mark.parametrize(("own", "within"), [(30, 0.05), (0.05, 30)])
def test_work_done_in_time_waits_for_no_socket_for_longer_than_it_or_the_work_says(ends, own, within):
    near, _ = ends
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        run_until_complete(with_socket_timeout(wait_for_socket(near, own), within))
    assert 0.05 <= time.monotonic() - began < 5


def test_work_done_in_time_gives_its_result_after_waits_of_any_kind(ends):
    near, far = ends
    far.send(b"x")
    limiter = MemoryWait(lambda: True)
    told = []

    def work():
        told.extend([(yield Pause(9)), (yield limiter)])
        yield from wait_for_socket(near, 30)
        return "over"

    steps = with_socket_timeout(work(), 0.05)
    assert [next(steps), next(steps)] == [Pause(9), limiter]
    assert next(steps).seconds == 0.05
    with pytest.raises(StopIteration, match="over"):
        next(steps)
    assert told == [None, None]


def test_work_done_in_time_is_closed_with_it():
    work = waits_of(Pause(0))
    steps = with_socket_timeout(work, 1)
    next(steps)
    steps.close()
    assert work.gi_frame is None
