"""Tables of many data files, made in no time: one file of a record, linked again and again."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.transaction import AddAction

from benchmarks.sections.contention import SHARDS, attempt, frozen, standing
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake.transaction import RemoveAction

_AT_ONCE = 5_000
_PARTITION = "arrival_date"


@contextmanager
def grown_table(files: int) -> Iterator[PositionedTable]:
    """A table with positions and so many data files, its log in a checkpoint, as maintenance leaves it."""
    with tempfile.TemporaryDirectory() as folder:
        frozen(folder)
        table = PositionedTable(folder)
        attempt(table, SHARDS[0])
        (first,) = [path for path in Path(folder).rglob("*.parquet") if _PARTITION in str(path.parent)]
        left = files - 1
        while left > 0:
            _link(folder, first, min(left, _AT_ONCE))
            left -= _AT_ONCE
        DeltaTable(folder).create_checkpoint()
        yield table


def seconds_of_reading(table: PositionedTable, times: int) -> list[float]:
    """Each time that the table was opened and its positions were read; a first one does not count."""
    seconds = []
    for _ in range(times + 1):
        began = time.perf_counter()
        standing(table)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def seconds_of_commit(table: PositionedTable, times: int) -> list[float]:
    """Each commit of one record; a first one does not count."""
    return [attempt(table, SHARDS[0])[0] for _ in range(times + 1)][1:]


def _link(folder: str, first: Path, count: int) -> None:
    delta = DeltaTable(folder)
    date = first.parent.name.removeprefix(f"{_PARTITION}=")
    actions: list[AddAction | RemoveAction] = []
    began = time.time_ns()
    for number in range(count):
        path = first.with_name(f"{began}-{number}.parquet")
        os.link(first, path)
        actions.append(
            AddAction(
                path=path.relative_to(folder).as_posix(),
                size=first.stat().st_size,
                partition_values={_PARTITION: date},
                modification_time=began // 1_000_000,
                data_change=True,
                stats='{"numRecords":1}',
            )
        )
    delta.create_write_transaction(actions, mode="append", schema=delta.schema(), partition_by=[_PARTITION])
