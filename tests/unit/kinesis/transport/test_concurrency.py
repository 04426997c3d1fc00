"""Turns of concurrent coroutines: who runs, how pauses end, and what remains after an error."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.transport.concurrency import Turns, iterate, run
from support.announcing_clock import AnnouncingClock
from support.recording_limiter import RecordingLimiter
from support.virtual_time import VirtualTime

LONG = 3600
"""Seconds that nothing may wait."""


def pausing(turns, events, name, *pauses):
    """Record an event before each pause and at the end."""

    async def work():
        async with turns:
            for number, seconds in enumerate(pauses):
                events.append((name, number))
                await turns.pause(seconds)
            events.append((name, len(pauses)))

    return work()


class Wrong(Exception):
    """The error of a failing coroutine."""


async def fails():
    await asyncio.to_thread(lambda: None)
    raise Wrong


# Order and turns


@pytest.mark.slow
def test_coroutines_start_in_the_given_order():
    events, turns = [], Turns(2)
    turns.run([pausing(turns, events, name) for name in "dacb"])
    assert [name for name, _ in events] == list("dacb")


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_coroutines_than_the_concurrency_have_a_turn(concurrency):
    running, most, turns = set(), [], Turns(concurrency)

    async def work(number):
        async with turns:
            for seconds in (0.002, 0, 0.001):
                running.add(number)
                most.append(len(running))
                await asyncio.to_thread(time.sleep, 0.001)
                running.remove(number)
                await turns.pause(seconds)

    turns.run(map(work, range(12)))
    assert max(most) == concurrency
    assert len(most) == 36


def test_a_coroutine_that_pauses_gives_its_turn_to_another():
    events, turns = [], Turns(1, VirtualTime())
    turns.run([pausing(turns, events, "a", 1), pausing(turns, events, "b", 0)])
    assert events == [("a", 0), ("b", 0), ("b", 1), ("a", 1)]


def test_a_coroutine_that_sleeps_keeps_its_turn():
    events, turns = [], Turns(1, VirtualTime())

    async def sleeps():
        async with turns:
            await turns.sleep(5)
            events.append("slept")

    turns.run([sleeps(), pausing(turns, events, "b")])
    assert events == ["slept", ("b", 0)]


def test_a_coroutine_continues_after_a_pause_only_once_a_turn_is_free():
    events, turns = [], Turns(1)

    async def works():
        async with turns:
            events.append("begins")
            await asyncio.to_thread(time.sleep, 0.05)
            events.append("ends")

    turns.run([pausing(turns, events, "a", 0.001), works()])
    assert events == [("a", 0), "begins", "ends", ("a", 1)]


def test_a_pause_lasts_as_long_as_it_says():
    clock = VirtualTime()
    began, turns = clock.now, Turns(1, clock)
    turns.run([pausing(turns, [], "a", 2, 3)])
    assert clock.now - began == 5


def test_pauses_run_concurrently_and_end_in_the_order_of_their_times():
    events, clock = [], VirtualTime()
    turns = Turns(1, clock)
    turns.run([pausing(turns, events, seconds, seconds) for seconds in (9, 3, 6)])
    assert [name for name, number in events if number] == [3, 6, 9]
    assert clock.waits == [3, 3, 3]


@pytest.mark.parametrize("seed", range(5))
def test_every_coroutine_ends_and_takes_each_step_once_in_order(seed):
    chance = random.Random(seed)
    limiter, turns = RecordingLimiter(100), Turns(chance.choice([1, 3, 40]))
    events = {number: [] for number in range(40)}

    async def work(number):
        reservation = limiter.reservation()
        async with turns:
            for step in range(10):
                events[number].append(step)
                await reservation.acquire(chance.choice([1, 30, 60, 200]))
                await asyncio.to_thread(lambda: None)
                reservation.release()
                await turns.pause(chance.choice([0, 0.001, 0.003]))

    turns.run(map(work, events))
    assert all(steps == list(range(10)) for steps in events.values())
    assert limiter.max_reserved <= 100


# Threads


def test_each_coroutine_has_a_thread_for_a_blocking_call():
    together, turns = threading.Barrier(40), Turns(40)

    async def waits():
        await asyncio.to_thread(together.wait, SECONDS)

    turns.run(waits() for _ in range(40))
    assert not together.broken


# Stopping


@contextmanager
def stopped_after(event, turns):
    """Stops turns in another thread, after an event."""

    def stop():
        assert event.wait(SECONDS)
        turns.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    yield
    thread.join()


def test_stop_ends_a_long_pause_and_all_later_ones():
    clock, events = AnnouncingClock(), []
    turns = Turns(1, clock)
    with stopped_after(clock.long_wait, turns):
        turns.run([pausing(turns, events, "paused", LONG, LONG)])
    assert events == [("paused", 0), ("paused", 1), ("paused", 2)]


def test_stop_before_the_run_ends_all_pauses_and_after_it_does_nothing():
    turns, events = Turns(1), []
    turns.stop()
    turns.run([pausing(turns, events, number, LONG) for number in range(3)])
    turns.stop()
    assert sorted(events) == [(number, step) for number in range(3) for step in (0, 1)]


# Errors


def descriptors():
    """The open file descriptors and their targets."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the folder itself
            found.add((descriptor.name, str(descriptor.readlink())))
    return found


