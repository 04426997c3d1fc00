"""Commits the rows of a derived table together with its cursor.

As in `table.commits.commit`, each try opens the table again and commits through the same version, so that
Delta refuses the commit if another run has moved the cursor since. A try that raised an error may have
committed nevertheless: only the entries from the newest one back to the expected one show it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kinesis_assets.derive.commit_entry import (
    FORMAT,
    NO_DELETIONS,
    UNMATCHED,
    DerivedCommit,
    Kind,
    ReplacedFile,
)
from kinesis_assets.derive.data_files import Manifest
from kinesis_assets.derive.derived_table import refuse_rewritten
from kinesis_assets.derive.policy import ROUTE_COLUMN
from kinesis_assets.errors import CursorConflict, UpsertOvertaken
from kinesis_assets.kinesis.clock import utc_now
from kinesis_assets.metrics import COMMIT_DURATION, TABLE, timed
from kinesis_assets.retry import RetryPolicy, retry
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import check_files
from kinesis_assets.table.commits.commit_loop import commit_until_known, find_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinesis_assets.derive.commit_entry import Definition, Floor, Redriven, RememberedDeletions
    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.derive.data_files import DerivedFile, RecordCounts
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.policy import DeletedRows, OnDeleted
    from kinesis_assets.table.data_file import TableFile, WrittenFile

_Commit = TypeVar("_Commit", "DerivedCommit", "DerivedCommit | None")

UPSERT_TRIES = 10
"""How often an upsert is planned again because another commit changed the table's files meanwhile."""

