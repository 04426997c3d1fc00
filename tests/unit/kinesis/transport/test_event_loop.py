"""The event loop runs many generators in one thread: none delays the others, and none is lost."""

from __future__ import annotations

import random
import threading
import time

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.transport.event_loop import MemoryLimiter, Pause, ThreadWait, to_thread
from support.event_loops import recording, run, to_read
from support.recording_limiter import RecordingLimiter
from support.virtual_time import VirtualTime

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
    pauses = recording(events, "a", Pause(1)), recording(events, "b", Pause(0))
    run(*pauses, concurrency=1, clock=VirtualTime())
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
    clock = VirtualTime()
    began = clock.now
    run(recording([], "a", Pause(2), Pause(3)), clock=clock)
    assert clock.now - began == 5


def test_generators_continue_in_the_order_in_which_their_pauses_end():
    events, clock = [], VirtualTime()
    run(*[recording(events, seconds, Pause(seconds)) for seconds in (9, 3, 6)], clock=clock)
    assert [name for name, number in events if number] == [3, 6, 9]
    assert clock.waits == [3, 3, 3]


def test_no_time_passes_for_a_pause_while_another_generator_waits_for_a_thread():
    events, clock, unblocked = [], VirtualTime(), threading.Event()
    waits = recording(events, "waits", ThreadWait(lambda: unblocked.wait(SECONDS)))
    other = recording(events, "other", Pause(0), ThreadWait(unblocked.set))
    run(waits, recording(events, "pauses", Pause(1)), other, clock=clock)
    assert events[-1] == ("pauses", 1)
    assert clock.waits == [1]


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


# Threads


def test_others_continue_while_one_generator_waits_for_a_thread():
    events, unblocked = [], threading.Event()

    def unblocks():
        yield from recording(events, "other", Pause(0), Pause(0))
        unblocked.set()

    run(recording(events, "waits", ThreadWait(lambda: unblocked.wait(SECONDS))), unblocks())
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
    waits = [ThreadWait(lambda: together.wait(SECONDS)) for _ in range(5)]
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
    run(*map(work, events), concurrency=concurrency)
    assert all(steps == list(range(10)) for steps in events.values())
    assert max(most) <= concurrency
    assert limiter.max_reserved <= 100
