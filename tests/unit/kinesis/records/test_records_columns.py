"""Columns built from buffers equal the columns that pyarrow builds from the values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_assets.kinesis.records import records

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)  # Cs: half a surrogate pair
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)


def same(made, values, kind):
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))


@given(st.lists(st.binary(max_size=12)))
def test_binaries(values):
    same(records.binaries(values), values, pa.binary())


@given(st.lists(WORDS))
def test_texts(values):
    same(records.texts(values), values, pa.string())


@given(st.lists(st.text(st.characters(max_codepoint=127), max_size=12)))
def test_ascii_texts(values):
    same(records.texts(values), values, pa.string())


@given(st.lists(st.none() | WORDS, max_size=20))
def test_texts_or_nulls(values):
    column = records.texts_or_nulls(values)
    same(column, values, pa.string())
    assert column.null_count == values.count(None)


@given(st.lists(INTEGERS))
def test_integers(values):
    same(records.integers(values), values, pa.int64())
    same(records.integers(np.array(values, np.int64)), values, pa.int64())


@given(WORDS, st.integers(0, 20))
def test_same_text(value, count):
    same(records.same_text(value, count), [value] * count, pa.string())


@given(INTEGERS, st.integers(0, 20))
def test_same_integer(value, count):
    same(records.same_integer(value, count), [value] * count, pa.int64())


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(UnicodeEncodeError):
        records.texts(["fine", "\ud800"])
