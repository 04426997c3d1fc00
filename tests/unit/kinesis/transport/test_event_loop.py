"""Many pieces of work by one thread: nobody is held back, and nobody is forgotten."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kinesis_assets.kinesis.transport.awaitables import MemoryWait, Pause, SocketWait, ThreadWait, to_thread
from kinesis_assets.kinesis.transport.event_loop import EventLoop
from kinesis_assets.kinesis.transport.memory_limiter import MemoryLimiter
from support.recording_limiter import RecordingLimiter

LONG = 30


@pytest.fixture
def pair():
    """Opens two ends that do not block."""
    with ExitStack() as stack:

        def opened():
            ends = socket.socketpair()
            for end in ends:
                end.setblocking(False)
                stack.enter_context(end)
            return ends

        yield opened


def run(*works, at_once=10, seconds=10):
    """Do them, within a time."""
    raised = []

    def work():
        try:
            EventLoop(at_once).run(works)
        except BaseException as error:  # noqa: BLE001  # raised below
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it did not end"
    if raised:
        raise raised[0]


def noting(told, name, *waits):
    """Work that tells before each of its waits and at its end."""
    for number, wait in enumerate(waits):
        told.append((name, number))
        yield wait
    told.append((name, len(waits)))


def to_read(end, seconds=LONG):
    return SocketWait(end, to_send=False, seconds=seconds)


# Order and places


def test_works_begin_in_their_order():
    told = []
    run(*[noting(told, name) for name in "dacb"], at_once=2)
    assert [name for name, _ in told] == list("dacb")


@pytest.mark.parametrize("at_once", [1, 3])
def test_no_more_than_so_many_are_under_way_at_once(at_once):
    under_way, most = set(), []

    def work(number):
        under_way.add(number)
        most.append(len(under_way))
        yield ThreadWait(lambda: time.sleep(0.001))
        under_way.remove(number)

    run(*map(work, range(10)), at_once=at_once)
    assert max(most) == at_once


def test_one_that_pauses_gives_its_place_to_others():
    told = []
    run(noting(told, "a", Pause(0.5)), noting(told, "b", Pause(0)), at_once=1)
    assert told == [("a", 0), ("b", 0), ("b", 1), ("a", 1)]


def test_one_that_paused_takes_its_place_again_only_once_one_is_free():
    told = []
    waits = [ThreadWait(lambda: time.sleep(0.05)), ThreadWait(lambda: None)]
    run(noting(told, "a", Pause(0)), noting(told, "b", *waits), at_once=1)
    assert told == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("a", 1)]


def test_one_that_paused_and_those_under_way_are_no_more_than_so_many():
    under_way, most = set(), []

    def work(number):
        for seconds in (0.002, 0, 0.001):
            under_way.add(number)
            most.append(len(under_way))
            yield ThreadWait(lambda: time.sleep(0.001))
            under_way.remove(number)
            yield Pause(seconds)

    run(*map(work, range(12)), at_once=4)
    assert max(most) == 4
    assert len(most) == 36


def test_a_pause_lasts_as_long_as_it_says():
    began = time.monotonic()
    run(noting([], "a", Pause(0.2)))
    assert 0.2 <= time.monotonic() - began < 5


def test_pauses_end_in_the_order_of_their_ends():
    told = []
    run(*[noting(told, seconds, Pause(seconds)) for seconds in (0.9, 0.3, 0.6)])
    assert [name for name, number in told if number] == [0.3, 0.6, 0.9]


def test_pauses_of_others_hold_nobody_back():
    began = time.monotonic()
    run(*[noting([], number, Pause(0.1), Pause(0.1)) for number in range(50)], at_once=1)
    assert time.monotonic() - began < 5  # and not 10


def test_no_work_is_done_at_once():
    run()


# Sockets


def test_others_go_on_while_one_waits_for_a_socket(pair):
    (near, far), told = pair(), []

    def sends():
        yield from noting(told, "other", Pause(0), ThreadWait(lambda: None))
        far.send(b"x")

    run(noting(told, "waits", to_read(near)), sends())
    assert told[-1] == ("waits", 1)
    assert told.index(("waits", 0)) < told.index(("other", 0))


def fill(end):
    """Send until no more can be sent; how many bytes."""
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += end.send(bytes(1 << 16))
    return sent


def test_who_waits_to_send_goes_on_once_there_is_space(pair):
    (near, far), told = pair(), []
    sent = fill(near)

    def reads():
        yield Pause(0)
        told.append("reads")
        left = sent
        while left:
            left -= len(far.recv(1 << 16))

    run(noting(told, "sends", SocketWait(near, to_send=True, seconds=LONG)), reads())
    assert told == [("sends", 0), "reads", ("sends", 1)]


def test_who_waits_to_send_does_not_go_on_for_what_can_be_read(pair):
    near, far = pair()
    fill(near)
    far.send(b"x")
    wait = SocketWait(near, to_send=True, seconds=0.05)
    run(noting([], "sends", wait))
    assert wait.timed_out


def test_a_socket_is_waited_for_as_often_as_asked(pair):
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


def test_only_who_waited_too_long_is_timed_out(pair):
    (slow, _silent), (near, far) = pair(), pair()
    waits = [to_read(slow, 0.1), to_read(near, 0.1)]
    ended = []

    def waiting(number):
        yield waits[number]
        ended.append(number)

    def sends():
        far.send(b"x")
        yield Pause(0)

    began = time.monotonic()
    run(waiting(0), waiting(1), sends())
    assert [wait.timed_out for wait in waits] == [True, False]
    assert ended == [1, 0]
    assert 0.1 <= time.monotonic() - began < 5


@pytest.mark.parametrize("order", [(0.1, 0.3, LONG), (LONG, 0.3, 0.1), (0.3, LONG, 0.1)])
def test_each_waits_for_its_socket_for_a_time_of_its_own(pair, order):
    opened = {seconds: pair() for seconds in order}
    told = {}

    def waiting(seconds):
        near, _ = opened[seconds]
        wait = to_read(near, seconds)
        yield wait
        told[seconds] = wait.timed_out
        if seconds == 0.3:
            opened[LONG][1].send(b"x")

    began = time.monotonic()
    run(*map(waiting, order))
    assert told == {0.1: True, 0.3: True, LONG: False}
    assert 0.3 <= time.monotonic() - began < 5


def test_the_time_of_a_socket_begins_anew_with_each_wait(pair):
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


@pytest.mark.parametrize("by", ["pause", "socket", "thread", "room"])
def test_what_came_during_anothers_long_step_is_in_time(pair, by):
    """Whatever the other one waited for before that step."""
    (near, far), (other, others_far) = pair(), pair()
    wait = to_read(near, 0.5)
    limiter = MemoryLimiter(1)
    held = limiter.reservation()
    for _ in held.acquire(1):
        pass

    def long_step():
        if by == "room":
            yield from limiter.reservation().acquire(1)
        else:
            yield {"pause": Pause(0.02), "socket": to_read(other), "thread": ThreadWait(lambda: None)}[by]
        time.sleep(0.6)  # it is at work
        far.send(b"x")

    def lets():
        yield Pause(0.02)
        others_far.send(b"x")
        held.release()

    run(noting([], "waits", wait), long_step(), lets())
    assert not wait.timed_out


# Threads


def test_others_go_on_while_one_waits_for_a_thread():
    told, let = [], threading.Event()

    def lets():
        yield from noting(told, "other", Pause(0), Pause(0))
        let.set()

    run(noting(told, "waits", ThreadWait(lambda: let.wait(5))), lets())
    assert told == [("waits", 0), ("other", 0), ("other", 1), ("other", 2), ("waits", 1)]


def test_what_a_thread_gives_or_raises_comes_back():
    came = []

    def fail():
        raise KeyError("k")

    def work():
        came.append((yield from to_thread(threading.get_ident)))
        with pytest.raises(KeyError):
            yield from to_thread(fail)
        came.append(threading.get_ident())

    run(work())
    in_thread, own = came
    assert in_thread != own


def test_several_wait_for_threads_at_once():
    together = threading.Barrier(5)
    waits = [ThreadWait(lambda: together.wait(5)) for _ in range(5)]
    run(*[noting([], number, wait) for number, wait in enumerate(waits)], at_once=5)
    assert sorted(wait.result() for wait in waits) == list(range(5))


# Memory limiter


def test_room_is_given_in_the_order_of_coming_and_only_when_there_is_some():
    limiter, told, holding = MemoryLimiter(100), [], set()

    def work(name, amount):
        told.append(f"{name} comes")
        reservation = limiter.reservation()
        yield from reservation.acquire(amount)
        holding.add((name, amount))
        assert sum(amount for _, amount in holding) <= 100
        told.append(f"{name} has")
        yield ThreadWait(lambda: time.sleep(0.02))
        holding.remove((name, amount))
        reservation.release()

    run(work("a", 60), work("b", 80), work("c", 10), work("d", 90))
    comes, has = [f"{name} comes" for name in "bcd"], [f"{name} has" for name in "bcd"]
    assert told == ["a comes", "a has", *comes, *has]


def test_others_go_on_while_one_waits_for_room():
    limiter, told = MemoryLimiter(1), []
    held = limiter.reservation()
    for _ in held.acquire(1):
        pass

    def leaves():
        yield from noting(told, "other", Pause(0.01), ThreadWait(lambda: None), Pause(0))
        held.release()

    def waits():
        yield from limiter.reservation().acquire(1)
        told.append("has")

    run(waits(), leaves(), at_once=2)
    assert told[-2:] == [("other", 3), "has"]


# Hurry


def test_hurry_ends_a_long_pause():
    loop, paused = EventLoop(1), threading.Event()

    def work():
        paused.set()
        yield Pause(LONG)
        yield Pause(LONG)

    def cancel_pauses():
        paused.wait(5)
        time.sleep(0.05)  # it has gone to sleep
        loop.cancel_pauses()

    thread = threading.Thread(target=cancel_pauses)
    thread.start()
    began = time.monotonic()
    loop.run([work()])
    thread.join()
    assert time.monotonic() - began < LONG / 2


def test_hurry_before_the_beginning_ends_all_pauses_and_after_the_end_does_nothing():
    loop = EventLoop(1)
    loop.cancel_pauses()
    began = time.monotonic()
    loop.run([noting([], number, Pause(LONG)) for number in range(3)])
    loop.cancel_pauses()
    assert time.monotonic() - began < LONG / 2


def test_hurry_does_not_end_the_wait_for_a_socket(pair):
    near, _ = pair()
    loop, wait = EventLoop(1), to_read(near, 0.1)
    loop.cancel_pauses()
    began = time.monotonic()
    loop.run([noting([], "waits", wait)])
    assert wait.timed_out
    assert time.monotonic() - began >= 0.1


# Errors


class Wrong(Exception):
    """A work's own."""


