"""Keeping a table quick and small, beside whatever runs commit to it meanwhile.

Every step can be done again, and ended anywhere: the next maintenance goes on. Rows and positions stay as
they are, except that rows older than the table's own retention go, with a floor that says so.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow.fs

from kinesis_assets.errors import CommitFailed, PositionsUnreadable
from kinesis_assets.table.commit import until_told
from kinesis_assets.table.delta import PAST_FOLDER, Upkeep
from kinesis_assets.table.files import FILE_BYTES
from kinesis_assets.table.past import FORMAT, Past
from kinesis_assets.table.positions_archive import ARCHIVE_FOLDER
from kinesis_assets.table.positions_chain import POSITIONS_FOLDER, positions_path, segment_path
from kinesis_assets.table.stop import STOPS
from kinesis_assets.table.tokens import draw_token, drawn_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import date

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.delta import PositionedTable, StandingFile, TableSnapshot

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
"""An attempt that is told to stop ends within minutes."""

SMALL_BYTES = FILE_BYTES // 4
"""A file under this size is small: a scan of so much takes longer than opening it."""

SMALL_FILES = 4
"""A day with fewer small files is left alone, so that a straggler or two do not rewrite it every night."""

SMALL_FILES_TODAY = 500
"""Likewise a day that is not over: its rows are gathered once more when it is."""

_COMPACTIONS = 3
_AT_ONCE = 16
_TOKEN_STEP = 0.001


class State(StrEnum):
    """What became of a step."""

    DONE = "done"
    PLANNED = "planned"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that maintenance did, or would do.

    Attributes:
        step: Which.
        of: Of what: an arrival date, a folder, properties.
        state: Done; planned, in a dry run; or left for the next maintenance.
        rows: Rows taken out of the table.
        files: Files that went, or are no longer in the table.
        bytes: Theirs.
        reason: Why it is left.
    """

    step: str
    of: str
    state: State
    rows: int = 0
    files: int = 0
    bytes: int = 0
    reason: str | None = None


def maintain(
    table: PositionedTable,
    identity: StreamIdentity,
    *,
    retention_days: int | None = None,
    by: str | None = None,
    dry_run: bool = False,
) -> Iterator[Step]:
    """Do, or plan, what is due; nothing is yielded for what is not.

    Args:
        table: The table of one stream.
        identity: Which stream.
        retention_days: Rows that arrived on a day (UTC, this machine's clock) longer ago are taken out. None
            for never.
        by: Who, for the record of that.
        dry_run: Change nothing.

    Yields:
        Each step when it is done.

    Raises:
        CommitFailed: The tries to take old rows out are used up.
        TableError: The table cannot be used; what was yielded is done.
    """
    upkeep = Upkeep(table)
    yield from _set_properties(upkeep, dry_run=dry_run)
    since = None if retention_days is None else _today() - timedelta(days=retention_days)
    if since is not None:
        yield from _expire(table, identity, since, by, dry_run=dry_run)
    yield from _compact(table, upkeep, since, dry_run=dry_run)
    yield from _vacuum(table, upkeep, dry_run=dry_run)
    if not dry_run:
        yield from _checkpoint(table, upkeep)
    for of, paths in (
        (POSITIONS_FOLDER, partial(_superseded_positions, table, identity)),
        (ARCHIVE_FOLDER, partial(_unnamed_segments, table, identity)),
        (PAST_FOLDER, partial(_superseded_pasts, table, identity)),
        (STOPS, partial(_old_stops, table)),
    ):
        yield from _prune(table, of, paths, dry_run=dry_run)


def _now() -> datetime:
    return datetime.now(UTC)


def _today() -> date:
    return _now().date()


# Retention of rows


