"""A table's log of ten thousand commits, made by hand: real ones would take as long as the rest of the suite.

Entries are as delta-rs writes them, each with a tiny data file of its own, and are dated as if one had been
made every `PACE`, which counts: what is old in the log goes.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PACE = timedelta(seconds=30)
"""From one commit to the next: as a sensor with its default settings makes them, at the most."""


def fill(folder: Path, count: int, day: int) -> None:
    """Append entries to the log, each with a data file of some day, and with the txn that stands."""
    now = time.time()
    log = folder / "_delta_log"
    newest = max(map(_version, log.glob("*.json")))
    entry = _newest_with_a_file(log)
    (source,) = (action["add"]["path"] for action in entry if "add" in action)
    date = (datetime(2026, 2, 3, tzinfo=UTC) + timedelta(days=day)).date().isoformat()
    (folder / f"arrival_date={date}").mkdir(exist_ok=True)
    for version in range(newest + 1, newest + 1 + count):
        path = f"arrival_date={date}/part-{version}.zstd.parquet"
        os.link(folder / source, folder / path)
        for action in entry:
            if "add" in action:
                action["add"] |= {"path": path, "partitionValues": {"arrival_date": date}}
        lines = "".join(json.dumps(action) + "\n" for action in entry)
        written = log / f"{version:020}.json"
        written.write_text(lines, encoding="utf-8")
        _date(written, now - (newest + count - version) * PACE.total_seconds())


def age(folder: Path, commits: int) -> None:
    """Let what is in the log, which must be summed up, be older by so many commits' time."""
    log, seconds = folder / "_delta_log", commits * PACE.total_seconds()
    _rewrite_checkpoint(log, lambda rows: _with_older_tombstones(rows, round(seconds * 1000)))
    for path in log.iterdir():
        _date(path, path.stat().st_mtime - seconds)


def take_entries(log: Path) -> None:
    """Take away the entries that are summed up."""
    newest = _version(_checkpoint(log))
    for path in [*log.glob("*.json"), *log.glob("*.checkpoint.parquet")]:
        if _version(path) < newest:
            path.unlink()


def take_tombstones(log: Path) -> None:
    """Take away the tombstones that the newest checkpoint holds."""
    _rewrite_checkpoint(log, lambda rows: rows.filter(pc.is_null(rows["remove"])))


def tombstones(log: Path) -> int:
    """How many files the newest checkpoint tells to have been taken out of the table."""
    told = pq.ParquetFile(_checkpoint(log)).read(columns=["remove.path"])
    return told["remove"].drop_null().length() if "remove" in told.column_names else 0


def entries(log: Path) -> int:
    """How many entries there are, summed up or not."""
    return sum(1 for _ in log.glob("*.json"))


def _rewrite_checkpoint(log: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path, last = _checkpoint(log), log / "_last_checkpoint"
    changed = change(pq.read_table(path))
    told = json.loads(last.read_text(encoding="utf-8"))
    dated = path.stat().st_mtime
    path.unlink()
    last.unlink()
    pq.write_table(changed, path)
    _date(path, dated)
    last.write_text(json.dumps(told | {"size": changed.num_rows}), encoding="utf-8")


def _with_older_tombstones(rows: pa.Table, milliseconds: int) -> pa.Table:
    if "remove" not in rows.column_names:
        return rows
    index = rows.column_names.index("remove")
    removed = rows["remove"].combine_chunks()
    names = [field.name for field in removed.type]
    parts = dict(zip(names, map(removed.field, names), strict=True))
    parts["deletionTimestamp"] = pc.subtract(parts["deletionTimestamp"], milliseconds)
    older = pa.StructArray.from_arrays(
        list(parts.values()), fields=list(removed.type), mask=removed.is_null()
    )
    return rows.set_column(index, rows.field(index), older)


def _checkpoint(log: Path) -> Path:
    """The newest."""
    return max(log.glob("*.checkpoint.parquet"))


def _version(path: Path) -> int:
    return int(path.name.split(".")[0])


def _date(path: Path, at: float) -> None:
    # The log's retention goes by this, not by what an entry says.
    os.utime(path, (at, at))


def _newest_with_a_file(log: Path) -> list[dict[str, Any]]:
    """The newest entry with one data file and positions: as every commit here writes it."""
    for path in sorted(log.glob("*.json"), reverse=True):
        entry = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        kinds = [kind for action in entry for kind in action]
        if kinds.count("add") == 1 and "txn" in kinds and "remove" not in kinds:
            return entry
    raise AssertionError("no commit of one file is in the log")
