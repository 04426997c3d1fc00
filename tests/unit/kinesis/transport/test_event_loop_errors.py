"""An error of a generator ends the event loop, and leaves nothing open."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kinesis_assets.kinesis.transport.event_loop import (
    EventLoop,
    MemoryLimiter,
    MemoryWait,
    Pause,
    ThreadWait,
)
from support.event_loops import LONG, recording, run, to_read


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


@pytest.mark.slow
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