def _expire(
    table: PositionedTable, identity: StreamIdentity, wanted: date, by: str | None, *, dry_run: bool
) -> Iterator[Step]:
    batch_id = draw_token()
    tried: dict[int, Step] = {}

    def look(*, and_try: bool) -> tuple[Step | None] | None:
        snapshot = table.snapshot()
        past = snapshot.past(identity)
        standing = None if past is None else past.floor
        floor = wanted if standing is None else max(wanted, standing)
        # By whole days, so that it is a matter of the log alone and no file is written again.
        old = [file for file in snapshot.standing_files() if file.arrival_date < floor.isoformat()]
        if not old and floor == standing:
            return (None if past is None else tried.get(past.token),)
        step = Step("expire", f"before {floor}", State.DONE, *_sizes(old))
        if dry_run:
            return (replace(step, state=State.PLANNED),)
        if not and_try:
            return None
        following = Past(
            format=FORMAT,
            token=draw_token(),
            previous=None if past is None else past.token,
            batch_id=batch_id,
            at=_now(),
            by=by,
            floor=floor,
        )
        tried[following.token] = step
        if not old:
            snapshot.commit([], identity=identity, past=following)
        else:
            # The day is this program's own text: nothing from outside is in the predicate.
            snapshot.remove(f"arrival_date < '{floor}'", identity=identity, past=following)
        # Rows of such days may be landing all the while: those are the next maintenance's.
        return (step,)

    (step,) = until_told(table, look)
    if step is not None:
        yield step


# Files


def _set_properties(upkeep: Upkeep, *, dry_run: bool) -> Iterator[Step]:
    missing = upkeep.missing_properties()
    if not missing:
        return
    step = Step("set properties", ", ".join(sorted(missing)), State.PLANNED)
    yield step if dry_run else _unless_in_the_way(step, partial(upkeep.set_properties, missing))


