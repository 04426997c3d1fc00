"""Deletes files below `_kinesis/` that are no longer needed.

Finds the files of a chain of commits that were superseded long ago, by the ids in their names. The oldest
file whose commit id was drawn since a time names the file that was current at that time as its predecessor,
whether or not it was committed. So the chain, which grows by thousands of files a day, is not read. The
clock that an id was drawn from may have been slow, so a file with a recent modification time is kept
whatever its id.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.maintenance.steps import State, Step
from kinesis_assets.table.positions.amendments import AMENDMENTS_FOLDER
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
    from kinesis_assets.table.positions.positions_chain import PositionsChain
    from kinesis_assets.table.table import PositionedTable


MARKERS_KEPT = timedelta(days=1)
"""How long stop markers, heartbeats, and files about progress and of probes are kept. An attempt stops within
minutes, and the last file of a live run is at most a minute old."""

_FOLDERS_OF_RUNS = (STOP_MARKERS_FOLDER, HEARTBEATS_FOLDER, PROGRESS_FOLDER, PROBES_FOLDER)

_AT_ONCE = 16


def prune(
    table: PositionedTable,
    identity: StreamIdentity,
    clock: AgreedClock,
    limits: MaintenanceLimits,
    *,
    dry_run: bool,
) -> Iterator[Step]:
    """Delete positions, archive segments, amendments and files of runs that are no longer needed.

    Args:
        clock: The clock that is checked before each folder.
        limits: From how many positions files on they are deleted early.

    Raises:
        ClocksDisagree: The clocks differ.
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
    """Delete files of a folder.

    Args:
        paths: The paths of the files, in the order in which they are deleted.
    """
    bytes_of = {info.path: info.size for info in files_in(filesystem, of)}
    files = size = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # Batches are deleted in order, so that the next maintenance can continue after an interruption.
        while batch := list(islice(paths, _AT_ONCE)):
            if not dry_run:
                list(pool.map(filesystem.delete_file, batch))
            files, size = files + len(batch), size + sum(bytes_of.get(path, 0) for path in batch)
    if files:
        yield Step("prune", of, State.PLANNED if dry_run else State.DONE, 0, files, size)


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
    kept, found = superseded(
        files_by_id(table.files, POSITIONS_FOLDER),
        current.commit_id,
        partial(_previous_of, table.chain, identity),
        limits,
        now,
    )
    bases = {_base_of(table.chain, identity, commit_id) for commit_id in (kept, current.commit_id)}
    old = iter([commit_id for commit_id in found if commit_id not in bases])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while batch := list(islice(old, _AT_ONCE)):
            # Files of another stream are not deleted.
            ours = pool.map(partial(_is_of, table.chain, identity), batch)
            for commit_id, is_ours in zip(batch, ours, strict=True):
                if is_ours:
                    yield positions_path(commit_id)


def _previous_of(chain: PositionsChain, identity: StreamIdentity, commit_id: int) -> int | None:
    """Return the predecessor of a positions file, or its own id if it is the first.

    Returns None if the file is damaged or another stream's.
    """
    try:
        found = chain.header_at(commit_id, identity.arn)
    except PositionsUnreadable:  # the process that wrote the file was killed
        return None
    return commit_id if found.previous is None else found.previous


def _base_of(chain: PositionsChain, identity: StreamIdentity, commit_id: int) -> int | None:
    try:
        return chain.header_at(commit_id, identity.arn).base
    except PositionsUnreadable:  # it was pruned before
        return None


def _is_of(chain: PositionsChain, identity: StreamIdentity, commit_id: int) -> bool:
    return _previous_of(chain, identity, commit_id) is not None


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
        yield f"{AMENDMENTS_FOLDER}/{commit_id}.json"


def expired_files(filesystem: pyarrow.fs.FileSystem, folder: str, now: datetime) -> Iterator[str]:
    """Yield the files of runs in a folder that are kept no longer, see `MARKERS_KEPT`."""
    for info in files_in(filesystem, folder):
        if info.mtime is not None and info.mtime < now - MARKERS_KEPT:
            yield info.path


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
    """
    since, needed = ((now - age).timestamp() for age in (CHAIN_KEPT, CHAIN_NEEDED))
    files = size = 0
    for commit_id in reversed(bytes_of):
        files, size = files + 1, size + bytes_of[commit_id]
        if files > limits.chain_files or size > limits.chain_bytes:
            # The files with later ids are within the limits.
            return max(since, min(needed, time_of_id(commit_id) + _ID_STEP))
    return since
