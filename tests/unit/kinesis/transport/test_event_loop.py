"""The event loop runs many generators in one thread: none delays the others, and none is lost."""

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

LONG = 600


@pytest.fixture
def pair():
    """Open pairs of connected non-blocking sockets."""
    with ExitStack() as stack:

        def opened():
            ends = socket.socketpair()
            for end in ends:
                end.setblocking(False)
                stack.enter_context(end)
            return ends

        yield opened


def run(*generators, concurrency=10, seconds=10):
    """Run generators to their end, within a time limit."""
    raised = []

    def work():
        try:
            EventLoop(concurrency).run(generators)
        except BaseException as error:  # noqa: BLE001  # raised below
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "the event loop did not end"
    if raised:
        raise raised[0]


def recording(events, name, *waits):
    """Record an event before each wait and at the end."""
    for number, wait in enumerate(waits):
        events.append((name, number))
        yield wait
    events.append((name, len(waits)))


def to_read(end, seconds=LONG):
    return SocketWait(end, to_send=False, seconds=seconds)


# Order and places


def test_generators_start_in_the_given_order():
    events = []
    run(*[recording(events, name) for name in "dacb"], concurrency=2)
    assert [name for name, _ in events] == list("dacb")


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_generators_than_the_concurrency_run_at_once(concurrency):
    running, most = set(), []

    def work(number):
        running.add(number)
        most.append(len(running))
        yield ThreadWait(lambda: time.sleep(0.001))
        running.remove(number)

    run(*map(work, range(10)), concurrency=concurrency)
    assert max(most) == concurrency


def test_a_paused_generator_gives_its_slot_to_others():
    events = []
    run(recording(events, "a", Pause(0.5)), recording(events, "b", Pause(0)), concurrency=1)
    assert events == [("a", 0), ("b", 0), ("b", 1), ("a", 1)]


def test_a_paused_generator_continues_only_once_a_slot_is_free():
    events = []
    waits = [ThreadWait(lambda: time.sleep(0.05)), ThreadWait(lambda: None)]
    run(recording(events, "a", Pause(0)), recording(events, "b", *waits), concurrency=1)
    assert events == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("a", 1)]


def test_generators_that_continue_after_a_pause_count_toward_the_concurrency():
    running, most = set(), []

    def work(number):
        for seconds in (0.002, 0, 0.001):
            running.add(number)
            most.append(len(running))
            yield ThreadWait(lambda: time.sleep(0.001))
            running.remove(number)
            yield Pause(seconds)

    run(*map(work, range(12)), concurrency=4)
    assert max(most) == 4
    assert len(most) == 36


def test_a_pause_lasts_as_long_as_it_says():
    began = time.monotonic()
    run(recording([], "a", Pause(0.2)))
    assert time.monotonic() - began >= 0.2


def test_generators_continue_in_the_order_in_which_their_pauses_end():
    events = []
    run(*[recording(events, seconds, Pause(seconds)) for seconds in (0.9, 0.3, 0.6)])
    assert [name for name, number in events if number] == [0.3, 0.6, 0.9]


def test_pauses_run_concurrently():
    paused, most = set(), []

    def work(number):
        paused.add(number)
        most.append(len(paused))
        yield Pause(0.1)
        paused.remove(number)

    run(*map(work, range(50)), concurrency=1)
    assert max(most) > 1


def test_running_no_generators_returns_immediately():
    run()


# Sockets


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

    began = time.monotonic()
    run(waiting(0), waiting(1), sends())
    assert [wait.timed_out for wait in waits] == [True, False]
    assert ended == [1, 0]
    assert time.monotonic() - began >= 0.1


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

    began = time.monotonic()
    run(*map(waiting, order))
    assert timed_out == {0.1: True, 0.3: True, LONG: False}
    assert 0.3 <= time.monotonic() - began < LONG / 2


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


# Threads


def test_others_continue_while_one_generator_waits_for_a_thread():
    events, unblocked = [], threading.Event()

    def unblocks():
        yield from recording(events, "other", Pause(0), Pause(0))
        unblocked.set()

    run(recording(events, "waits", ThreadWait(lambda: unblocked.wait(5))), unblocks())
    assert events == [("waits", 0), ("other", 0), ("other", 1), ("other", 2), ("waits", 1)]


def test_the_result_or_error_of_a_thread_is_returned():
    results = []

    def fail():
        raise KeyError("k")

    def work():
        results.append((yield from to_thread(threading.get_ident)))
        with pytest.raises(KeyError):
            yield from to_thread(fail)
        results.append(threading.get_ident())

    run(work())
    in_thread, own = results
    assert in_thread != own


def test_several_generators_wait_for_threads_at_once():
    together = threading.Barrier(5)
    waits = [ThreadWait(lambda: together.wait(5)) for _ in range(5)]
    run(*[recording([], number, wait) for number, wait in enumerate(waits)], concurrency=5)
    assert sorted(wait.result() for wait in waits) == list(range(5))


# Memory limiter


def test_memory_is_reserved_first_in_first_out_and_only_when_available():
    limiter, events, holding = MemoryLimiter(100), [], set()

    def work(name, amount):
        events.append(f"{name} requests")
        reservation = limiter.reservation()
        yield from reservation.acquire(amount)
        holding.add((name, amount))
        assert sum(amount for _, amount in holding) <= 100
        events.append(f"{name} holds")
        yield ThreadWait(lambda: time.sleep(0.02))
        holding.remove((name, amount))
        reservation.release()

    run(work("a", 60), work("b", 80), work("c", 10), work("d", 90))
    requests, holds = [f"{name} requests" for name in "bcd"], [f"{name} holds" for name in "bcd"]
    assert events == ["a requests", "a holds", *requests, *holds]