def fails(*waits):
    yield from noting([], "fails", *waits)
    raise Wrong


def descriptors():
    """Those that are open, each with what it is of."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the folder itself
            found.add((descriptor.name, str(descriptor.readlink())))
    return found


@contextmanager
def no_more_descriptors():
    """None is open at the end that was not at the beginning. Those of other tests' servers may close."""
    before = descriptors()
    yield
    assert descriptors() <= before


def test_an_error_of_one_work_is_raised_and_the_others_are_closed(pair):
    (near, _), ended, in_thread = pair(), [], []
    limiter = MemoryLimiter(1)
    held = limiter.reservation()
    for _ in held.acquire(1):
        pass

    def slow():
        time.sleep(0.5)
        in_thread.append("over")

    def work(name, wait):
        try:
            yield wait
        finally:
            ended.append((name, *in_thread))

    def takes():
        try:
            yield from limiter.reservation().acquire(1)
        finally:
            ended.append(("room", *in_thread))

    waits = {"socket": to_read(near), "thread": ThreadWait(slow), "pause": Pause(LONG)}
    works = [work(name, wait) for name, wait in waits.items()]
    with pytest.raises(Wrong):
        run(*works, takes(), fails(ThreadWait(lambda: None)), work("not begun", Pause(0)), at_once=4)
    # Also while a thread had something of theirs, none was closed.
    assert sorted(ended) == [(name, "over") for name in ("pause", "room", "socket", "thread")]
    assert not limiter._waiting


