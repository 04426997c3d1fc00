"""What generators wait for: pauses, sockets, threads and memory."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress

import pytest

from kinesis_assets.kinesis.transport.event_loop import (
    MemoryWait,
    Pause,
    SocketWait,
    ThreadWait,
    call_when_ready,
    run_until_complete,
    to_thread,
    wait_for_socket,
    with_deadline,
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


# Running until complete


def test_the_result_is_returned_after_all_waits():
    done = []

    def generator():
        yield ThreadWait(lambda: done.append(1))
        yield Pause(0.01)
        return (yield from waits_of(ThreadWait(lambda: done.append(2))))

    assert run_until_complete(generator()) == "over"
    assert done == [1, 2]


def test_an_error_of_the_generator_is_raised():
    def generator():
        yield Pause(0)
        raise KeyError("k")

    with pytest.raises(KeyError):
        run_until_complete(generator())


@pytest.mark.parametrize("to_send", [False, True])
def test_a_socket_that_is_ready_does_not_time_out(ends, to_send):
    near, far = ends
    far.send(b"x")
    wait = SocketWait(near, to_send, seconds=5)
    assert run_until_complete(waits_of(wait)) == "over"
    assert not wait.timed_out


@pytest.mark.parametrize("to_send", [False, True])
def test_a_socket_that_is_not_ready_in_time_times_out(ends, to_send):
    near, far = ends
    if to_send:
        fill(near)
        far.send(b"x")
    wait = SocketWait(near, to_send, seconds=0.05)
    run_until_complete(waits_of(wait))
    assert wait.timed_out


def test_a_thread_wait_has_the_result_or_error_of_its_function():
    wait = ThreadWait(threading.get_ident)
    run_until_complete(waits_of(wait))
    assert wait.result() == threading.get_ident()
    wrong = ThreadWait(lambda: {}["k"])
    run_until_complete(waits_of(wrong))
    with pytest.raises(KeyError):
        wrong.result()


def test_memory_that_will_never_be_released_is_an_error():
    with pytest.raises(RuntimeError, match="no memory is available"):
        run_until_complete(waits_of(MemoryWait(lambda: False)))


# Threads


def test_a_blocking_function_runs_within_one_thread_wait():
    done = []

    def blocks():
        done.append(1)
        return "result"

    generator = to_thread(blocks)
    wait = next(generator)
    assert isinstance(wait, ThreadWait)
    assert not done
    wait.block()
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert (end.value.value, done) == ("result", [1])


def test_an_error_of_the_thread_is_raised_by_the_generator():
    with pytest.raises(KeyError):
        run_until_complete(to_thread(lambda: {}["k"]))


# Non-blocking sockets


def test_an_operation_that_succeeds_immediately_does_not_wait(ends):
    with pytest.raises(StopIteration) as end:
        next(call_when_ready(lambda: "done", ends[0], 5))
    assert end.value.value == "done"


@pytest.mark.parametrize(
    ("error", "to_send"),
    [(BlockingIOError, False), (ssl.SSLWantReadError, False), (ssl.SSLWantWriteError, True)],
)
def test_an_operation_that_would_block_waits_for_the_socket_and_is_retried(ends, error, to_send):
    attempts = [error(), error(), None]

    def do():
        wrong = attempts.pop(0)
        if wrong:
            raise wrong
        return "done"

    generator = call_when_ready(do, ends[0], 7)
    waits = [next(generator), next(generator)]
    assert [(wait.socket, wait.to_send, wait.seconds) for wait in waits] == [(ends[0], to_send, 7)] * 2
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert (end.value.value, attempts) == ("done", [])


def test_data_that_arrives_later_is_received(ends):
    near, far = ends
    generator = call_when_ready(lambda: near.recv(5), near, 5)
    wait = next(generator)
    far.send(b"later")
    wait.block()
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == b"later"


@pytest.mark.parametrize("error", [BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError])
def test_a_timeout_has_no_context_of_earlier_attempts(ends, error):
    def do():
        raise error

    fill(ends[0])
    with pytest.raises(TimeoutError) as raised:
        run_until_complete(call_when_ready(do, ends[0], 0.05))
    assert raised.value.__context__ is None


def test_wait_for_socket_waits_once(ends):
    waited = wait_for_socket(ends[0], 7)
    wait = next(waited)
    assert (wait.socket, wait.to_send, wait.seconds) == (ends[0], False, 7)
    assert list(waited) == []
    with pytest.raises(TimeoutError):
        run_until_complete(wait_for_socket(ends[0], 0.05))


def test_a_connection_error_is_raised_unchanged(ends):
    def reset():
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        run_until_complete(call_when_ready(reset, ends[0], 5))


# Socket timeouts


@pytest.mark.parametrize(("own", "within"), [(600, 0.05), (0.05, 600)])
def test_the_shorter_of_two_socket_timeouts_applies(ends, own, within):
    near, _ = ends
    steps = with_socket_timeout(wait_for_socket(near, own), within)
    wait = next(steps)
    assert wait.seconds == 0.05
    wait.block()
    with pytest.raises(TimeoutError):
        next(steps)


def test_with_socket_timeout_passes_other_waits_through_and_returns_the_result(ends):
    near, far = ends
    far.send(b"x")
    memory = MemoryWait(lambda: True)
    sent = []

    def generator():
        sent.extend([(yield Pause(9)), (yield memory)])
        yield from wait_for_socket(near, 30)
        return "over"

    steps = with_socket_timeout(generator(), 0.05)
    assert [next(steps), next(steps)] == [Pause(9), memory]
    assert next(steps).seconds == 0.05
    with pytest.raises(StopIteration, match="over"):
        next(steps)
    assert sent == [None, None]


def test_closing_with_socket_timeout_closes_the_generator():
    generator = waits_of(Pause(0))
    steps = with_socket_timeout(generator, 1)
    next(steps)
    steps.close()
    assert generator.gi_frame is None


# Deadlines


def test_data_that_keeps_arriving_does_not_postpone_a_deadline(ends):
    near, far = ends
    left = [3, 2, 1, 0]

    def generator():
        while True:
            yield from wait_for_socket(near, 30)
            near.recv(1)

    steps = with_deadline(generator(), lambda: left.pop(0))
    for seconds in (3, 2, 1):
        far.send(b"x")
        assert next(steps).seconds == seconds
    with pytest.raises(TimeoutError, match="deadline"):
        next(steps)


def test_with_deadline_passes_other_waits_through_and_returns_the_result(ends):
    near, far = ends
    far.send(b"x")
    left = [-1, 7]

    def generator():
        yield Pause(9)
        yield from wait_for_socket(near, 5)
        return "over"

    steps = with_deadline(generator(), lambda: left.pop(0))
    assert next(steps) == Pause(9)
    assert next(steps).seconds == 5
    with pytest.raises(StopIteration, match="over"):
        next(steps)


def test_a_generator_can_go_on_after_its_deadline(ends):
    def generator():
        with suppress(TimeoutError):
            yield from wait_for_socket(ends[0], 30)
        yield Pause(1)
        return "over"

    steps = with_deadline(generator(), lambda: 0)
    assert next(steps) == Pause(1)
    with pytest.raises(StopIteration, match="over"):
        next(steps)
