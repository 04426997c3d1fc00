"""The time that the parts of a tick may take."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest
from dagster._grpc.utils import default_sensor_grpc_timeout

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.dagster.sensor import tick_time
from kinesis_assets.dagster.sensor.tick_time import TickTime, dagsters_limit
from kinesis_assets.errors import TickTooLong

VARIABLES = ("DAGSTER_GRPC_TIMEOUT_SECONDS", "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS")


@pytest.mark.parametrize("values", [("", ""), ("30", ""), ("", "200"), ("300", "200")], ids=str)
def test_the_limit_is_that_of_dagster(monkeypatch, values):
    for name, value in zip(VARIABLES, values, strict=True):
        monkeypatch.setenv(name, value)
    assert dagsters_limit() == default_sensor_grpc_timeout()


def test_a_part_that_ends_in_time_may_store_what_it_finds():
    stored = []

    def part(refuse_if_over):
        refuse_if_over()
        stored.append(1)

    TickTime("clicks").carry_out(part, until=0.5)
    assert stored == [1]


def test_the_error_of_a_part_is_raised():
    def fail(_):
        raise TimeoutError("from the part")

    with pytest.raises(TimeoutError, match="from the part"):
        TickTime("clicks").carry_out(fail, until=0.5)


def test_a_part_that_takes_too_long_stores_nothing_any_more(monkeypatch):
    monkeypatch.setenv(VARIABLES[1], "1")
    answer, refused = threading.Event(), threading.Event()

    def part(refuse_if_over):
        answer.wait()
        try:
            refuse_if_over()
        except TickTooLong:
            refused.set()

    with pytest.raises(TickTooLong, match="not ready after 0 s"):
        TickTime("clicks").carry_out(part, until=0.1)
    answer.set()
    assert refused.wait(SECONDS)


def test_the_time_of_a_part_begins_with_the_tick(monkeypatch):
    monkeypatch.setenv(VARIABLES[1], "0")
    answer = threading.Event()
    with pytest.raises(TickTooLong):
        TickTime("clicks").carry_out(lambda _: answer.wait(), until=1.0)
    answer.set()


def test_functions_that_share_the_time_get_a_quarter_of_it_together(monkeypatch):
    monkeypatch.setenv(VARIABLES[1], "8")
    answer, waits = threading.Event(), []

    def wait_for_all_but_the_first(started, timeout):
        waits.append(timeout)
        wait(started[1:], SECONDS)

    monkeypatch.setattr(tick_time, "wait", wait_for_all_but_the_first)
    first, second, third = TickTime("clicks").share([answer.wait, lambda: 3, lambda: 1 / 0], until=0.5)
    answer.set()
    assert isinstance(first, TickTooLong)
    assert second == 3
    assert isinstance(third, ZeroDivisionError)
    (seconds,) = waits
    assert 0 < seconds <= 1


def test_nothing_is_called_once_the_time_is_over():
    called = threading.Event()
    (found,) = TickTime("clicks").share([called.set], until=0.0)
    assert isinstance(found, TickTooLong)
    assert not called.is_set()
