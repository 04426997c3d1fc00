"""Whose turn it is: who is due is taken, who waits holds no thread."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pytest

from kinesis_assets.kinesis.turns import Turns


def test_all_are_due_at_once_in_their_order():
    turns = Turns(3)
    assert [turns.next() for _ in range(3)] == [0, 1, 2]


def test_one_that_waits_lets_the_others_go_first():
    turns = Turns(3)
    turns.later(turns.next(), 0.2)
    assert [turns.next() for _ in range(2)] == [1, 2]
    began = time.monotonic()
    assert turns.next() == 0
    assert time.monotonic() - began > 0.1


def test_nobody_is_given_out_twice_at_once_and_all_end():
    turns, count = Turns(50), 50
    steps = [0] * count
    inside = [threading.Lock() for _ in range(count)]

    def work():
        while (number := turns.next()) is not None:
            assert inside[number].acquire(blocking=False)
            steps[number] += 1
            last = steps[number] == 20
            inside[number].release()
            turns.over() if last else turns.later(number, 0.0005 * (number % 5))

    with ThreadPoolExecutor(8) as pool:
        for work_ in [pool.submit(work) for _ in range(8)]:
            work_.result(timeout=30)
    assert steps == [20] * count


def test_one_that_is_due_sooner_than_the_awaited_one_is_not_kept_waiting():
    turns = Turns(2)
    first, second = turns.next(), turns.next()
    turns.later(first, 30)
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(turns.next) for _ in range(3)]
        turns.later(second, 0.05)
        done, _ = wait(waiting, timeout=5, return_when=FIRST_COMPLETED)
        turns.end()
    assert [each.result() for each in done] == [second]
    assert sorted(str(each.result()) for each in waiting) == ["1", "None", "None"]


@pytest.mark.parametrize("wake", [Turns.hurry, Turns.end])
def test_who_waits_for_a_far_turn_is_woken(wake):
    turns = Turns(1)
    turns.later(turns.next(), 60)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(turns.next)
        wake(turns)
        assert waiting.result(timeout=5) == (0 if wake is Turns.hurry else None)
