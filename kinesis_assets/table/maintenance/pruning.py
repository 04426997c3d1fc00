"""Deletes files below `_kinesis/` that are no longer needed.

Finds the files of a chain of commits that were superseded long ago, by the ids in their names. The oldest
file whose commit id was drawn since a time names the file that was current at that time as its predecessor,
whether or not it was committed. So the chain, which grows by thousands of files a day, is not read. The
clock that an id was drawn from may have been slow, so a file with a recent modification time is kept
whatever its id.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.maintenance.steps import State, Step
from kinesis_assets.table.positions.amendments import AMENDMENTS_FOLDER, amendment_path
from kinesis_assets.table.positions.positions_chain import (
    ARCHIVE_FOLDER,
    POSITIONS_FOLDER,
    positions_path,
    segment_path,
)
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER
from kinesis_assets.table.run_files.task_files import PROGRESS_FOLDER, STOP_MARKERS_FOLDER
from kinesis_assets.table.store.storage import files_in
from kinesis_assets.table.store.suitability import PROBES_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    import pyarrow.fs

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.maintenance.steps import MaintenanceLimits
    from kinesis_assets.table.positions.positions import Header
    from kinesis_assets.table.positions.positions_chain import PositionsChain
    from kinesis_assets.table.raw_table import PositionedTable


CHAIN_KEPT = timedelta(days=30)
"""Commits that were superseded longer ago are deleted: no attempt reads the chain that far back."""

CHAIN_NEEDED = timedelta(days=3)
"""Younger commits are never deleted: the oldest attempt that may still commit reads back to them, see
`check_files`."""

MARKERS_KEPT = timedelta(days=1)
"""How long stop markers, heartbeats, and files about progress and of probes are kept. An attempt stops within
minutes, and the last file of a live run is at most a minute old."""

_FOLDERS_OF_RUNS = (STOP_MARKERS_FOLDER, HEARTBEATS_FOLDER, PROGRESS_FOLDER, PROBES_FOLDER)

_AT_ONCE = 16

_ID_STEP = 0.001
"""The seconds between ids that differ in their time."""


def prune(
    table: PositionedTable,
    identity: StreamIdentity,
    clock: AgreedClock,
    limits: MaintenanceLimits,
    *,
    dry_run: bool,
) -> Iterator[Step]:
    """Delete positions, archive segments, amendments and files of runs that are no longer needed.

    Raises:
        ClocksDisagree: The clocks differ, which is checked before each folder.
    """
    for of, found in (
        (POSITIONS_FOLDER, partial(_superseded_positions, table, identity, limits)),
        (ARCHIVE_FOLDER, partial(_unnamed_segments, table, identity)),
        (AMENDMENTS_FOLDER, partial(_superseded_amendments, table, identity)),
        *((folder, partial(expired_files, table.files, folder)) for folder in _FOLDERS_OF_RUNS),
    ):
        yield from prune_folder(table.files, of, found(clock.now()), dry_run=dry_run)


def prune_folder(
    filesystem: pyarrow.fs.FileSystem, of: str, paths: Iterator[str], *, dry_run: bool
) -> Iterator[Step]:
    """Delete files of a folder, in the order in which their paths are yielded."""
    bytes_of = {info.path: info.size for info in files_in(filesystem, of)}
    files = size = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # Batches are deleted in order, so that the next maintenance can continue after an interruption.
        while batch := list(islice(paths, _AT_ONCE)):
            if not dry_run:
                list(pool.map(partial(_delete, filesystem), batch))
            files, size = files + len(batch), size + sum(bytes_of.get(path, 0) for path in batch)
    if files:
        yield Step("prune", of, State.PLANNED if dry_run else State.DONE, 0, files, size)


def _delete(filesystem: pyarrow.fs.FileSystem, path: str) -> None:
    with suppress(FileNotFoundError):  # a run, or another maintenance, deleted it
        filesystem.delete_file(path)


def _superseded_positions(
    table: PositionedTable, identity: StreamIdentity, limits: MaintenanceLimits, now: datetime
) -> Iterator[str]:
    """Yield positions files before those that were current `CHAIN_KEPT` ago, oldest first.

    The time is shorter if there are too many files. The bases of kept files are kept, too: that of the oldest
    kept file, and that of the current one.
    """
    current = table.snapshot().positions(identity, or_older=True)
    if current is None:
        return
    header_of = partial(_header_of, table.chain, identity)

    def previous_of(commit_id: int) -> int | None:
        found = header_of(commit_id)
        if found is None:
            return None
        return commit_id if found.previous is None else found.previous  # the first one has none

    infos = files_by_id(table.files, POSITIONS_FOLDER)
    kept, found = superseded(infos, current.commit_id, previous_of, limits, now)
    bases = {header.base for header in map(header_of, (kept, current.commit_id)) if header is not None}
    old = iter([commit_id for commit_id in found if commit_id not in bases])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while batch := list(islice(old, _AT_ONCE)):
            for commit_id, header in zip(batch, pool.map(header_of, batch), strict=True):
                if header is not None:  # files of another stream are not deleted
                    yield positions_path(commit_id)


def _header_of(chain: PositionsChain, identity: StreamIdentity, commit_id: int) -> Header | None:
    """Return the header of a positions file; None if it was pruned, is another stream's, or is damaged.

    It is damaged if the process that wrote it was killed.
    """
    try:
        return chain.header_at(commit_id, identity.arn)
    except PositionsUnreadable:
        return None


def _unnamed_segments(table: PositionedTable, identity: StreamIdentity, now: datetime) -> Iterator[str]:
    """Yield archive segments older than `CHAIN_KEPT` that no committed positions name, oldest first.

    Segments of another stream, or of an older stream with the same name, are kept.
    """
    current = table.snapshot().positions(identity, or_older=True)
    if current is None:
        return
    named = table.chain.segments(current)
    for commit_id, info in files_by_id(table.files, ARCHIVE_FOLDER).items():
        if commit_id in named or not _is_old(commit_id, now) or info.mtime >= now - CHAIN_NEEDED:
            continue
        try:
            is_ours = table.chain.stream_of_segment(commit_id) == current.identity
        except PositionsUnreadable:  # its writer was killed, or is a newer version
            is_ours = False
        if is_ours:
            yield segment_path(commit_id)


def _is_old(commit_id: int, now: datetime) -> bool:
    return time_of_id(commit_id) < (now - CHAIN_KEPT).timestamp()


def _superseded_amendments(table: PositionedTable, identity: StreamIdentity, now: datetime) -> Iterator[str]:
    """Yield amendments before the one that was current `CHAIN_KEPT` ago, oldest first.

    The chain is read back from the newest amendment, because older files do not name their stream; it grows
    by a few files a day. The oldest is deleted first, so that the rest of the chain stays readable if the
    pruning is interrupted.
    """
    snapshot = table.snapshot()
    present = files_by_id(table.files, AMENDMENTS_FOLDER)  # older ones were pruned before
    entry = snapshot.amendment(identity)
    chain: list[int] = []
    for each in table.amendments.back_from(entry):
        chain.append(each.commit_id)
        if each.previous not in present:
            break
    old = [commit_id for commit_id in chain if _is_old(commit_id, now)]
    for commit_id in reversed(old[1:]):
        yield amendment_path(commit_id)


def expired_files(filesystem: pyarrow.fs.FileSystem, folder: str, now: datetime) -> Iterator[str]:
    """Yield the files of runs in a folder that are kept no longer, see `MARKERS_KEPT`."""
    for info in files_in(filesystem, folder):
        if info.mtime is not None and info.mtime < now - MARKERS_KEPT:
            yield info.path


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
        now: The current time, by the clock that was checked.
    """
    since = _kept_since(infos, limits, now)
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


def _kept_since(infos: Mapping[int, pyarrow.fs.FileInfo], limits: MaintenanceLimits, now: datetime) -> float:
    """Return the time from which on files are kept, in seconds since the epoch. See `superseded`."""
    since, needed = ((now - age).timestamp() for age in (CHAIN_KEPT, CHAIN_NEEDED))
    files = size = 0
    for commit_id in reversed(infos):
        files, size = files + 1, size + infos[commit_id].size
        if files > limits.chain_files or size > limits.chain_bytes:
            # The files with later ids are within the limits.
            return max(since, min(needed, time_of_id(commit_id) + _ID_STEP))
    return since
