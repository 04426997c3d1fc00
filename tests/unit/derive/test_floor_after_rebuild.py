"""After a rebuild, a table has lost rows of its source only if the floor of the source deleted some."""

from __future__ import annotations

from math import inf

import pytest

from kinesis_assets.derive.commit_entry import Definition, Kind
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.new_rows import next_rows
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.rebuild import rebuild
from kinesis_assets.errors import SourceRowsDeleted
from support.derived import maintain_table
from support.formats import source_format, table_of
from support.plain_derived import PlainDerived

pytestmark = pytest.mark.slow


def source_of(bench):
    return open_source(bench.table.uri, format=source_format(bench.table))


@pytest.fixture(params=["delta", "iceberg"])
def old(request, bench_of_today, tmp_path):
    """A table with 1, which arrived three days ago, and 2."""
    bench = bench_of_today
    if request.param == "iceberg":
        bench.table = table_of("iceberg", str(tmp_path / "iceberg"), bench.table.policy)
    bench.create()
    bench.set_retention(hours=1000)
    bench.put(1)
    bench.run()
    bench.later(days=3)
    bench.put(2)
    bench.run()
    return bench


@pytest.fixture
def started_again(old, tmp_path):
    """A derived table of which all rows were deleted by a rebuild."""
    source = source_of(old)
    table = PlainDerived(tmp_path / "consumer", source.id)
    table.append((1, 1, "a"), cursor=source.end, consumed=2)
    rebuild(table.table, source, Definition(kind=Kind.APPEND), ["part"], by="ann", apply=True)
    return table.table


def next_after_rebuild(started_again, bench):
    return next_rows(
        started_again.uri,
        started_again.snapshot(),
        source_of(bench),
        on_deleted=OnDeleted.FAIL,
        max_bytes=inf,
        is_rollup=False,
    )


def test_a_floor_that_deletes_no_row_after_a_rebuild_is_no_loss(started_again, old):
    maintain_table(old, retention_days=3)
    assert old.amendment.floor is not None
    rows = next_after_rebuild(started_again, old)
    assert (old.items, len(rows.files), rows.lost) == ([1, 2], 2, [])


def test_a_floor_that_deletes_rows_after_a_rebuild_is_refused(started_again, old):
    maintain_table(old, retention_days=2)
    assert old.items == [2]
    with pytest.raises(SourceRowsDeleted, match="arrived before"):
        next_after_rebuild(started_again, old)


def test_a_floor_is_no_loss_after_a_rebuild_over_a_source_without_rows(bench_of_today, tmp_path):
    bench = bench_of_today
    bench.create()
    bench.set_retention(hours=1000)
    bench.run()
    source = source_of(bench)
    table = PlainDerived(tmp_path / "consumer", source.id)
    table.append(cursor=source.end, consumed=0)
    rebuild(table.table, source, Definition(kind=Kind.APPEND), ["part"], by="ann", apply=True)
    bench.later(days=3)
    maintain_table(bench, retention_days=2)
    bench.put(1)
    bench.run()
    assert bench.amendment.floor is not None
    assert next_after_rebuild(table.table, bench).lost == []
