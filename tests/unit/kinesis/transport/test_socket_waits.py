"""The event loop waits for sockets."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from kinesis_assets.kinesis.transport.event_loop import MemoryLimiter, Pause, SocketWait, ThreadWait
from support.event_loops import LONG, recording, run, to_read

pytestmark = pytest.mark.slow


def test_others_continue_while_one_generator_waits_for_a_socket(pair):
    (near, far), events = pair(), []

    def sends():
        yield from recording(events, "other", Pause(0), ThreadWait(lambda: None))
        far.send(b"x")

    run(recording(events, "waits", to_read(near)), sends())
    assert events[-1] == ("waits", 1)
    assert events.index(("waits", 0)) < events.index(("other", 0))


def fill(end):
    """Send until the buffer is full; return the number of bytes."""
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += end.send(bytes(1 << 16))
    return sent


def test_a_wait_to_send_ends_when_the_socket_is_writable(pair):
    (near, far), events = pair(), []
    sent = fill(near)

    def reads():
        yield Pause(0)
        events.append("reads")
        left = sent
        while left:
            left -= len(far.recv(1 << 16))

    run(recording(events, "sends", SocketWait(near, to_send=True, seconds=LONG)), reads())
    assert events == [("sends", 0), "reads", ("sends", 1)]


def test_a_wait_to_send_does_not_end_when_the_socket_is_only_readable(pair):
    near, far = pair()
    fill(near)
    far.send(b"x")
    wait = SocketWait(near, to_send=True, seconds=0.05)
    run(recording([], "sends", wait))
    assert wait.timed_out


def test_a_socket_can_be_waited_for_repeatedly(pair):
    (near, far), got = pair(), []

    def receives():
        while len(got) < 20:
            wait = to_read(near)
            yield wait
            assert not wait.timed_out
            got.append(near.recv(1))

    def sends():
        for _ in range(20):
            far.send(b"x")
            yield Pause(0)

    run(receives(), sends())


def test_only_the_socket_that_is_not_ready_times_out(pair):
    (slow, _silent), (near, far) = pair(), pair()
    waits = [to_read(slow, 0.1), to_read(near, 0.1)]
    ended = []

    def waiting(number):
        yield waits[number]
        ended.append(number)

    def sends():
        far.send(b"x")
        yield Pause(0)

    run(waiting(0), waiting(1), sends())
    assert [wait.timed_out for wait in waits] == [True, False]
    assert ended == [1, 0]


@pytest.mark.parametrize("order", [(0.1, 0.3, LONG), (LONG, 0.3, 0.1), (0.3, LONG, 0.1)])
def test_each_wait_for_a_socket_has_its_own_timeout(pair, order):
    opened = {seconds: pair() for seconds in order}
    timed_out = {}

    def waiting(seconds):
        near, _ = opened[seconds]
        wait = to_read(near, seconds)
        yield wait
        timed_out[seconds] = wait.timed_out
        if seconds == 0.3:
            opened[LONG][1].send(b"x")

    run(*map(waiting, order))
    assert timed_out == {0.1: True, 0.3: True, LONG: False}
    assert list(timed_out) == [0.1, 0.3, LONG]


def test_the_timeout_of_a_socket_restarts_with_each_wait(pair):
    near, far = pair()
    waits = [to_read(near, 1.0) for _ in range(12)]

    def receives():
        for wait in waits:
            yield wait
            near.recv(1)

    def sends():
        for _ in waits:
            yield Pause(0.1)
            far.send(b"x")

    run(receives(), sends())
    assert not any(wait.timed_out for wait in waits)


@pytest.mark.parametrize("by", ["pause", "socket", "thread", "memory"])
def test_data_that_arrives_during_a_long_step_of_another_generator_does_not_time_out(pair, by):
    """This holds for each kind of wait before the long step."""
    (near, far), (other, others_far) = pair(), pair()
    wait = to_read(near, 0.5)
    limiter = MemoryLimiter(1)
    held = limiter.reservation()
    for _ in held.acquire(1):
        pass

    def long_step():
        if by == "memory":
            yield from limiter.reservation().acquire(1)
        else:
            yield {"pause": Pause(0.02), "socket": to_read(other), "thread": ThreadWait(lambda: None)}[by]
        time.sleep(0.6)  # a long computation
        far.send(b"x")

    def unblocks():
        yield Pause(0.02)
        others_far.send(b"x")
        held.release()

    run(recording([], "waits", wait), long_step(), unblocks())
    assert not wait.timed_out
