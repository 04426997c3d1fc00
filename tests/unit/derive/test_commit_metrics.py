"""The metrics of the commits of a derived table."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import CursorConflict
from kinesis_assets.metrics.instruments import COMMIT_DURATION
from support.plain_derived import PlainDerived


@pytest.fixture
def derived(tmp_path):
    return PlainDerived(tmp_path / "derived")


def test_a_commit_records_how_long_it_took(derived, measurements):
    derived.append((1, 1, "a"))
    measurements.read()
    assert measurements.of(COMMIT_DURATION) == {(derived.table.uri,): 1}


def test_a_conflict_is_recorded_as_the_error_of_the_commit(derived, measurements):
    late = derived.planned([(1, 1, "a")])
    derived.append((2, 2, "a"))
    with pytest.raises(CursorConflict):
        late()
    measurements.read()
    uri = derived.table.uri
    assert measurements.of(COMMIT_DURATION) == {(uri,): 1, (uri, "CursorConflict"): 1}
