"""One thread at work: who waits for something else lets another one work."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kinesis_assets.kinesis.room import Room
from kinesis_assets.kinesis.work_lock import WorkLock, let_go


def until(condition):
    """Wait for something that other threads do."""
    for _ in range(5000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise TimeoutError


def test_one_thread_at_a_time_is_at_work():
    work, inside, most = WorkLock(), [], []

    def one():
        for _ in range(20):
            with work.held():
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                with let_go():
                    pass
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(one) for _ in range(16)]:
            done.result(timeout=30)
    assert len(most) == 16 * 20 * 2
    assert set(most) == {1}


def test_another_one_works_while_one_waits():
    work, worked = WorkLock(), threading.Event()

    def other():
        with work.held():
            worked.set()

    with ThreadPoolExecutor(1) as pool, work.held():
        pool.submit(other)
        until(lambda: work._new)
        assert not worked.is_set()
        with let_go():
            assert worked.wait(5)


def test_who_comes_back_goes_before_who_begins():
    work, order = WorkLock(), []
    away, back = threading.Event(), threading.Event()

    def comes_back():
        with work.held():
            with let_go():
                away.set()
                back.wait(5)
            order.append("back")

    def begins():
        with work.held():
            order.append("new")

    with ThreadPoolExecutor(2) as pool:
        pool.submit(comes_back)
        assert away.wait(5)
        with work.held():
            pool.submit(begins)
            until(lambda: work._new)
            back.set()
            until(lambda: work._back)
    assert order == ["back", "new"]


def test_an_error_inside_lets_the_next_one_work():
    work = WorkLock()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), work.held(), let_go():
            _ = 1 / 0
    with ThreadPoolExecutor(1) as pool:
        with work.held():
            waiting = pool.submit(lambda: work.held().__enter__())
            until(lambda: work._new)
        waiting.result(timeout=5)


def test_who_is_not_at_work_lets_nobody_in():
    work, other = WorkLock(), threading.Event()

    def works():
        with work.held():
            other.set()

    def lets_go():
        with let_go():
            return other.wait(0.2)

    with ThreadPoolExecutor(2) as pool, work.held():
        pool.submit(works)
        until(lambda: work._new)
        assert not pool.submit(lets_go).result(timeout=5)


def test_who_waits_for_room_lets_another_one_work():
    work, room = WorkLock(), Room(100)
    holder, next_ = room.seat(), room.seat()
    holder.take(100)

    def waits():
        with work.held():
            next_.take(50)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waits)
        until(lambda: room._waiting)
        with work.held():
            holder.leave()
        waiting.result(timeout=5)
