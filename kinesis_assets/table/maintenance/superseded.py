"""Finds the files of a chain of commits that were superseded long ago, by the ids in their names.

The oldest file whose commit id was drawn since a time names the file that was current at that time as its
predecessor, whether or not it was committed. So the chain, which grows by thousands of files a day, is not
read. The clock that an id was drawn from may have been slow, so a file with a recent modification time is
kept whatever its id.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.store.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    import pyarrow.fs

    from kinesis_assets.table.maintenance.limits import MaintenanceLimits

CHAIN_KEPT = timedelta(days=30)
"""Commits that were superseded longer ago are deleted: no attempt reads the chain that far back."""

CHAIN_NEEDED = timedelta(days=3)
"""Younger commits are never deleted: the oldest attempt that may still commit reads back to them, see
`check_files`."""

_ID_STEP = 0.001


def files_by_id(files: pyarrow.fs.FileSystem, folder: str) -> dict[int, pyarrow.fs.FileInfo]:
    """Return the files `<id>.json` of a folder by their id, smallest first."""
    infos = ((info.base_name.removesuffix(".json"), info) for info in files_in(files, folder))
    return dict(sorted((int(name), info) for name, info in infos if name.isdecimal()))


def superseded(
    infos: Mapping[int, pyarrow.fs.FileInfo],
    current: int,
    previous_of: Callable[[int], int | None],
    limits: MaintenanceLimits,
    now: datetime,
) -> tuple[int, list[int]]:
    """Return the first id that is kept, and the ids before it whose files can be deleted, smallest first.

    The current commit is always kept: a later commit id may be smaller if clocks differ.

    Args:
        infos: The files, by commit id, smallest first.
        current: The commit id of the newest commit.
        previous_of: Reads the predecessor of a commit; None if it has none, or the file cannot be used.
        limits: From how many files on they are deleted early.
        now: The current time, by the clock that was checked.
    """
    since = _kept_since({commit_id: info.size for commit_id, info in infos.items()}, limits, now)
    kept = current
    for commit_id in infos:
        if time_of_id(commit_id) < since:
            continue
        previous = previous_of(commit_id)
        if previous is not None:
            kept = min(kept, previous)
            break
    old = [
        commit_id
        for commit_id, info in infos.items()
        if commit_id < kept and time_of_id(commit_id) < since and info.mtime < now - CHAIN_NEEDED
    ]
    return kept, old


def _kept_since(bytes_of: Mapping[int, int], limits: MaintenanceLimits, now: datetime) -> float:
    """Return the time from which on files are kept, in seconds since the epoch.

    Args:
        bytes_of: Sizes of the files in bytes, by commit id, smallest first.
        limits: How many files are kept at most.
        now: The current time.
    """
    since, needed = ((now - age).timestamp() for age in (CHAIN_KEPT, CHAIN_NEEDED))
    files = size = 0
    for commit_id in reversed(bytes_of):
        files, size = files + 1, size + bytes_of[commit_id]
        if files > limits.chain_files or size > limits.chain_bytes:
            # The files with later ids are within the limits.
            return max(since, min(needed, time_of_id(commit_id) + _ID_STEP))
    return since
