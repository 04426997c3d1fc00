"""Files that an upsert does not read must not have its keys: their statistics are compared with these."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kinesis_assets.derive.upsert import _may_contain
from kinesis_assets.table.data_file import TableFile
from support.plain_derived import PlainDerived

NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.sampled_from("\0 aé\ud7ff\uffee\ufffd\U0001f600\U0010ffff"), min_size=1, max_size=70)
ROWS = st.lists(st.tuples(NUMBERS, TEXTS), min_size=1, max_size=5)


@pytest.fixture
def tables(tmp_path):
    """Return a function that creates tables."""
    numbers = count()
    return lambda partitioned: PlainDerived(tmp_path / str(next(numbers)), partitioned=partitioned)


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@given(ROWS, ROWS)
@example([(0, "\uffee"), (0, "\U0001f600")], [(0, "\U0001f600")])
@example([(0, "\U00020bb7")], [(0, "a")])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_with_a_key_within_the_limits_is_read(tables, partitioned, stored, new):
    derived = tables(partitioned)
    derived.append(*((number, 0, text) for number, text in stored))
    keys = [*new, stored[0]]
    limits = {
        name: (min(values), max(values))
        for name, values in zip(("key", "part"), zip(*keys, strict=True), strict=True)
    }
    read = {
        (row["key"], row["part"])
        for file in derived.table.snapshot().data_files(["key", "part"])
        if _may_contain(file, limits)
        for batch in derived.read(derived.table.snapshot(), file)
        for row in batch.to_pylist()
    }
    assert {*stored} & {*keys} <= read


def test_a_file_whose_bound_may_be_another_one_is_read():
    """Statistics of earlier releases have U+20BB7 as an escape, which delta-rs reads as U+10BB7."""
    file = TableFile("part", 1, 1, smallest={"part": "a"}, greatest={"part": "\U00010bb7"})
    assert _may_contain(file, {"part": ("\U00020bb7", "\U00020bb7")})
