"""Where a step over batches ends whose runs overlapped."""

from __future__ import annotations

import pytest

from kinesis_assets.derive.row_order import end_between_commits


@pytest.mark.parametrize(
    ("recorded", "batch_id", "end"),
    [
        ([], 5, 5),
        ([1, 2, 3], 2, 2),
        ([1, 3, 2, 4], 1, 1),
        ([1, 3, 2, 4], 2, 3),
        ([1, 3, 2, 4], 3, 3),
        ([3, 1, 5, 2, 4, 6], 1, 5),  # 3 before 1, and 5 before 2
        ([2, 3, 4, 1], 1, 4),
        ([1, 3, 2], 0, 0),
        ([11, 13, 12], 9, 9),  # batches that are not recorded any more
        ([11, 13, 12], 12, 13),
    ],
)
def test_the_commits_up_to_the_end_are_those_before_all_others(recorded, batch_id, end):
    assert end_between_commits(batch_id, recorded) == end


@pytest.mark.parametrize(("overlapping", "end"), [(100, 100), (101, 0)])
def test_a_step_does_not_grow_without_a_limit(overlapping, end):
    assert end_between_commits(0, [*range(1, overlapping + 1), 0]) == end
