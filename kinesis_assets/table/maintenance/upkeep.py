"""Keeping a table quick and small, beside whatever runs commit to it meanwhile.

Every step can be done again, and ended anywhere: the next maintenance goes on. Rows and positions stay as
they are, except that rows older than the table's own retention go, with a floor that says so. Each step that
deletes goes by a clock that the service and this machine agree on, read just before.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow.fs

from kinesis_assets.errors import CommitFailed, PositionsUnreadable
from kinesis_assets.table.claims import claim
from kinesis_assets.table.clocks import AgreedClock, machine_time
from kinesis_assets.table.commit_ids import drawn_at
from kinesis_assets.table.data_file import FILE_BYTES
from kinesis_assets.table.heartbeat import RUNS
from kinesis_assets.table.maintenance.retention import expire, sizes
from kinesis_assets.table.maintenance.steps import State, Step
from kinesis_assets.table.positions_archive import ARCHIVE_FOLDER
from kinesis_assets.table.positions_chain import POSITIONS_FOLDER, positions_path, segment_path
from kinesis_assets.table.rewrites import refuse_rewritten
from kinesis_assets.table.stop_marker import STOPS
from kinesis_assets.table.table import PAST_FOLDER, Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import date, datetime

    from kinesis_assets.kinesis.stream import StreamIdentity, StreamSummary
    from kinesis_assets.table.table import PositionedTable, StandingFile, TableSnapshot

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

SMALL_BYTES = FILE_BYTES // 4
"""A file under this size is small: a scan of so much takes longer than opening it."""

SMALL_FILES = 4
"""A day with fewer small files is left alone, so that a straggler or two do not rewrite it every night."""

SMALL_FILES_TODAY = 500
"""Likewise a day that is not over: its rows are gathered once more when it is."""

_COMPACTIONS = 3
_AT_ONCE = 16
_TOKEN_STEP = 0.001


def maintain(
    table: PositionedTable,
    stream: StreamSummary,
    *,
    retention_days: int | None = None,
    by: str | None = None,
    dry_run: bool = False,
    machine: Callable[[], datetime] = machine_time,
) -> Iterator[Step]:
    """Do, or plan, what is due; nothing is yielded for what is not.

    Args:
        table: The table of one stream.
        stream: Which stream, and the service's clock, as just described.
        retention_days: Rows that arrived on a day (UTC, the service's clock) longer ago are deleted. None
            for never.
        by: Who, for the record of that.
        dry_run: Change nothing.
        machine: This machine's clock.

    Yields:
        Each step when it is done.

    Raises:
        ClocksDisagree: This machine's clock and the service's differ by more than an hour; nothing is deleted
            after that.
        TableOfAnotherStream: The table belongs to another stream; nothing was done.
        TableRewritten: The table was restored or overwritten, and nobody accepted that; nothing was done.
        CommitFailed: The tries to take old rows out are used up.
        TableNotWritable: Nothing can be written to the table; nothing was done.
        TableError: The table cannot be used; what was yielded is done.
    """
    identity = stream.identity
    snapshot = table.snapshot()
    positions = snapshot.positions(identity, or_older=True)
    if positions is not None:
        # What an operator may want to undo a restore, and the log's entry of it, must not be deleted.
        refuse_rewritten(table, snapshot, positions)
    clock = AgreedClock(table.uri, stream.service_time, machine)
    now = clock.now()
    if not dry_run:
        table.require_writable()
        claim(table, identity)
    upkeep = Upkeep(table)
    yield from _set_properties(upkeep, dry_run=dry_run)
    since = None if retention_days is None else now.date() - timedelta(days=retention_days)
    if since is not None:
        yield from expire(table, identity, since, now, by=by, dry_run=dry_run)
    yield from _compact(table, upkeep, since, clock, dry_run=dry_run)
    yield from _vacuum(table, upkeep, clock, dry_run=dry_run)
    if not dry_run:
        yield from _checkpoint(table, upkeep, clock)
    for of, found in (
        (POSITIONS_FOLDER, partial(_superseded_positions, table, identity)),
        (ARCHIVE_FOLDER, partial(_unnamed_segments, table, identity)),
        (PAST_FOLDER, partial(_superseded_pasts, table, identity)),
        (STOPS, partial(_old, table, STOPS)),
        (RUNS, partial(_old, table, RUNS)),
    ):
        yield from _prune(table, of, found(clock.now()), dry_run=dry_run)


# Files


def _set_properties(upkeep: Upkeep, *, dry_run: bool) -> Iterator[Step]:
    missing = upkeep.missing_properties()
    if not missing:
        return
    step = Step("set properties", ", ".join(sorted(missing)), State.PLANNED)
    yield step if dry_run else _unless_in_the_way(step, partial(upkeep.set_properties, missing))


def _compact(
    table: PositionedTable, upkeep: Upkeep, since: date | None, clock: AgreedClock, *, dry_run: bool
) -> Iterator[Step]:
    today = clock.now().date().isoformat()
    for day, small in _due(table.snapshot().standing_files(), since, today).items():
        rows, files, size = sizes(small)
        step = Step("compact", day, State.PLANNED, 0, files, size)
        if dry_run:
            yield step
            continue
        for _ in range(_COMPACTIONS):
            clock.now()  # each compaction deletes entries of the log, by this machine's clock
            done = _unless_in_the_way(step, partial(upkeep.compact, day, size // max(1, rows)))
            if done.state is State.DONE:
                break
        yield done


def _due(files: list[StandingFile], since: date | None, today: str) -> Mapping[str, list[StandingFile]]:
    """The days that do not expire and have small files enough, oldest first."""
    first = "" if since is None else since.isoformat()
    small: defaultdict[str, list[StandingFile]] = defaultdict(list)
    for file in files:
        if file.size < SMALL_BYTES and first <= file.arrival_date:
            small[file.arrival_date].append(file)
    return {
        day: files
        for day, files in sorted(small.items())
        if len(files) >= (SMALL_FILES if day < today else SMALL_FILES_TODAY)
    }


def _vacuum(table: PositionedTable, upkeep: Upkeep, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
    paths = upkeep.vacuum(dry_run=True)
    if not paths:
        return
    size = sum(info.size or 0 for info in table.files.get_file_info(paths))
    step = Step("vacuum", "data files", State.PLANNED, 0, len(paths), size)
    clock.now()  # delta-rs goes by this machine's clock, here and for the log
    yield step if dry_run else _unless_in_the_way(step, partial(upkeep.vacuum, dry_run=False))


def _checkpoint(table: PositionedTable, upkeep: Upkeep, clock: AgreedClock) -> Iterator[Step]:
    before = _files_in(table, "_delta_log")
    clock.now()
    upkeep.checkpoint()
    left = {info.path for info in _files_in(table, "_delta_log")}
    gone = [info for info in before if info.path not in left]
    yield Step("checkpoint", "_delta_log", State.DONE, 0, len(gone), sum(info.size for info in gone))


def _unless_in_the_way(step: Step, do: Callable[[], object]) -> Step:
    try:
        do()
    except CommitFailed as error:
        return replace(step, state=State.LEFT, reason=str(error))
    return replace(step, state=State.DONE)


# Our own files


def _prune(table: PositionedTable, of: str, paths: Iterator[str], *, dry_run: bool) -> Iterator[Step]:
    bytes_of = {info.path: info.size for info in _files_in(table, of)}
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
    for info in _files_in(table, folder):
        if info.mtime is not None and info.mtime < now - STOPS_KEPT:
            yield info.path


def _by_token(table: PositionedTable, folder: str) -> dict[int, pyarrow.fs.FileInfo]:
    infos = ((info.base_name.removesuffix(".json"), info) for info in _files_in(table, folder))
    return {int(name): info for name, info in infos if name.isdecimal()}


def _files_in(table: PositionedTable, folder: str) -> list[pyarrow.fs.FileInfo]:
    selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    return [info for info in table.files.get_file_info(selector) if info.type is pyarrow.fs.FileType.File]
