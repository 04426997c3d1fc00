"""Derived tables in a continuous run: when their thread consumes, and what their failures delay."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from benchmarks.harness.waiting import wait_until
from kinesis_assets.derive.continuous import ContinuousDerivations
from kinesis_assets.errors import CursorConflict
from kinesis_assets.retry import Backoff
from support.virtual_time import VirtualTime

BACKOFF = Backoff(1.0, 8.0)


class Tables:
    """Sources with numbers, tables that consume them, and what the thread reported, in virtual time."""

    def __init__(self, *names):
        self.names = names
        self.time = VirtualTime()
        self.pending = {name: [] for name in names}
        self.errors = {}
        self.attempts = Counter()
        self.seconds = 0.0  # that a step takes
        self.reported = []
        self.on_report = lambda *_: None
        self.failures = []

    def derivations(self):
        return ContinuousDerivations(
            {name: lambda name=name: self.consume(name) for name in self.names},
            report=self.report,
            report_failure=lambda name, error: self.failures.append((name, str(error))),
            backoff=BACKOFF,
            clock=self.time,
        )

    def consume(self, name):
        """Consume what is new. As in `derive`, each step decides whether there is another one."""
        self.attempts[name] += 1
        more = bool(self.pending[name])
        while more:
            if name in self.errors:
                raise self.errors[name]
            number = self.pending[name].pop(0)
            more = bool(self.pending[name])
            self.time.now += self.seconds
            yield number

    def report(self, name, number):
        self.on_report(name, number)
        self.reported.append((name, number))


@pytest.fixture
def tables():
    return Tables("orders", "revenue")


def test_what_the_source_has_at_the_start_is_consumed(tables):
    tables.pending["orders"] = [1, 2]
    with tables.derivations():
        wait_until(lambda: tables.reported == [("orders", 1), ("orders", 2)])


def test_a_commit_is_consumed_while_the_run_goes_on(tables):
    with tables.derivations() as derivations:
        wait_until(lambda: tables.attempts["revenue"] >= 1)
        tables.pending["revenue"] = [1]
        derivations.consume()
        wait_until(lambda: tables.reported == [("revenue", 1)])


def test_the_last_pass_consumes_what_was_committed_before_the_end(tables):
    with tables.derivations():
        wait_until(lambda: tables.attempts["revenue"] >= 1)
        tables.pending["orders"] = [1]  # no call says so
    assert tables.reported == [("orders", 1)]


def test_each_table_is_consumed_after_its_source(tables):
    tables.pending = {"orders": [1], "revenue": [2]}
    with tables.derivations():
        pass
    assert tables.reported == [("orders", 1), ("revenue", 2)]


def test_a_table_with_a_long_backlog_does_not_hold_up_the_others(tables):
    tables.pending = {"orders": [1, 2, 3], "revenue": [4, 5]}
    tables.seconds = 10.0
    with tables.derivations():
        wait_until(lambda: len(tables.reported) == 5)
    turns = [("orders", 1), ("revenue", 4), ("orders", 2), ("revenue", 5), ("orders", 3)]
    assert tables.reported == turns


def test_a_table_that_is_far_behind_at_the_end_goes_on_in_the_next_run(tables):
    tables.seconds = 25.0
    with tables.derivations():
        wait_until(lambda: tables.attempts["revenue"] >= 1)
        tables.pending["orders"] = [1, 2, 3, 4, 5]
    assert (tables.reported, tables.pending["orders"]) == (
        [("orders", 1), ("orders", 2), ("orders", 3)],
        [4, 5],
    )


def test_a_table_consumes_what_its_source_commits_after_the_end(tables):
    tables.on_report = lambda name, number: name == "orders" and tables.pending["revenue"].append(10 * number)
    with tables.derivations():
        wait_until(lambda: tables.attempts["revenue"] >= 1)
        tables.pending["orders"] = [1, 2, 3]
    assert [number for name, number in tables.reported if name == "revenue"] == [10, 20, 30]


def committed_meanwhile(tables, then):
    """Let the source get another commit while the last step of a table ends, and act then."""

    def on_report(_, number):
        if number == 1:
            tables.pending["orders"].append(2)
            then()

    tables.on_report = on_report
    tables.seconds = 10.0  # so that the step ends the turn of the table


def test_a_commit_that_comes_during_the_last_step_of_a_table_is_consumed_while_the_run_goes_on(tables):
    derivations = tables.derivations()
    committed_meanwhile(tables, derivations.consume)
    tables.pending["orders"] = [1]
    with derivations:
        wait_until(lambda: tables.reported == [("orders", 1), ("orders", 2)])


def test_a_commit_that_comes_during_the_last_step_of_a_table_is_consumed_at_the_end(tables):
    stepping, may_go_on = threading.Event(), threading.Event()

    def until_the_run_ends():
        stepping.set()
        may_go_on.wait()

    committed_meanwhile(tables, until_the_run_ends)
    tables.pending["orders"] = [1]
    derivations = tables.derivations()
    with derivations:
        stepping.wait()
        threading.Timer(0.1, may_go_on.set).start()
    assert tables.reported == [("orders", 1), ("orders", 2)]


def test_a_table_of_which_a_commit_cannot_be_reported_waits_before_it_goes_on(tables):
    refusals = [OSError("no connection")]

    def on_report(*_):
        if refusals:
            raise refusals.pop()

    tables.on_report = on_report
    tables.pending["orders"] = [1, 2]
    with tables.derivations():
        wait_until(lambda: tables.reported == [("orders", 2)])
    assert tables.time.waits == [1.0]


def test_a_failing_table_does_not_delay_the_others(tables):
    tables.pending = {"orders": [1], "revenue": [2]}
    tables.errors["orders"] = ValueError("invalid column")
    with tables.derivations() as derivations:
        pass
    assert tables.reported == [("revenue", 2)]
    assert {name: str(error) for name, error in derivations.failures.items()} == {"orders": "invalid column"}


@pytest.mark.slow
def test_a_failing_table_is_tried_again_without_a_new_commit(tables):
    tables.pending["orders"] = [1]
    tables.errors["orders"] = OSError("the disk is full")
    with tables.derivations() as derivations:
        wait_until(lambda: tables.attempts["orders"] >= 6)
        tables.errors.clear()
        wait_until(lambda: tables.reported == [("orders", 1)])
    assert tables.time.waits[:5] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert derivations.failures == {}


@pytest.mark.slow
def test_commits_do_not_shorten_the_wait_of_a_failing_table_but_the_end_of_the_run_does(tables):
    tables.pending["orders"] = [1]
    tables.errors["orders"] = OSError("the disk is full")
    tables.time.wait = lambda changed, _: changed.wait()  # the test moves the clock
    with tables.derivations() as derivations:
        wait_until(lambda: tables.attempts["revenue"] == 1)
        for passes, (seconds, attempts) in enumerate([(0.9, 1), (0.2, 2), (1.8, 2), (0.3, 3)], 2):
            tables.time.now += seconds
            derivations.consume()
            wait_until(lambda passes=passes: tables.attempts["revenue"] == passes)
            assert tables.attempts["orders"] == attempts
        tables.errors.clear()
    assert tables.reported == [("orders", 1)]


@pytest.mark.slow
def test_a_failure_is_reported_once_until_its_reason_changes(tables):
    tables.pending["orders"] = [1]
    tables.errors["orders"] = OSError("the disk is full")
    with tables.derivations():
        wait_until(lambda: tables.attempts["orders"] >= 3)
        tables.errors["orders"] = OSError("the disk is gone")
        wait_until(lambda: len(tables.failures) == 2)
    assert tables.failures == [("orders", "the disk is full"), ("orders", "the disk is gone")]


def test_a_failure_that_cannot_be_reported_does_not_delay_the_other_tables(tables):
    tables.pending = {"orders": [1], "revenue": [2]}
    tables.errors["orders"] = ValueError("invalid column")
    tables.failures = None  # so that reporting fails
    with tables.derivations() as derivations:
        pass
    assert (tables.reported, list(derivations.failures)) == ([("revenue", 2)], ["orders"])


def test_rows_that_another_run_consumed_are_no_failure(tables):
    tables.pending["orders"] = [1]
    tables.errors["orders"] = CursorConflict("orders", "another run has consumed the same rows")
    with tables.derivations() as derivations:
        wait_until(lambda: tables.attempts["orders"] >= 3)
    assert (tables.failures, derivations.failures) == ([], {})


def test_a_stop_ends_after_the_current_step():
    started, may_end = threading.Event(), threading.Event()

    def slow():
        started.set()
        may_end.wait()
        yield 1
        yield 2

    reported = []
    derivations = ContinuousDerivations(
        {"orders": slow}, report=lambda *each: reported.append(each), report_failure=pytest.fail
    )
    with derivations:
        started.wait()
        derivations.stop()
        may_end.set()
    assert reported == [("orders", 1)]


def test_an_interrupt_waits_for_nothing():
    started, never = threading.Event(), threading.Event()

    def hanging():
        started.set()
        never.wait()
        yield

    def interrupted():
        with ContinuousDerivations({"orders": hanging}, report=pytest.fail, report_failure=pytest.fail):
            started.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