def test_others_continue_while_one_generator_waits_for_memory():
    limiter, events = MemoryLimiter(1), []
    held = limiter.reservation()
    for _ in held.acquire(1):
        pass

    def releases():
        yield from recording(events, "other", Pause(0.01), ThreadWait(lambda: None), Pause(0))
        held.release()

    def waits():
        yield from limiter.reservation().acquire(1)
        events.append("holds")

    run(waits(), releases(), concurrency=2)
    assert events[-2:] == [("other", 3), "holds"]


# Canceled pauses


def test_cancel_pauses_ends_a_long_pause():
    loop, paused = EventLoop(1), threading.Event()

    def work():
        paused.set()
        yield Pause(LONG)
        yield Pause(LONG)

    def cancel_pauses():
        paused.wait(5)
        time.sleep(0.05)  # the loop is sleeping
        loop.cancel_pauses()

    thread = threading.Thread(target=cancel_pauses)
    thread.start()
    began = time.monotonic()
    loop.run([work()])
    thread.join()
    assert time.monotonic() - began < LONG / 2


def test_cancel_pauses_before_the_run_ends_all_pauses_and_after_it_does_nothing():
    loop = EventLoop(1)
    loop.cancel_pauses()
    began = time.monotonic()
    loop.run([recording([], number, Pause(LONG)) for number in range(3)])
    loop.cancel_pauses()
    assert time.monotonic() - began < LONG / 2


def test_cancel_pauses_does_not_end_a_wait_for_a_socket(pair):
    near, _ = pair()
    loop, wait = EventLoop(1), to_read(near, 0.1)
    loop.cancel_pauses()
    began = time.monotonic()
    loop.run([recording([], "waits", wait)])
    assert wait.timed_out
    assert time.monotonic() - began >= 0.1


# Errors


class Wrong(Exception):
    """The error of a failing generator."""


def fails(*waits):
    yield from recording([], "fails", *waits)
    raise Wrong


def descriptors():
    """The open file descriptors and their targets."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the folder itself
            found.add((descriptor.name, str(descriptor.readlink())))
    return found


@contextmanager
def no_more_descriptors():
    """Assert that no new descriptor stays open. Servers of other tests may close theirs."""
    before = descriptors()
    yield
    assert descriptors() <= before


def test_an_error_of_one_generator_is_raised_and_the_others_are_closed(pair):
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

    def reserves():
        try:
            yield from limiter.reservation().acquire(1)
        finally:
            ended.append(("memory", *in_thread))

    waits = {"socket": to_read(near), "thread": ThreadWait(slow), "pause": Pause(LONG)}
    generators = [work(name, wait) for name, wait in waits.items()]
    with pytest.raises(Wrong):
        run(
            *generators,
            reserves(),
            fails(ThreadWait(lambda: None)),
            work("not started", Pause(0)),
            concurrency=4,
        )
    # No generator was closed while a thread was still running.
    assert sorted(ended) == [(name, "over") for name in ("memory", "pause", "socket", "thread")]
    assert not limiter._waiting


def test_an_error_while_closing_one_generator_leaves_no_other_open():
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


def test_no_thread_remains_after_a_run():
    for generators in ([recording([], "a", ThreadWait(lambda: None))], [fails(ThreadWait(lambda: None))]):
        before = set(threading.enumerate())
        with ExitStack() as stack:
            if generators[0].__name__ == "fails":
                stack.enter_context(pytest.raises(Wrong))
            EventLoop(2).run(generators)
        assert set(threading.enumerate()) <= before


def test_no_descriptor_remains_after_success_or_error(pair):
    near, far = pair()
    far.send(b"x")
    with no_more_descriptors():
        EventLoop(2).run([recording([], "a", to_read(near), ThreadWait(lambda: None), Pause(0))])
    near.recv(1)
    with no_more_descriptors(), pytest.raises(Wrong):
        EventLoop(3).run([recording([], "a", to_read(near)), fails(ThreadWait(lambda: None))])


def test_a_deadlock_on_memory_is_raised_as_an_error():
    with pytest.raises(RuntimeError, match="no memory is available"):
        run(
            recording([], "a", MemoryWait(lambda: False)),
            recording([], "b", Pause(0), MemoryWait(lambda: False)),
        )


# All together


@pytest.mark.parametrize("seed", range(10))
def test_every_generator_ends_and_runs_each_step_once_in_order(pair, seed):
    chance = random.Random(seed)
    limiter = RecordingLimiter(100)
    running, most, events = set(), [], {number: [] for number in range(40)}

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

    def reserves_memory():
        reservation = limiter.reservation()
        yield from reservation.acquire(chance.choice([1, 30, 60, 200]))
        yield ThreadWait(lambda: None)
        reservation.release()

    def work(number):
        for step in range(10):
            running.add(number)
            most.append(len(running))
            events[number].append(step)
            yield from chance.choice([receives, reserves_memory])()
            running.remove(number)
            yield Pause(chance.choice([0, 0.001, 0.003]))

    concurrency = chance.choice([1, 3, 40])
    run(*map(work, events), concurrency=concurrency, seconds=30)
    assert all(steps == list(range(10)) for steps in events.values())
    assert max(most) <= concurrency
    assert limiter.max_reserved <= 100
