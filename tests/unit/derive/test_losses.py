"""How many of the rows that a table has consumed its source no longer has."""

from __future__ import annotations

import pytest

from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.losses import lost_rows
from support.derived import maintain_table
from support.plain_derived import PlainDerived

pytestmark = pytest.mark.slow


def land(bench, *items, **settings):
    bench.put(*items)
    bench.run(**settings)


def consume(bench, folder):
    """Return the commit of a table that has consumed all rows which its source has now."""
    position = open_source(bench.table.uri).end
    table = PlainDerived(folder / "consumer", position.source)
    return table.append(cursor=position, consumed=len(bench.rows))


def lost(bench, newest):
    return lost_rows(open_source(bench.table.uri), newest)


@pytest.fixture
def bench(bench_of_today):
    """A bench whose records stay in the stream."""
    bench_of_today.create()
    bench_of_today.set_retention(hours=1000)
    return bench_of_today


def test_rows_that_a_replay_adds_in_a_gap_make_up_for_none_that_expired(bench, tmp_path):
    land(bench, 1, 2)
    bench.later(days=3)
    bench.put(3, 4)
    bench.later(hours=1)
    bench.seek("LATEST")
    newest = consume(bench, tmp_path)
    maintain_table(bench, retention_days=2)
    assert lost(bench, newest) == 2
    bench.replay()
    assert (bench.items, lost(bench, newest)) == ([3, 4], 2)


def test_rows_that_a_replay_adds_from_before_the_first_read_make_up_for_none_that_are_missing(
    bench, tmp_path
):
    bench.put(3, 4)
    bench.later(hours=1)
    bench.run(start="LATEST")
    bench.later(hours=1)
    end = bench.now
    bench.later(hours=1)
    land(bench, 1, 2)
    newest = consume(bench, tmp_path)
    bench.lose(1, 2)
    bench.replay(end=f"{end:%Y-%m-%dT%H:%M:%SZ}")
    assert (bench.items, lost(bench, newest)) == ([3, 4], 2)


@pytest.fixture
def replayed(bench, tmp_path):
    """The commit of a table that has consumed 1 and 2, which the source lost and a replay added again."""
    land(bench, 1, 2)
    newest = consume(bench, tmp_path)
    bench.lose(1, 2)
    bench.replay()
    return newest


def test_rows_that_a_replay_added_again_are_not_lost(bench, replayed):
    assert lost(bench, replayed) == 0


def test_rows_that_were_added_again_and_deleted_again_are_lost(bench, replayed):
    bench.lose(1)
    assert lost(bench, replayed) == 1


def test_rows_that_two_replays_added_again_are_not_lost(bench, replayed):
    bench.lose(1, 2)
    bench.replay()
    assert (bench.items, lost(bench, replayed)) == ([1, 2], 0)


def test_rows_that_were_added_again_are_not_lost_by_a_seek_back(bench, replayed):
    bench.seek("TRIM_HORIZON")
    assert (bench.items, lost(bench, replayed)) == ([], 0)
