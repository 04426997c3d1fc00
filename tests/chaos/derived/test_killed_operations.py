"""A rebuild, a change of the owner or a maintenance of a derived table is killed at a step, and repeated.

The tables are written without Spark.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from chaos.derived.kill import COMMIT, MOMENTS, killed
from kinesis_assets.derive import maintenance
from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import Definition, Kind
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.new_rows import rows_since
from kinesis_assets.derive.policy import MAX_BYTES
from kinesis_assets.derive.rebuild import rebuild, take_over
from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.steps import MaintenanceLimits
from support.dated import Dated
from support.formats import FORMAT, source_format
from support.plain_derived import PlainDerived, flatten, steps_of
from support.table_folder import files_of, set_age

if TYPE_CHECKING:
    from pathlib import Path

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.source import Source

pytestmark = pytest.mark.any_format

TWO_FILES = MaintenanceLimits(small_files=2)

OWNED = Definition(owner="orders", kind=Kind.APPEND)
RENAMED = Definition(owner="sales", kind=Kind.APPEND)

COMMITTING = [
    *(("before", step) for step in COMMIT if step != "write files"),
    ("after", "commit request"),
]


def opened(derived: PlainDerived | Dated) -> Source:
    return open_source(derived.table.uri, format=source_format(derived.table))


def newest_of(derived: PlainDerived) -> DerivedCommit:
    newest = derived.table.snapshot().newest
    assert newest is not None
    return newest


@pytest.fixture
def source(tmp_path: Path) -> PlainDerived:
    """A table with rows of two commits."""
    source = PlainDerived(tmp_path / "source")
    source.append((1, 1, "a"), (2, 2, "b"))
    source.append((3, 3, None))
    return source


@pytest.fixture
def orders(source: PlainDerived, tmp_path: Path) -> PlainDerived:
    """A table of the asset `orders` that has consumed them, and a row that the source never had."""
    orders = PlainDerived(tmp_path / "orders", source.id)
    orders.consume_all(source)
    newest = newest_of(orders)
    orders.append((9, 9, "of an older function"), cursor=newest.cursor)
    commit(
        orders.table,
        Attempt(cursor=newest.cursor, batch_id=new_id(), definition=OWNED),
        expected=newest_of(orders).commit_id,
    )
    return orders


@pytest.mark.parametrize(("moment", "step"), COMMITTING)
def test_a_killed_rebuild_leaves_the_table_as_it_was_or_empty_and_is_repeated(
    source: PlainDerived, orders: PlainDerived, moment: str, step: str
) -> None:
    before, rows, source_before = newest_of(orders), orders.rows, opened(source)
    with killed(moment, step):
        rebuild(orders.table, source_before, OWNED, ("part",), by="ann", apply=True)
    if (moment, step) == ("after", "commit request"):
        assert (orders.rows, newest_of(orders).previous) == ({}, None)
    else:
        assert (orders.rows, newest_of(orders)) == (rows, before)
    source.append((4, 4, "a"))
    rebuild(orders.table, opened(source), OWNED, ("part",), by="ann", apply=True)
    orders.consume_all(source)
    assert orders.rows == source.rows
    assert orders.consume(source) is None


@pytest.mark.parametrize(("moment", "step"), COMMITTING)
def test_the_run_after_a_killed_rebuild_continues_before_or_after_it(
    source: PlainDerived, orders: PlainDerived, moment: str, step: str
) -> None:
    rows = orders.rows
    with killed(moment, step):
        rebuild(orders.table, opened(source), OWNED, ("part",), by="ann", apply=True)
    source.append((4, 4, "a"))
    orders.consume_all(source)
    is_rebuilt = (moment, step) == ("after", "commit request")
    assert orders.rows == (source.rows if is_rebuilt else {**rows, (4, 4, "a"): 1})
    assert orders.consume(source) is None


@pytest.mark.parametrize(("moment", "step"), COMMITTING)
def test_a_killed_change_of_the_owner_is_made_or_not_and_changes_nothing_else(
    source: PlainDerived, orders: PlainDerived, moment: str, step: str
) -> None:
    rows, cursor = orders.rows, newest_of(orders).cursor
    with killed(moment, step):
        take_over(orders.table, RENAMED, by="ann", apply=True)
    if (moment, step) == ("after", "commit request"):
        assert newest_of(orders).definition == RENAMED
        with pytest.raises(InvalidInput, match="nothing to take over"):
            take_over(orders.table, RENAMED, by="ann", apply=True)
    else:
        assert newest_of(orders).definition == OWNED
        take_over(orders.table, RENAMED, by="ann", apply=True)
    newest = newest_of(orders)
    assert (orders.rows, newest.cursor, newest.definition) == (rows, cursor, RENAMED)
    source.append((4, 4, "a"))
    orders.consume_all(source)
    assert orders.rows == {**rows, (4, 4, "a"): 1}


@pytest.mark.parametrize("step", [step for step in COMMIT if step != "write files"])
def test_what_a_killed_commit_has_written_is_deleted_by_maintenance(orders: PlainDerived, step: str) -> None:
    named = files_of(orders.table)
    with killed("after", step):
        orders.append((4, 4, "a"))
    written = {
        path for path in files_of(orders.table) - named if not path.startswith(("_delta_log", "_kinesis"))
    }
    assert written
    set_age(orders.table, timedelta(days=8), *written)
    orders.append((5, 5, "b"))
    steps_of(orders)
    if step == "commit request":
        assert written <= files_of(orders.table)
    else:
        assert written.isdisjoint(files_of(orders.table))


# Rows that expire


@pytest.mark.parametrize(
    ("step", "nth", "kept"),
    [
        ("write entry", 1, [1, 2, 3, 4]),  # of the commit that removes whole files
        ("commit request", 1, [3, 4]),
        ("write kept rows", 1, [3, 4]),  # of the other file
        ("verify file", 1, [3, 4]),
        ("write entry", 2, [3, 4]),
        ("commit request", 2, [4]),
    ],
    ids=str,
)
def test_killed_maintenance_lets_rows_expire_or_not_and_is_repeated(
    tmp_path: Path, step: str, nth: int, kept: list[int]
) -> None:
    dated = Dated.create(tmp_path / "dated")
    dated.append((0, 0))
    cursor = rows_since(opened(dated), None, MAX_BYTES).cursor
    dated.append((1, 91), (2, 91))
    dated.append((3, 91), (4, 0))
    with killed("after", step, nth):
        dated.expire()
    assert dated.keys == [0, *kept]
    dated.expire()
    newest = dated.table.snapshot().newest
    assert newest is not None
    assert newest.floor is not None
    assert (dated.keys, newest.floor.rows) == ([0, 4], 3)
    assert [each.rows for each in rows_since(opened(dated), cursor, MAX_BYTES).lost] == [2, 1]
    assert dated.expire() == []


# Files that are merged, of a Delta table also those outside of folders, as older releases wrote them


@pytest.fixture
def flat(tmp_path: Path) -> PlainDerived:
    """A table with a large and a small file of one partition outside of its folder, and one of another.

    An Iceberg table has no such files, and here no partitions.
    """
    derived = PlainDerived(tmp_path / "flat", partitioned=FORMAT == "delta")
    derived.append(*((number, number, "a") for number in range(1000)))
    derived.append((1001, 1, "a"))
    derived.append((1002, 2, None))
    if FORMAT == "delta":
        flatten(derived)
    return derived


MOVES = {
    "delta": [
        *("open merged file", "merge files", "open moved file", "copy file", "replace files"),
        *("vacuum", "checkpoint"),
    ],
    "iceberg": ["open merged file", "merge files", "replace files", "add nothing", "vacuum"],
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("step", MOVES[FORMAT])
def test_a_killed_compaction_or_move_of_files_changes_no_row_and_is_repeated(
    flat: PlainDerived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, step: str
) -> None:
    sizes = sorted(file.size for file in flat.table.snapshot().data_files())
    monkeypatch.setattr(maintenance, "SMALL_BYTES", sizes[-1])
    below = PlainDerived(tmp_path / "below", flat.id)
    below.consume_all(flat)
    rows, batch_ids, newest = flat.rows, flat.batch_ids, newest_of(flat)
    later = datetime.now(UTC) + timedelta(days=20)
    with killed(moment, step):
        steps_of(flat, later, limits=TWO_FILES)
        steps_of(flat, later, limits=TWO_FILES)  # an Iceberg table is vacuumed before it is compacted
    assert (flat.rows, flat.batch_ids, newest_of(flat)) == (rows, batch_ids, newest)
    steps_of(flat, later, limits=TWO_FILES)
    if FORMAT == "delta":
        assert all(path.startswith("part=") for path in flat.active)
    else:
        assert len(flat.active) == 2
    assert (flat.rows, flat.batch_ids, newest_of(flat)) == (rows, batch_ids, newest)
    flat.append((1003, 3, "a"))
    below.consume_all(flat)
    assert below.rows == flat.rows
