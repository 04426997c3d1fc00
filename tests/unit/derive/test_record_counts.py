"""How many records of a step could not be decoded, as the tasks that write its rows count them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kinesis_assets.derive.data_files import RecordCounts, counts_of


def batch(errors, **columns):
    return pa.record_batch({"error": pa.array(errors, pa.string()), **columns})


def test_records_with_an_error_are_counted():
    assert counts_of(batch([None, "json: bad", "json: worse"]), "error") == RecordCounts(3, 2, "json: bad")
    assert counts_of(batch([None]), "error") == RecordCounts(1)
    assert counts_of(batch([]), "error") == RecordCounts()


def test_the_example_names_the_shard_and_the_sequence_number_where_rows_have_them():
    columns = {"shard_id": ["a", "b", None], "sequence_number": ["1", "2", None]}
    assert counts_of(batch([None, "bad", None], **columns), "error").example == "b: 2: bad"
    assert counts_of(batch([None, None, "bad"], **columns), "error").example == "bad"


def test_a_long_reason_is_cut():
    found = counts_of(batch(["x" * 10_000]), "error").example
    assert found is not None
    assert len(found) == 500


@pytest.mark.parametrize(("first", "second"), [(None, "b"), ("b", "c")])
def test_the_counts_of_several_batches_are_added_with_the_first_example(first, second):
    assert RecordCounts(3, 1, first) + RecordCounts(2, 2, second) == RecordCounts(5, 3, "b")