def test_an_error_ends_the_others_after_their_threads_and_leaves_nothing_open():
    turns, ended, in_thread, unblocked = Turns(4), [], [], threading.Event()

    async def waits(name, wait):
        async with turns:
            try:
                await wait()
            finally:
                ended.append(name)

    def block():
        assert unblocked.wait(SECONDS)
        in_thread.append("over")

    async def unblocks():
        try:
            await asyncio.sleep(LONG)
        finally:
            unblocked.set()

    before, threads = descriptors(), set(threading.enumerate())
    with pytest.raises(Wrong):
        turns.run(
            [
                waits("pause", lambda: turns.pause(LONG)),
                waits("thread", lambda: asyncio.to_thread(block)),
                unblocks(),
                fails(),
            ]
        )
    assert sorted(ended) == ["pause", "thread"]
    assert in_thread == ["over"]
    assert set(threading.enumerate()) <= threads
    assert descriptors() <= before


# Interrupts


class Interrupt(BaseException):
    """What a signal handler raises, like that of Dagster."""


@pytest.fixture
def interrupting():
    """A handler of SIGTERM that raises wherever the signal arrives."""

    def interrupt(*_):
        raise Interrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("interrupting")
def test_an_interrupt_ends_a_run_after_its_coroutines_wherever_it_arrives():
    ended = []

    async def waits():
        # In a callback, asyncio would only log it.
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(SECONDS)
        finally:
            await asyncio.to_thread(ended.append, "waits")

    threads = set(threading.enumerate())
    with pytest.raises(Interrupt):
        run(waits())
    assert ended == ["waits"]
    assert set(threading.enumerate()) <= threads


@pytest.mark.slow
@pytest.mark.usefixtures("interrupting")
def test_an_interrupt_ends_an_iteration_and_its_generator():
    ended = []

    async def waits():
        try:
            yield "first"
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            await asyncio.sleep(SECONDS)
        finally:
            await asyncio.to_thread(ended.append, "waits")

    items = iterate(waits())
    assert next(items) == "first"
    with pytest.raises(Interrupt):
        next(items)
    assert ended == ["waits"]


# Code that is not async


async def numbers(ended):
    try:
        for number in range(3):
            await asyncio.sleep(0)
            yield number
    finally:
        ended.append(True)


def in_a_running_loop(work):
    """Call a function in a thread that already runs a loop, as in a notebook."""

    async def calls():
        return work()

    return asyncio.run(calls())


@pytest.mark.parametrize("call", [lambda work: work(), in_a_running_loop])
def test_code_that_is_not_async_runs_a_coroutine_and_iterates(call):
    ended = []

    def work():
        async def returns():
            return await asyncio.to_thread(lambda: "result")

        return run(returns()), list(iterate(numbers(ended)))

    assert call(work) == ("result", [0, 1, 2])
    assert ended == [True]


def test_the_loop_that_a_thread_has_set_stays_set():
    set_loops = []

    def work():
        asyncio.set_event_loop(own := asyncio.new_event_loop())
        run(asyncio.sleep(0))
        set_loops.append(asyncio.get_event_loop() is own)
        own.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert set_loops == [True]


@pytest.mark.parametrize("call", [lambda work: work(), in_a_running_loop])
def test_an_iteration_that_is_abandoned_ends_its_generator_and_threads(call):
    ended, threads = [], set(threading.enumerate())
    assert call(lambda: next(iterate(numbers(ended)))) == 0
    assert ended == [True]
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("call", [lambda work: work(), in_a_running_loop])
def test_what_a_generator_has_started_goes_on_between_its_items(call):
    async def put(queue):
        for number in range(3):
            await asyncio.sleep(0.001)
            await queue.put(number)

    async def received():
        queue = asyncio.Queue(1)
        putting = asyncio.create_task(put(queue))
        for _ in range(3):
            yield await queue.get()
        await putting

    assert call(lambda: list(iterate(received()))) == [0, 1, 2]
