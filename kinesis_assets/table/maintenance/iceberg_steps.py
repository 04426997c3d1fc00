"""The steps of the maintenance of an Iceberg table that another format does not have, or has in another way.

Commits expire snapshots, but delete no files: readers may still use them. Other engines compact the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import CommitFailed, TableUnsuitable
from kinesis_assets.table.iceberg.raw_table import IcebergSnapshot
from kinesis_assets.table.maintenance.steps import State, Step, done_or_left
from kinesis_assets.table.policy import VACUUM_RETENTION
from kinesis_assets.table.store.storage import files_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.table.clocks import AgreedClock
    from kinesis_assets.table.maintenance.steps import SizedFile
    from kinesis_assets.table.table import PositionedTable

_NOT_COMPACTED = (
    "Iceberg tables are compacted by other engines: run rewrite_data_files of Spark, or compaction of the "
    "catalog, at any time"
)


def leave_compaction(due: Mapping[str, Sequence[SizedFile]]) -> Iterator[Step]:
    """Yield for each day with many small files that its compaction is left to another engine."""
    for day, files in due.items():
        size = sum(file.size for file in files)
        yield Step("compact", day, State.LEFT, 0, len(files), size, _NOT_COMPACTED)


def vacuum(table: PositionedTable, clock: AgreedClock, *, dry_run: bool) -> Iterator[Step]:
    """Delete data files and metadata that are older than `VACUUM_RETENTION` and that no snapshot names.

    Args:
        clock: The clock by which files are old, which is checked before.

    Yields:
        The step, if there are such files.

    Raises:
        ClocksDisagree: The clocks differ.
    """
    since = clock.now() - VACUUM_RETENTION
    # The folder is listed before the table is opened, which therefore names what is committed in between.
    found = [info for info in files_below(table.files) if info.mtime is not None and info.mtime < since]
    opened = table.snapshot()
    if not isinstance(opened, IcebergSnapshot):
        raise TableUnsuitable(table.uri, "is not an Iceberg table")
    named = opened.named_paths()
    old = [info for info in found if info.path not in named]
    if not old:
        return
    size = sum(info.size for info in old)
    step = Step("vacuum", "data files and metadata", State.PLANNED, 0, len(old), size)

    def delete() -> None:
        for info in old:
            try:
                table.files.delete_file(info.path)
            except OSError as error:
                raise CommitFailed(table.uri, f"{info.path} cannot be deleted: {error}") from None

    yield step if dry_run else done_or_left(step, delete)
