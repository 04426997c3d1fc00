"""A table log with ten thousand commits, written directly, because real commits would take too long.

The entries have the content that delta-rs writes, each with a small data file. Their dates are
`COMMIT_INTERVAL` apart, because Delta removes old entries and tombstones from the log.
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

COMMIT_INTERVAL = timedelta(seconds=30)
"""Time between two commits: the shortest interval with the default settings of the sensor."""


def fill(folder: Path, count: int, day: int) -> None:
    """Append entries to the log, each with a data file of the given day and the current transaction."""
    now = time.time()
    log = folder / "_delta_log"
    newest = max(map(_version, log.glob("*.json")))
    entry = _newest_entry_with_a_file(log)
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
        path_in_log = log / f"{version:020}.json"
        path_in_log.write_text(lines, encoding="utf-8")
        _set_date(path_in_log, now - (newest + count - version) * COMMIT_INTERVAL.total_seconds())


def age(folder: Path, commits: int) -> None:
    """Make the content of the log older by the time of some commits. The log must have a checkpoint."""
    log, seconds = folder / "_delta_log", commits * COMMIT_INTERVAL.total_seconds()
    _rewrite_checkpoint(log, lambda rows: _with_older_tombstones(rows, round(seconds * 1000)))
    for path in log.iterdir():
        _set_date(path, path.stat().st_mtime - seconds)


def delete_old_entries(log: Path) -> None:
    """Delete the entries that the newest checkpoint covers."""
    newest = _version(_checkpoint(log))
    for path in [*log.glob("*.json"), *log.glob("*.checkpoint.parquet")]:
        if _version(path) < newest:
            path.unlink()


def delete_tombstones(log: Path) -> None:
    """Delete the tombstones from the newest checkpoint."""
    _rewrite_checkpoint(log, lambda rows: rows.filter(pc.is_null(rows["remove"])))


def count_tombstones(log: Path) -> int:
    """Return the number of removed files in the newest checkpoint."""
    rows = pq.ParquetFile(_checkpoint(log)).read(columns=["remove.path"])
    return rows["remove"].drop_null().length() if "remove" in rows.column_names else 0


def count_entries(log: Path) -> int:
    """Return the number of entries in the log, whether the checkpoint covers them or not."""
    return sum(1 for _ in log.glob("*.json"))


def _rewrite_checkpoint(log: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path, last = _checkpoint(log), log / "_last_checkpoint"
    changed = change(pq.read_table(path))
    pointer = json.loads(last.read_text(encoding="utf-8"))
    modified = path.stat().st_mtime
    path.unlink()
    last.unlink()
    pq.write_table(changed, path)
    _set_date(path, modified)
    last.write_text(json.dumps(pointer | {"size": changed.num_rows}), encoding="utf-8")


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
    """Return the newest checkpoint."""
    return max(log.glob("*.checkpoint.parquet"))


def _version(path: Path) -> int:
    return int(path.name.split(".")[0])


def _set_date(path: Path, at: float) -> None:
    # Retention depends on the date of the file, not on its content.
    os.utime(path, (at, at))


def _newest_entry_with_a_file(log: Path) -> list[dict[str, Any]]:
    """Return the newest entry that adds one data file and positions."""
    for path in sorted(log.glob("*.json"), reverse=True):
        entry = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        kinds = [kind for action in entry for kind in action]
        if kinds.count("add") == 1 and "txn" in kinds and "remove" not in kinds:
            return entry
    raise AssertionError("no entry of the log adds one file")
