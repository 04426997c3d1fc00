"""Deleting the package's own files that nothing needs any more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.amendment_files import PAST_FOLDER
from kinesis_assets.table.commit_ids import drawn_at
from kinesis_assets.table.heartbeat import RUNS
from kinesis_assets.table.maintenance.steps import State, Step
from kinesis_assets.table.positions_archive import ARCHIVE_FOLDER
from kinesis_assets.table.positions_chain import POSITIONS_FOLDER, positions_path, segment_path
from kinesis_assets.table.stop_marker import STOPS
from kinesis_assets.table.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    import pyarrow.fs

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

CHAIN_KEPT = timedelta(days=30)
"""Positions that others took the place of longer ago are pruned: no attempt looks so far back."""

CHAIN_NEEDED = timedelta(days=3)
"""Younger ones never are: the oldest attempt that may still commit looks back to them, see `check_files`."""

CHAIN_FILES = 100_000
"""More files than these, older than `CHAIN_NEEDED`, are pruned before their time: a run in 26 seconds for all
of `CHAIN_KEPT`."""

CHAIN_BYTES = 4 << 30
"""Likewise bytes: every file tells of every shard."""

STOPS_KEPT = timedelta(days=1)
"""An attempt that is to stop ends within minutes; the heartbeat of a live run is a minute old at most."""

_AT_ONCE = 16
_TOKEN_STEP = 0.001


def prune(
    table: PositionedTable, identity: StreamIdentity, clock: AgreedClock, *, dry_run: bool
) -> Iterator[Step]:
    """Delete the package's own files that nothing needs any more, folder by folder."""
    for of, found in (
        (POSITIONS_FOLDER, partial(_superseded_positions, table, identity)),
        (ARCHIVE_FOLDER, partial(_unnamed_segments, table, identity)),
        (PAST_FOLDER, partial(_superseded_pasts, table, identity)),
        (STOPS, partial(_old, table, STOPS)),
        (RUNS, partial(_old, table, RUNS)),
    ):
        yield from _prune_folder(table, of, found(clock.now()), dry_run=dry_run)


def _prune_folder(table: PositionedTable, of: str, paths: Iterator[str], *, dry_run: bool) -> Iterator[Step]:
    bytes_of = {info.path: info.size for info in files_in(table.files, of)}
    files = size = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # In their order but for some at a time: where this ends early, the next maintenance goes on.
        while some := list(islice(paths, _AT_ONCE)):
            if not dry_run:
                list(pool.map(table.files.delete_file, some))
            files, size = files + len(some), size + sum(bytes_of.get(path, 0) for path in some)
    if files:
        yield Step("prune", of, State.PLANNED if dry_run else State.DONE, 0, files, size)


def _superseded_positions(table: PositionedTable, identity: StreamIdentity, now: datetime) -> Iterator[str]:
    """Positions files before those that stood `CHAIN_KEPT` ago, or less if they are many, oldest first.

    The bases of those that are kept are kept too: of the oldest, and of the present one, since of two tokens
    the one that was drawn later may be smaller where clocks differ.

    What stood then is told by the oldest file drawn since: it was written on top of it, whether it landed or
    not. So the chain need not be walked, which has thousands of links a day. Who drew a token may have had a
    clock that was behind: a file that the store wrote a short time ago stays, whatever its token says.
    """
    snapshot = table.snapshot()
    current = snapshot.positions(identity, or_older=True)
    if current is None:
        return
    infos = dict(sorted(_by_token(table, POSITIONS_FOLDER).items()))
    since = _chain_since({token: info.size for token, info in infos.items()}, now)
    kept = current.token
    for token in infos:
        if drawn_at(token) < since:
            continue
        previous = _previous_of(snapshot, identity, token)
        if previous is not None:
            kept = min(kept, previous)
            break
    bases = {_base_of(snapshot, token) for token in (kept, current.token)}
    old = iter(
        [
            token
            for token, info in infos.items()
            if token < kept
            and drawn_at(token) < since
            and token not in bases
            and info.mtime < now - CHAIN_NEEDED
        ]
    )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while some := list(islice(old, _AT_ONCE)):
            # Another stream's, if one was ever brought into this table, are none of ours.
            ours = pool.map(partial(_is_of, snapshot, identity), some)
            for token, is_ours in zip(some, ours, strict=True):
                if is_ours:
                    yield positions_path(token)


