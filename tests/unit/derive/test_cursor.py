"""Which batches of a source a selection includes, by their ids and in SQL, and the text of a cursor."""

from __future__ import annotations

import math

import pytest

from kinesis_assets.derive.cursor import BatchRecords, Cursor, Selection
from kinesis_assets.errors import InvalidInput

ALL = Selection()
AFTER_4 = Selection(above=4)
UP_TO_6 = Selection(through=6)
SOME = Selection(only=frozenset({3, 8}))
OTHERS = Selection(without=frozenset({5}))
RECORDS = BatchRecords(7, "it's", (10, -1), (12, math.inf))
NOT_RECORDS = Selection(without_records=(RECORDS,))


@pytest.mark.parametrize(
    ("selection", "included"),
    [
        (ALL, {3, 4, 5, 6, 7, 8}),
        (AFTER_4, {5, 6, 7, 8}),
        (UP_TO_6, {3, 4, 5, 6}),
        (SOME, {3, 8}),
        (OTHERS, {3, 4, 6, 7, 8}),
        (Selection(above=3, through=6, only=frozenset({3, 5, 6, 7}), without=frozenset({6})), {5}),
    ],
)
def test_a_batch_is_included_if_all_conditions_apply(selection, included):
    batches = range(3, 9)
    assert {batch_id for batch_id in batches if selection.includes(batch_id)} == included
    assert {batch_id for batch_id in batches if selection.may_include(batch_id, batch_id)} == included
    assert {batch_id for batch_id in batches if selection.includes_all(batch_id, batch_id)} == included


@pytest.mark.parametrize(
    ("selection", "first", "last", "some", "whole"),
    [
        (ALL, 3, 8, True, True),
        (AFTER_4, 3, 4, False, False),
        (AFTER_4, 4, 5, True, False),
        (AFTER_4, 5, 8, True, True),
        (UP_TO_6, 3, 6, True, True),
        (UP_TO_6, 6, 7, True, False),
        (UP_TO_6, 7, 8, False, False),
        (SOME, 1, 3, True, False),
        (SOME, 4, 7, False, False),
        (SOME, 8, 9, True, False),
        (OTHERS, 3, 4, True, True),
        (OTHERS, 4, 5, True, False),
        (OTHERS, 5, 6, True, False),
        (OTHERS, 6, 8, True, True),
        (Selection(without=frozenset({2, 5})), 4, 6, True, False),
        (NOT_RECORDS, 3, 8, True, False),
    ],
)
def test_a_file_of_several_batches_may_have_or_has_only_selected_rows(selection, first, last, some, whole):
    assert (selection.may_include(first, last), selection.includes_all(first, last)) == (some, whole)


@pytest.mark.parametrize(
    ("selection", "first", "last", "some"),
    [
        (ALL, None, None, True),
        (AFTER_4, None, 4, False),
        (AFTER_4, None, 5, True),
        (UP_TO_6, 6, None, True),
        (UP_TO_6, 7, None, False),
        (SOME, 4, None, True),
        (SOME, None, 7, True),
        (Selection(only=frozenset()), None, None, False),
    ],
)
def test_a_file_of_unknown_batches_may_have_selected_rows_unless_a_bound_excludes_it(
    selection, first, last, some
):
    assert selection.may_include(first, last) is some
    assert selection.includes_all(first, last) is False


@pytest.mark.parametrize(
    ("selection", "condition"),
    [
        (ALL, "TRUE"),
        (Selection(above=0), "b > 0"),
        (AFTER_4, "b > 4"),
        (UP_TO_6, "b <= 6"),
        (SOME, "b IN (3, 8)"),
        (Selection(only=frozenset()), "FALSE"),
        (OTHERS, "b NOT IN (5)"),
        (Selection(above=4, through=6), "b > 4 AND b <= 6"),
        (
            NOT_RECORDS,
            (
                "NOT (batch_id = 7 AND shard_id = 'it''s' "
                "AND (sequence_number LIKE '___%' OR (sequence_number LIKE '__' AND "
                "(sequence_number > '10' OR (sequence_number = '10' AND sub_sequence_number > -1)))) "
                "AND NOT (sequence_number LIKE '___%' OR (sequence_number LIKE '__' AND "
                "(sequence_number > '12'))))"
            ),
        ),
    ],
)
def test_the_condition_in_sql_says_the_same(selection, condition):
    assert selection.condition("b") == condition


@pytest.mark.parametrize(
    ("after", "text"),
    [((10, -1), "a (10 to 12)"), ((10, 0), "a (after 10 to 12)"), ((10, 5), "a (after 10 to 12)")],
)
def test_the_text_of_records_says_whether_the_first_is_included(after, text):
    assert str(BatchRecords(7, "a", after, (12, math.inf))) == text


def test_the_text_of_a_cursor_is_parsed_to_the_same_cursor():
    cursor = Cursor(source="s", commit=5, amendment=6, history=7)
    assert Cursor.parse(str(cursor)) == cursor


def test_a_text_that_is_no_cursor_is_refused_with_its_first_80_characters():
    with pytest.raises(InvalidInput, match=rf"invalid cursor '{'x' * 80}': "):
        Cursor.parse("x" * 100)
