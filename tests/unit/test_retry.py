"""Retries: the waits between attempts, and their number."""

from __future__ import annotations

import pickle

import pytest

from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.settings import ClientSettings, ReadTiming
from kinesis_assets.retry import Backoff, RetryPolicy, full_jitter, retry


class Failing:
    """An attempt that fails a number of times and then returns the number of attempts."""

    def __init__(self, failures, error=OSError):
        self.attempts = 0
        self._failures = failures
        self._error = error

    def __call__(self):
        self.attempts += 1
        if self.attempts <= self._failures:
            raise self._error(self.attempts)
        return self.attempts


def attempted(attempt, attempts=4, jitter=lambda seconds: seconds):
    """Retry an attempt, and return its result and the waits."""
    waits = []
    policy = RetryPolicy(attempts, Backoff(1.0, 3.0, jitter))
    return retry(attempt, on=OSError, policy=policy, sleep=waits.append), waits


def test_waits_double_with_each_failure_up_to_the_longest():
    assert [Backoff(0.5, 5.0).wait(failures) for failures in range(1, 7)] == [0.5, 1, 2, 4, 5, 5]
    assert Backoff(0.5, 5.0).wait(100_000) == 5


def test_jitter_draws_a_wait_from_nothing_to_the_seconds():
    waits = {full_jitter(2.0) for _ in range(1000)}
    assert len(waits) > 900
    assert min(waits) < 0.5
    assert 1.5 < max(waits) <= 2


def test_the_first_result_is_returned_without_a_wait():
    assert attempted(Failing(0)) == (1, [])


def test_failed_attempts_are_repeated_after_waits():
    assert attempted(Failing(3)) == (4, [1.0, 2.0, 3.0])


def test_jitter_applies_to_every_wait():
    assert attempted(Failing(2), jitter=lambda seconds: seconds / 2) == (3, [0.5, 1.0])


def test_the_last_attempts_error_is_raised():
    attempt = Failing(99)
    with pytest.raises(OSError, match="4"):
        attempted(attempt)
    assert attempt.attempts == 4


def test_any_other_error_is_raised_at_once():
    attempt = Failing(1, ValueError)
    with pytest.raises(ValueError, match="1"):
        attempted(attempt)
    assert attempt.attempts == 1


def test_settings_are_equal_on_an_executor_so_that_its_client_is_kept():
    settings = ClientSettings("us-east-1", timing=ReadTiming(clock=MACHINE_CLOCK))
    shipped = pickle.loads(pickle.dumps(settings))  # noqa: S301  # its own
    assert shipped == settings == ClientSettings("us-east-1")
    assert hash(shipped) == hash(settings)
