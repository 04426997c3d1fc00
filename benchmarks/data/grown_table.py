"""Tables with many data files, created quickly: one file with one record is linked many times."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.transaction import AddAction

from benchmarks.data.one_record_commits import SHARDS, commit_one_record, create_table, load_positions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake.transaction import RemoveAction

    from kinesis_assets.table.table import PositionedTable

_FILES_PER_COMMIT = 5_000
_PARTITION = "arrival_date"


@contextmanager
def grown_table(files: int) -> Iterator[PositionedTable]:
    """Create a table with positions, this number of data files, and a checkpoint, as after maintenance."""
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(folder)
        commit_one_record(table, SHARDS[0])
        (first,) = [path for path in Path(folder).rglob("*.parquet") if _PARTITION in str(path.parent)]
        missing = files - 1
        while missing > 0:
            _link(folder, first, min(missing, _FILES_PER_COMMIT))
            missing -= _FILES_PER_COMMIT
        DeltaTable(folder).create_checkpoint()
        yield table


def seconds_of_loads(table: PositionedTable, count: int) -> list[float]:
    """Measure how long it takes to open the table and read its positions, after one load as a warm-up."""
    seconds = []
    for _ in range(count + 1):
        started = time.perf_counter()
        load_positions(table)
        seconds.append(time.perf_counter() - started)
    return seconds[1:]


def seconds_of_commits(table: PositionedTable, count: int) -> list[float]:
    """Measure commits of one record, after one commit as a warm-up."""
    return [commit_one_record(table, SHARDS[0])[0] for _ in range(count + 1)][1:]


def _link(folder: str, first: Path, count: int) -> None:
    delta = DeltaTable(folder)
    date = first.parent.name.removeprefix(f"{_PARTITION}=")
    actions: list[AddAction | RemoveAction] = []
    now = time.time_ns()
    for number in range(count):
        path = first.with_name(f"{now}-{number}.parquet")
        os.link(first, path)
        actions.append(
            AddAction(
                path=path.relative_to(folder).as_posix(),
                size=first.stat().st_size,
                partition_values={_PARTITION: date},
                modification_time=now // 1_000_000,
                data_change=True,
                stats='{"numRecords":1}',
            )
        )
    delta.create_write_transaction(actions, mode="append", schema=delta.schema(), partition_by=[_PARTITION])
