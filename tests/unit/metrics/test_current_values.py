"""Which values of a gauge are exported."""

from __future__ import annotations

import pytest

from kinesis_assets.metrics.recording import CURRENT_SECONDS, CurrentValues

A, B = {"shard": "a"}, {"shard": "b"}


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def values(clock):
    return CurrentValues(lambda: clock[0])


def test_the_last_value_of_each_shard_is_current(values):
    values.set(1, A)
    values.set(2, B)
    values.set(3, A)
    for _ in range(2):  # each reader of the SDK asks for them
        assert values.all() == [(3, A), (2, B)]


def test_a_value_that_is_not_set_again_is_not_exported_for_ever(values, clock):
    values.set(1, A)
    values.set(2, B)
    clock[0] += CURRENT_SECONDS - 1
    values.set(3, B)
    assert values.all() == [(1, A), (3, B)]
    clock[0] += 1
    assert values.all() == [(3, B)]