def _chain_since(bytes_of: Mapping[int, int], now: datetime) -> float:
    """From when on positions files are kept, seconds since the epoch.

    Args:
        bytes_of: Their sizes by token, oldest first.
        now: The present.
    """
    since, needed = ((now - span).timestamp() for span in (CHAIN_KEPT, CHAIN_NEEDED))
    files = size = 0
    for token in reversed(bytes_of):
        files, size = files + 1, size + bytes_of[token]
        if files > CHAIN_FILES or size > CHAIN_BYTES:
            # Those drawn after it are within the bounds.
            return max(since, min(needed, drawn_at(token) + _TOKEN_STEP))
    return since


def _previous_of(snapshot: TableSnapshot, identity: StreamIdentity, token: int) -> int | None:
    """The token before a positions file; its own if it is the first; None if that does not count here."""
    try:
        found = snapshot.positions_header_at(token)
    except PositionsUnreadable:  # a file whose writer was killed
        return None
    if found.identity.arn != identity.arn:
        return None
    return token if found.previous is None else found.previous


def _base_of(snapshot: TableSnapshot, token: int) -> int | None:
    try:
        return snapshot.positions_header_at(token).base
    except PositionsUnreadable:  # pruned before
        return None


def _is_of(snapshot: TableSnapshot, identity: StreamIdentity, token: int) -> bool:
    return _previous_of(snapshot, identity, token) is not None


def _unnamed_segments(table: PositionedTable, identity: StreamIdentity, now: datetime) -> Iterator[str]:
    """Segments of the archive that were written `CHAIN_KEPT` ago for commits that never landed, oldest first.

    Those of another stream, or of an older one of this name, stay.
    """
    current = table.snapshot().positions(identity, or_older=True)
    if current is None:
        return
    named = table.chain.segments(current)
    for token, info in sorted(_by_token(table, ARCHIVE_FOLDER).items()):
        if token in named or not _is_old(token, now) or info.mtime >= now - CHAIN_NEEDED:
            continue
        try:
            is_ours = table.chain.stream_of_segment(token) == current.identity
        except PositionsUnreadable:  # its writer was killed, or is of a newer version
            is_ours = False
        if is_ours:
            yield segment_path(token)


def _is_old(token: int, now: datetime) -> bool:
    return drawn_at(token) < (now - CHAIN_KEPT).timestamp()


def _superseded_pasts(table: PositionedTable, identity: StreamIdentity, now: datetime) -> Iterator[str]:
    """Entries of the past before the one that stood `CHAIN_KEPT` ago, oldest first.

    These do not say of which stream they are, so the chain is walked; it has a few links a day. From its end,
    so that what is not deleted by then can still be reached the next time.
    """
    snapshot = table.snapshot()
    present = _by_token(table, PAST_FOLDER)  # others were pruned before
    entry = snapshot.past(identity)
    chain: list[int] = []
    while entry is not None:
        chain.append(entry.token)
        previous = entry.previous
        entry = None if previous is None or previous not in present else snapshot.past_at(previous)
    old = [token for token in chain if _is_old(token, now)]
    for token in reversed(old[1:]):
        yield f"{PAST_FOLDER}/{token}.json"


def _old(table: PositionedTable, folder: str, now: datetime) -> Iterator[str]:
    for info in files_in(table.files, folder):
        if info.mtime is not None and info.mtime < now - STOPS_KEPT:
            yield info.path


def _by_token(table: PositionedTable, folder: str) -> dict[int, pyarrow.fs.FileInfo]:
    infos = ((info.base_name.removesuffix(".json"), info) for info in files_in(table.files, folder))
    return {int(name): info for name, info in infos if name.isdecimal()}
