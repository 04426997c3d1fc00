"""The steps of the maintenance of an Iceberg table that another format does not have, or has in another way.

Commits expire snapshots, but delete no files: readers may still use them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitFailed, TableUnsuitable
from kinesis_assets.table.commits.commit_loop import commit_until_known
from kinesis_assets.table.data_file import FIELD_IDS, verify
from kinesis_assets.table.iceberg.lost_commits import unknown_commit
from kinesis_assets.table.iceberg.manifests import table_file
from kinesis_assets.table.iceberg.rows import merge
from kinesis_assets.table.iceberg.version import IcebergVersion
from kinesis_assets.table.maintenance.steps import State, Step, compact_each, done_or_left
from kinesis_assets.table.policy import VACUUM_RETENTION
from kinesis_assets.table.store.storage import files_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.stored_table import StoredTable


def compact(
    table: PositionedTable, due: Mapping[str, Sequence[TableFile]], clock: AgreedClock, *, dry_run: bool
) -> Iterator[Step]:
    """Merge the small files of each day that is due, in one commit for each day.

    A commit that adds rows may come first as often as it likes: the files are written once, and the commit
    that replaces the small ones is tried again as long as the table has all of them.

    Args:
        clock: The clock that is checked before each compaction: replaced files are later deleted by it.

    Yields:
        A step for each day. It is left if another program has added columns, which would be lost.

    Raises:
        ClocksDisagree: The clocks differ.
    """
    if not due:
        return
    others = [name for name in _opened(table).iceberg.schema().column_names if name not in FIELD_IDS]

    def compact_day(day: str) -> None:
        if others:
            raise CommitFailed(
                table.uri,
                f"it has columns of another program ({', '.join(others)}), which this compaction would not "
                "keep; run rewrite_data_files of Spark, or compaction of the catalog",
            )
        _compact_day(table, day, {file.path for file in due[day]})

    yield from compact_each(due, compact_day, clock, dry_run=dry_run)


def _compact_day(table: PositionedTable, day: str, due: AbstractSet[str]) -> None:
    opened = _opened(table)
    small = due & {file.path for file in opened.data_files()}
    if not small:
        return
    location = opened.iceberg.location()
    written = merge(table, location, day, sorted(small))
    added = [table_file(table.uri, opened.iceberg, file) for file in written]

    def step(*, may_commit: bool) -> bool | None:
        snapshot = _opened(table)
        present = {file.path for file in snapshot.data_files()}
        if present.issuperset(file.path for file in added):
            return True
        if not small <= present:
            raise CommitFailed(
                table.uri, f"another commit replaced files of {day}. Nothing was changed, run again later"
            )
        if may_commit:
            for file in added:  # a vacuum has deleted them if the process was paused for days
                verify(table.uri, table.files, file)
            snapshot.replace_files(small, written)
        return None

    commit_until_known(table, step)


def _opened(table: StoredTable) -> IcebergVersion:
    opened = table.snapshot()
    if not isinstance(opened, IcebergVersion):
        raise TableUnsuitable(table.uri, "is not an Iceberg table")
    return opened


_VACUUMED = re.compile(
    r"(?:(?:arrival_date=[^/]*|data)/.*|part-[^/]*|rewritten-[^/]*)\.parquet"
    r"|(?:[^/=]+=[^/]*/)+part-\d+-[0-9a-f]{32}\.\w+\.parquet"
    r"|metadata/[^/]*\.(?:avro|metadata\.json(?:\.gz)?|parquet|puffin|stats)"
)
"""The files of Iceberg's writers, and of this package. Others in the folder may be those of another table, or
the database of the catalog."""


def vacuum(table: StoredTable, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
    """Delete data files and metadata that are older than `VACUUM_RETENTION` and that no snapshot names.

    Only files whose names are those of such files are deleted. At a location that the catalog has chosen,
    none is: S3 Tables lets nobody else list or delete objects, and deletes them by itself.

    Args:
        clock: The clock by which files are old, which is checked before.

    Raises:
        ClocksDisagree: The clocks differ.
        TableUnsuitable: The catalog does not know some commits, see `lost_commits`; nothing was deleted.
    """
    if _opened(table).folder.rows is not None:
        return
    since = clock.now() - VACUUM_RETENTION
    # The folder is listed before the table is opened, which therefore names what is committed in between.
    listed = files_below(table.files)
    opened = _opened(table)
    unknown = unknown_commit(opened, listed)
    named = opened.named_paths()
    old = [
        info
        for info in listed
        if _VACUUMED.fullmatch(info.path)
        and info.mtime is not None
        and info.mtime < since
        and info.path not in named
    ]
    if not old:
        return
    size = sum(info.size for info in old)
    step = Step("vacuum", "data files and metadata", State.PLANNED, 0, len(old), size)
    if unknown is not None:
        reason = f"{unknown} may be of a commit that the catalog has lost; the next commit decides"
        yield replace(step, state=State.LEFT, reason=reason)
        return

    def delete() -> None:
        _refuse_earlier_attempts(table)
        named = _opened(table).named_paths()
        for info in old:
            if info.path in named:  # a commit that had paused has added it just before
                continue
            try:
                table.files.delete_file(info.path)
            except OSError as error:
                raise CommitFailed(table.uri, f"{info.path} cannot be deleted: {error}") from None

    yield step if dry_run else done_or_left(step, delete)


def _refuse_earlier_attempts(table: StoredTable) -> None:
    """Make a commit fail that verified its files before the vacuum, and paused for days."""
    base = _opened(table).version

    def step(*, may_commit: bool) -> bool | None:
        snapshot = _opened(table)
        if snapshot.version > base:
            return True
        if may_commit:
            snapshot.add_nothing()
        return None

    commit_until_known(table, step)
