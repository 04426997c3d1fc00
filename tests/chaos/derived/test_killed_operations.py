"""A rebuild, a change of the owner or a maintenance of a derived table is killed at a step, and repeated.

The tables are written without Spark.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from chaos.derived.kill import MOMENTS, killed
from kinesis_assets import new_rows
from kinesis_assets.derive import maintenance
from kinesis_assets.derive.commit import commit
from kinesis_assets.derive.commit_entry import Definition, Kind
from kinesis_assets.derive.rebuild import rebuild, take_over
from kinesis_assets.derive.source_tables import open_source
from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.commit_ids import new_id
from support.dated import Dated
from support.plain_derived import PlainDerived, flatten, steps_of

if TYPE_CHECKING:
    from pathlib import Path

    from kinesis_assets.derive.commit_entry import DerivedCommit

OWNED = Definition(owner="orders", kind=Kind.APPEND)
RENAMED = Definition(owner="sales", kind=Kind.APPEND)

COMMITTING = [(moment, step) for step in ("write entry", "commit request") for moment in MOMENTS]


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
        expected=newest_of(orders).commit_id,
        cursor=newest.cursor,
        batch_id=new_id(),
        definition=OWNED,
    )
    return orders


@pytest.mark.parametrize(("moment", "step"), COMMITTING)
def test_a_killed_rebuild_leaves_the_table_as_it_was_or_empty_and_is_repeated(
    source: PlainDerived, orders: PlainDerived, moment: str, step: str
) -> None:
    before, rows, opened = newest_of(orders), orders.rows, open_source(source.table.uri)
    with killed(moment, step):
        rebuild(orders.table, opened, OWNED, ["part"], by="ann", apply=True)
    if (moment, step) == ("after", "commit request"):
        assert (orders.rows, newest_of(orders).previous) == ({}, None)
    else:
        assert (orders.rows, newest_of(orders)) == (rows, before)
    source.append((4, 4, "a"))
    rebuild(orders.table, open_source(source.table.uri), OWNED, ["part"], by="ann", apply=True)
    orders.consume_all(source)
    assert orders.rows == source.rows
    assert orders.consume(source) is None


@pytest.mark.parametrize(("moment", "step"), COMMITTING)
def test_the_run_after_a_killed_rebuild_continues_before_or_after_it(
    source: PlainDerived, orders: PlainDerived, moment: str, step: str
) -> None:
    rows = orders.rows
    with killed(moment, step):
        rebuild(orders.table, open_source(source.table.uri), OWNED, ["part"], by="ann", apply=True)
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
    cursor = new_rows(dated.table.uri).cursor
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
    assert [each.rows for each in new_rows(dated.table.uri, cursor).lost] == [2, 1]
    assert dated.expire() == []


# Files outside of folders, as older releases wrote them


@pytest.fixture
def flat(tmp_path: Path) -> PlainDerived:
    """A table with a large and a small file of one partition outside of its folder, and one of another."""
    derived = PlainDerived(tmp_path / "flat")
    derived.append(*((number, number, "a") for number in range(1000)))
    derived.append((1001, 1, "a"))
    derived.append((1002, 2, None))
    flatten(derived)
    return derived


MOVES = [
    *("open merged file", "merge files", "open moved file", "copy file", "replace files"),
    *("vacuum", "checkpoint"),
]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("step", MOVES)
def test_a_killed_move_of_files_to_their_folders_changes_no_row_and_is_repeated(
    flat: PlainDerived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, step: str
) -> None:
    sizes = sorted(file.size for file in flat.table.snapshot().data_files())
    monkeypatch.setattr(maintenance, "SMALL_BYTES", sizes[-1])
    below = PlainDerived(tmp_path / "below", flat.id)
    below.consume_all(flat)
    rows, batch_ids, newest = flat.rows, flat.batch_ids, newest_of(flat)
    later = datetime.now(UTC) + timedelta(days=20)
    with killed(moment, step):
        steps_of(flat, later)
    assert (flat.rows, flat.batch_ids, newest_of(flat)) == (rows, batch_ids, newest)
    steps_of(flat, later)
    assert all(path.startswith("part=") for path in flat.active)
    assert (flat.rows, flat.batch_ids, newest_of(flat)) == (rows, batch_ids, newest)
    flat.append((1003, 3, "a"))
    below.consume_all(flat)
    assert below.rows == flat.rows