def test_an_error_while_others_are_closed_leaves_none_open():
    ended = []

    def wrong_at_the_end(name):
        try:
            yield Pause(LONG)
        finally:
            ended.append(name)
            raise KeyError(name)

    with pytest.raises(KeyError):
        run(wrong_at_the_end("a"), wrong_at_the_end("b"), fails())
    assert sorted(ended) == ["a", "b"]


def test_no_thread_is_left():
    for works in ([noting([], "a", ThreadWait(lambda: None))], [fails(ThreadWait(lambda: None))]):
        before = set(threading.enumerate())
        with ExitStack() as stack:
            if works[0].__name__ == "fails":
                stack.enter_context(pytest.raises(Wrong))
            EventLoop(2).run(works)
        assert set(threading.enumerate()) <= before


def test_no_descriptor_is_left_after_success_or_error(pair):
    near, far = pair()
    far.send(b"x")
    with no_more_descriptors():
        EventLoop(2).run([noting([], "a", to_read(near), ThreadWait(lambda: None), Pause(0))])
    near.recv(1)
    with no_more_descriptors(), pytest.raises(Wrong):
        EventLoop(3).run([noting([], "a", to_read(near)), fails(ThreadWait(lambda: None))])


def test_where_all_wait_for_room_nobody_would_make_any_and_that_is_raised():
    with pytest.raises(RuntimeError, match="no memory is available"):
        run(noting([], "a", MemoryWait(lambda: False)), noting([], "b", Pause(0), MemoryWait(lambda: False)))


# All together


@pytest.mark.parametrize("seed", range(10))
def test_all_works_end_and_each_step_is_done_once_in_its_order(pair, seed):
    chance = random.Random(seed)
    limiter = RecordingLimiter(100)
    under_way, most, told = set(), [], {number: [] for number in range(40)}

    def receives():
        near, far = pair()
        if chance.random() < 0.5:
            far.send(b"x")
        else:
            yield from to_thread(lambda: far.send(b"x"))
        wait = to_read(near)
        yield wait
        assert not wait.timed_out
        near.recv(1)

    def sits():
        reservation = limiter.reservation()
        yield from reservation.acquire(chance.choice([1, 30, 60, 200]))
        yield ThreadWait(lambda: None)
        reservation.release()

    def work(number):
        for step in range(10):
            under_way.add(number)
            most.append(len(under_way))
            told[number].append(step)
            yield from chance.choice([receives, sits])()
            under_way.remove(number)
            yield Pause(chance.choice([0, 0.001, 0.003]))

    at_once = chance.choice([1, 3, 40])
    run(*map(work, told), at_once=at_once, seconds=30)
    assert all(steps == list(range(10)) for steps in told.values())
    assert max(most) <= at_once
    assert limiter.max_reserved <= 100