_EMPTY = Manifest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an attempt to commit has written and consumed.

    The attributes that are not described are those of `DerivedCommit`.

    Attributes:
        manifest: The files that it wrote.
        counts: How many records there were, and how many could not be decoded; None if they were not counted.
        errors: The files that it wrote with the records that could not be decoded; None if such records are
            not separated.
        deletions: All deletions that the table remembers from now on; None for those of the commit before,
            unless the commit restarts the table.
        floor: The first date of the rows that the table keeps; None for that of the commit before.
    """

    batch_id: int
    cursor: Cursor
    manifest: Manifest = _EMPTY
    counts: RecordCounts | None = None
    errors: Sequence[DerivedFile] | None = None
    redriven: Redriven | None = None
    on_deleted: OnDeleted | None = None
    given_up: tuple[DeletedRows, ...] = ()
    definition: Definition | None = None
    consumed: int | None = None
    deletions: RememberedDeletions | None = None
    maintains: bool = False
    floor: Floor | None = None
    expired: tuple[DeletedRows, ...] = ()
    by: str | None = None


def commit(
    table: DerivedTable,
    attempt: Attempt,
    *,
    expected: int | None,
    base: DerivedSnapshot | None = None,
    removed: Sequence[TableFile] = (),
    restarts: bool = False,
    columns: dict[str, Any] | None = None,
) -> DerivedCommit:
    """Commit an attempt's files and its position in the source, both or neither.

    Args:
        expected: The id of the newest commit when the attempt started; None if there was none. Its entry is
            read only if another commit came after it, or unless *restarts*.
        base: Commit only if this is still the newest version, but for compactions of other files; None if any
            version will do.
        removed: The files of *base* that those of the attempt replace.
        restarts: Whether the commit starts a new chain, because the table was emptied.
        columns: The schema that the table gets; None to keep its own. All files of *base* must be removed, or
            none, see `DerivedSnapshot.commit`.

    Returns:
        The commit, also if a try that seemed to fail has made it.

    Raises:
        CursorConflict: Another run has moved the cursor; nothing was committed.
        TableRewritten: The table was restored or overwritten; nothing was committed.
        UpsertOvertaken: Another commit came after *base*, or a compaction of removed files; nothing was
            committed.
        AttemptExpired: The attempt is too old.
        DataFileInvalid: A file is missing, or does not have its rows.
        CommitFailed: Every try failed.
        CommitUnknown: The commit entries are unreadable, or the table could not be read after a try.
    """

    def committed(*, may_commit: bool) -> DerivedCommit | None:
        snapshot = table.snapshot()
        if snapshot.commit_id != expected:
            # A rebuild starts the chain again.
            since = table.entries.since(snapshot.newest, expected, may_restart=True)
            if (own := find_commit(table.uri, since, attempt.batch_id)) is not None:
                return own
            _refuse_moved_cursor(snapshot, expected)
        if base is not None and not _still_holds(base, snapshot, removed):
            raise UpsertOvertaken(
                table.uri,
                f"another commit came after version {base.version}, on which this one is based. "
                "Nothing was committed; run again",
            )
        if not restarts:
            refuse_rewritten(snapshot)
        if may_commit:
            entry = _checked_entry(snapshot, attempt, removed, restarts=restarts)
            files = attempt.manifest.files
            snapshot.commit(entry, files, removed, exclusive=base is not None, columns=columns)
        return None

    with timed(COMMIT_DURATION, {TABLE: table.uri}, table.clock.monotonic):
        return commit_until_known(table, committed)


def _checked_entry(
    snapshot: DerivedSnapshot, attempt: Attempt, removed: Sequence[TableFile], *, restarts: bool
) -> DerivedCommit:
    """Return the entry of a commit on top of a version, after checking the files that the entry will name."""
    table, manifest, errors = snapshot.table, attempt.manifest, attempt.errors
    before = None if restarts else snapshot.newest
    known = NO_DELETIONS if before is None else before.deletions or NO_DELETIONS
    remembered = known if attempt.deletions is None else attempt.deletions
    new = [file for file in remembered.files if file not in known.files]
    written: list[WrittenFile] = [*manifest.files, *manifest.replaced, *(errors or ()), *new]
    redriven = attempt.redriven
    check_files(table, attempt.batch_id, written + list(() if redriven is None else redriven.files))
    errors_before = None if before is None else before.last_errors
    if errors is None and before is not None and not before.records_errors:
        errors_before = None  # such records are in the table
    return DerivedCommit(
        format=FORMAT,
        commit_id=new_id(table.clock),
        previous=None if restarts else snapshot.commit_id,
        batch_id=attempt.batch_id,
        at=utc_now(table.clock),
        by=attempt.by,
        examined=snapshot.version,
        cursor=attempt.cursor,
        rows=sum(file.new_rows for file in manifest.files),
        deleted=sum(file.rows or 0 for file in (removed if restarts else manifest.replaced))
        + sum(each.rows or 0 for each in attempt.expired),
        records=None if attempt.counts is None else attempt.counts.records,
        bad_records=None if attempt.counts is None else attempt.counts.errors,
        replaced=named_files(manifest.replaced),
        errors=named_files(errors or ()),
        redriven=redriven,
        errors_before=errors_before,
        on_deleted=attempt.on_deleted,
        given_up=attempt.given_up,
        definition=attempt.definition,
        routed=_routed(manifest, attempt.definition),
        consumed=attempt.consumed,
        deletions=remembered if remembered.files else None,
        maintains=attempt.maintains,
        floor=attempt.floor or (None if before is None else before.floor),
        expired=attempt.expired,
    )


def _refuse_moved_cursor(newest: DerivedSnapshot, expected: int | None) -> None:
    """Check that the commits since an expected one are of maintenance, which leaves the cursor as it was."""
    table = newest.table
    # A rebuild, with which a chain starts again, is no maintenance. Without one, it is that of a new table.
    since = table.entries.since(newest.newest, expected)
    if not all(each.maintains for each in since):
        raise CursorConflict(
            table.uri,
            "another run has consumed the same rows of the source. This run added none of its rows; the "
            "next run continues after the other one",
        )


def named_files(files: Sequence[DerivedFile]) -> tuple[ReplacedFile, ...]:
    """Return files that are not part of the table as a commit entry names them."""
    return tuple(ReplacedFile(file.path, file.size, file.rows) for file in files)


def _routed(manifest: Manifest, definition: Definition | None) -> dict[str, int]:
    found: Counter[str] = Counter()
    if definition is not None and definition.kind is Kind.ROUTER:
        for file in manifest.files:
            found[file.partition[ROUTE_COLUMN] or UNMATCHED] += file.new_rows
    return dict(found)


def until_not_overtaken(table: DerivedTable, attempt: Callable[[], _Commit]) -> _Commit:
    """Make an attempt again, a bounded number of times, if another commit changed the table meanwhile."""
    policy = RetryPolicy(UPSERT_TRIES, table.policy.commits.backoff)
    return retry(attempt, on=UpsertOvertaken, policy=policy, sleep=table.clock.sleep)


def _still_holds(base: DerivedSnapshot, newest: DerivedSnapshot, removed: Sequence[TableFile]) -> bool:
    """Return whether files can be replaced in the newest version with the same result as in an earlier one.

    Compactions in between change nothing if they have left these files: all rows that are replaced are there.
    """
    if base.commit_id != newest.commit_id:
        return False
    if base.version == newest.version:
        return True
    if not newest.is_compacted_since(base.version):
        return False
    present = {file.path for file in newest.data_files()}
    return all(file.path in present for file in removed)
