"""Functions of Arrow batches in a row run as one, unless something else comes in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kinesis_assets.spark.arrow_steps import is_mapped, map_in_arrow

if TYPE_CHECKING:
    from kinesis_assets.spark.arrow_steps import ArrowStep


@dataclass
class Frame:
    """The part of a DataFrame that `map_in_arrow` uses, with its rows in batches of this process."""

    batches: list[pa.RecordBatch]
    before: Frame | None = None
    is_cached: bool = False
    schemas: list[Any] = field(default_factory=list)

    def mapInArrow(self, step: ArrowStep, schema: Any) -> Frame:  # noqa: N802  # PySpark's name
        return Frame(list(step(iter(self.batches))), self, schemas=[*self.schemas, schema])

    @property
    def values(self) -> list[list[int]]:
        return [batch["n"].to_pylist() for batch in self.batches]


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def plus(number: int) -> ArrowStep:
    def run(batches):
        for batch in batches:
            yield numbers(*(value + number for value in batch["n"].to_pylist()))

    return run


def squared_twice(batches):
    for batch in batches:
        for _ in range(2):
            yield numbers(*(value**2 for value in batch["n"].to_pylist()))


def dropped(batches):
    for batch in batches:
        yield batch.slice(0, 0)


@pytest.fixture
def source():
    return Frame([numbers(1, 2), numbers(3)])


def test_steps_run_in_their_order_over_the_batches_of_the_one_before(source):
    rows = map_in_arrow(map_in_arrow(source, plus(1), "first"), squared_twice, "second")
    assert rows.values == [[4, 9], [4, 9], [16], [16]]


def test_steps_in_a_row_are_one_function_of_the_rows_before_them(source):
    first = map_in_arrow(source, plus(1), "first")
    rows = map_in_arrow(map_in_arrow(first, plus(10), "second"), plus(100), "third")
    assert (rows.before, rows.schemas) == (source, ["third"])
    assert rows.values == [[112, 113], [114]]


def test_two_steps_after_the_same_one_do_not_see_each_other(source):
    first = map_in_arrow(source, plus(1), "n long")
    tens, hundreds = (map_in_arrow(first, plus(number), "n long") for number in (10, 100))
    assert (tens.values, hundreds.values) == ([[12, 13], [14]], [[102, 103], [104]])
    assert first.values == [[2, 3], [4]]


def test_empty_batches_and_no_batches_are_passed_on(source):
    rows = map_in_arrow(map_in_arrow(source, dropped, "n long"), plus(1), "n long")
    assert rows.values == [[], []]
    assert map_in_arrow(map_in_arrow(Frame([]), plus(1), "n long"), squared_twice, "n long").values == []


def test_batches_are_passed_on_one_by_one(source):
    seen = []

    def watched(batches):
        for batch in batches:
            seen.append(batch["n"].to_pylist())
            yield batch

    def stopping(batches):
        yield next(batches)

    first = map_in_arrow(source, watched, "n long")
    seen.clear()
    map_in_arrow(first, stopping, "n long")
    assert seen == [[1, 2]]


def test_a_step_that_raises_fails_the_whole(source):
    def raising(batches):
        yield next(batches)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        map_in_arrow(map_in_arrow(source, raising, "n long"), plus(1), "n long")


def test_rows_are_mapped_only_after_a_step(source):
    rows = map_in_arrow(source, plus(1), "n long")
    assert (is_mapped(source), is_mapped(rows)) == (False, True)


def test_a_step_after_cached_rows_gets_these(source):
    first = map_in_arrow(source, plus(1), "n long")
    first.is_cached = True
    rows = map_in_arrow(first, plus(10), "n long")
    assert not is_mapped(first)
    assert (rows.before, rows.values) == (first, [[12, 13], [14]])
