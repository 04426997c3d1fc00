"""An expression of a derived table never returns a wrong number or null instead of an error (ANSI mode)."""

from __future__ import annotations

import pytest

from kinesis_assets.spark.session import start_session
from support.derived import order
from support.pipeline import SPARK_CONFIG

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("id + 2147483647", "ARITHMETIC_OVERFLOW"),
        ("amount / (id - 1)", "DIVIDE_BY_ZERO"),
        ("CAST(CAST(_record.data AS STRING) AS INT)", "CAST_INVALID_INPUT"),
    ],
)
def test_a_value_that_does_not_fit_makes_a_bad_record(typed, expression, reason):
    start_session(SPARK_CONFIG)  # as a run does; it is the session of the tests
    typed.consume(order(1), select=[f"{expression} AS number"])
    ((number, error),) = typed.values("number", "error")
    assert number is None
    assert error.startswith(f"select: {expression} AS number: [{reason}")