def _compact(table: PositionedTable, upkeep: Upkeep, since: date | None, *, dry_run: bool) -> Iterator[Step]:
    for day, small in _due(table.snapshot().standing_files(), since).items():
        rows, files, size = _sizes(small)
        step = Step("compact", day, State.PLANNED, 0, files, size)
        if dry_run:
            yield step
            continue
        for _ in range(_COMPACTIONS):
            done = _unless_in_the_way(step, partial(upkeep.compact, day, size // max(1, rows)))
            if done.state is State.DONE:
                break
        yield done


def _due(files: list[StandingFile], since: date | None) -> Mapping[str, list[StandingFile]]:
    """The days that do not expire and have small files enough, oldest first."""
    first, today = "" if since is None else since.isoformat(), _today().isoformat()
    small: defaultdict[str, list[StandingFile]] = defaultdict(list)
    for file in files:
        if file.size < SMALL_BYTES and first <= file.arrival_date:
            small[file.arrival_date].append(file)
    return {
        day: files
        for day, files in sorted(small.items())
        if len(files) >= (SMALL_FILES if day < today else SMALL_FILES_TODAY)
    }


def _vacuum(table: PositionedTable, upkeep: Upkeep, *, dry_run: bool) -> Iterator[Step]:
    paths = upkeep.vacuum(dry_run=True)
    if not paths:
        return
    size = sum(info.size or 0 for info in table.files.get_file_info(paths))
    step = Step("vacuum", "data files", State.PLANNED, 0, len(paths), size)
    yield step if dry_run else _unless_in_the_way(step, partial(upkeep.vacuum, dry_run=False))


def _checkpoint(table: PositionedTable, upkeep: Upkeep) -> Iterator[Step]:
    before = _files_in(table, "_delta_log")
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


def _sizes(files: list[StandingFile]) -> tuple[int, int, int]:
    return sum(file.rows for file in files), len(files), sum(file.size for file in files)


# Our own files


def _prune(
    table: PositionedTable, of: str, found: Callable[[], Iterator[str]], *, dry_run: bool
) -> Iterator[Step]:
    sizes = {info.path: info.size for info in _files_in(table, of)}
    paths = found()
    files = size = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # In their order but for some at a time: where this ends early, the next maintenance goes on.
        while some := list(islice(paths, _AT_ONCE)):
            if not dry_run:
                list(pool.map(table.files.delete_file, some))
            files, size = files + len(some), size + sum(sizes.get(path, 0) for path in some)
    if files:
        yield Step("prune", of, State.PLANNED if dry_run else State.DONE, 0, files, size)


def _superseded_positions(table: PositionedTable, identity: StreamIdentity) -> Iterator[str]:
    """Positions files before those that stood `CHAIN_KEPT` ago, or less if they are many, oldest first.

    The bases of those that are kept are kept too: of the oldest, and of the present one, since of two tokens
    the one that was drawn later may be smaller where clocks differ.

    What stood then is told by the oldest file drawn since: it was written on top of it, whether it landed or
    not. So the chain need not be walked, which has thousands of links a day.
    """
    snapshot = table.snapshot()
    current = snapshot.positions(identity, or_older=True)
    if current is None:
        return
    sizes = dict(sorted(_sizes_by_token(table, POSITIONS_FOLDER).items()))
    since = _chain_since(sizes)
    kept = current.token
    for token in sizes:
        if drawn_at(token) < since:
            continue
        previous = _previous_of(snapshot, identity, token)
        if previous is not None:
            kept = min(kept, previous)
            break
    bases = {_base_of(snapshot, token) for token in (kept, current.token)}
    old = iter([token for token in sizes if token < kept and drawn_at(token) < since and token not in bases])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while some := list(islice(old, _AT_ONCE)):
            # Another stream's, if one was ever brought into this table, are none of ours.
            ours = pool.map(partial(_is_of, snapshot, identity), some)
            for token, is_ours in zip(some, ours, strict=True):
                if is_ours:
                    yield positions_path(token)


def _chain_since(sizes: Mapping[int, int]) -> float:
    """From when on positions files are kept, seconds since the epoch.

    Args:
        sizes: Bytes by token, oldest first.
    """
    since, needed = ((_now() - span).timestamp() for span in (CHAIN_KEPT, CHAIN_NEEDED))
    files = size = 0
    for token in reversed(sizes):
        files, size = files + 1, size + sizes[token]
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


def _unnamed_segments(table: PositionedTable, identity: StreamIdentity) -> Iterator[str]:
    """Segments of the archive that were written `CHAIN_KEPT` ago for commits that never landed, oldest first.

    Those of another stream, or of an older one of this name, stay.
    """
    current = table.snapshot().positions(identity, or_older=True)
    if current is None:
        return
    named = table.chain.segments(current)
    for token in sorted(_sizes_by_token(table, ARCHIVE_FOLDER)):
        if token in named or not _is_old(token):
            continue
        try:
            is_ours = table.chain.stream_of_segment(token) == current.identity
        except PositionsUnreadable:  # its writer was killed, or is of a newer version
            is_ours = False
        if is_ours:
            yield segment_path(token)


def _superseded_pasts(table: PositionedTable, identity: StreamIdentity) -> Iterator[str]:
    """Entries of the past before the one that stood `CHAIN_KEPT` ago, oldest first.

    These do not say of which stream they are, so the chain is walked; it has a few links a day. From its end,
    so that what is not deleted by then can still be reached the next time.
    """
    snapshot = table.snapshot()
    present = _sizes_by_token(table, PAST_FOLDER)  # others were pruned before
    entry = snapshot.past(identity)
    chain: list[int] = []
    while entry is not None:
        chain.append(entry.token)
        previous = entry.previous
        entry = snapshot.past_at(previous) if previous in present else None
    old = [token for token in chain if _is_old(token)]
    for token in reversed(old[1:]):
        yield f"{PAST_FOLDER}/{token}.json"


def _old_stops(table: PositionedTable) -> Iterator[str]:
    for info in _files_in(table, STOPS):
        if info.mtime is not None and info.mtime < _now() - STOPS_KEPT:
            yield info.path


def _is_old(token: int) -> bool:
    return drawn_at(token) < (_now() - CHAIN_KEPT).timestamp()


def _sizes_by_token(table: PositionedTable, folder: str) -> dict[int, int]:
    names = ((info.base_name.removesuffix(".json"), info.size) for info in _files_in(table, folder))
    return {int(name): size for name, size in names if name.isdecimal()}


def _files_in(table: PositionedTable, folder: str) -> list[pyarrow.fs.FileInfo]:
    selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    return [info for info in table.files.get_file_info(selector) if info.type is pyarrow.fs.FileType.File]
