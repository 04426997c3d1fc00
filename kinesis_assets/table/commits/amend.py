"""Commits missing rows and an amendment together.

As in `commit`, each try opens the table again and commits through the same snapshot. The rows with which the
attempt compared the stream must not have changed since, as by another replay or a seek.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from kinesis_assets.errors import PastChanged
from kinesis_assets.kinesis.clock import utc_now
from kinesis_assets.table.commits.commit import check_files
from kinesis_assets.table.commits.commit_loop import Try, commit_amendment, require_positions
from kinesis_assets.table.positions.amendments import next_amendment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions.amendments import Amendment, ClearedGap
    from kinesis_assets.table.positions.range_stats import RangeStats
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.snapshot import TableSnapshot


def commit_missing_rows(
    table: PositionedTable,
    *,
    identity: StreamIdentity,
    version: int,
    amendment: Amendment | None,
    not_before: datetime,
    batch_id: int,
    files: Sequence[DataFile],
    filled: Mapping[str, RangeStats],
    cleared: Mapping[str, Sequence[ClearedGap]] = MappingProxyType({}),
    by: str | None = None,
) -> int | None:
    """Commit missing rows of ranges that the positions have passed.

    A restore or an overwrite may have added or removed some of the same rows without an amendment. The log's
    entries since the attempt's version are searched for one; Delta refuses the commit if another one follows.

    Args:
        version: The version of the table with which the attempt compared the stream.
        amendment: The newest amendment of that version; None if there was none.
        not_before: The earliest arrival time of the rows.
        filled: The facts about the ranges that were read, by shard id; those without rows are not stored.
        cleared: The gaps that these rows fill, or their first parts, by shard id.
        by: The Dagster run id or the person that commits.

    Returns:
        The version of the table that the commit created; None if it is no longer among the newest hundred.

    Raises:
        PastChanged: Another amendment has changed the same rows, or the table was restored or overwritten;
            nothing was committed. Other errors are those of `check_files` and `commit_amendment`.
    """

    def prepare(snapshot: TableSnapshot, current: Amendment | None) -> Try[None]:
        change = _rewritten(table, snapshot, identity, current, version)
        if change is None and not _same_rows(table, current, amendment, not_before):
            change = f"{'another commit' if current is None else f'batch {current.batch_id}'} changed them"
        if change is not None:
            raise PastChanged(
                table.uri,
                f"while batch {batch_id} was reading committed rows of {identity.name}, {change}. Nothing "
                "of this batch was committed; run again",
            )
        check_files(table, batch_id, files)
        new = next_amendment(
            current,
            batch_id=batch_id,
            at=utc_now(table.clock),
            by=by,
            filled=filled,
            cleared=_cleared(current, cleared),
            clock=table.clock,
        )
        return Try(None, new.commit_id, partial(snapshot.commit, files, identity=identity, amendment=new))

    _, created = commit_amendment(table, identity, amendment, batch_id, prepare, for_rows=bool(files))
    return created


def _rewritten(
    table: PositionedTable,
    snapshot: TableSnapshot,
    identity: StreamIdentity,
    current: Amendment | None,
    version: int,
) -> str | None:
    """Say which restore or overwrite since a version replaced rows, or may have; None if there was none."""
    if current is not None and current.accepted is not None and current.accepted > version:
        return f"version {current.accepted}, which an operator accepted, replaced them"
    # Runs have checked the log up to the version that the newest positions are based on.
    examined = require_positions(table.uri, snapshot, identity, or_older=True).examined
    rewrites = snapshot.rewrites_between(max(version, examined or 0))
    if rewrites is None:
        return "a version that is no longer in the log may have replaced them"
    return f"{rewrites[0]} replaced them" if rewrites else None


def _cleared(
    current: Amendment | None, cleared: Mapping[str, Sequence[ClearedGap]]
) -> dict[str, tuple[ClearedGap, ...]]:
    """Return the gaps and the first parts of gaps that are filled after this commit, each once."""
    before = {} if current is None else current.cleared
    added = {
        shard_id: (
            *(part for part in before.get(shard_id, ()) if not any(part.is_in(gap) for gap in gaps)),
            *gaps,
        )
        for shard_id, gaps in cleared.items()
    }
    return before | added


def _same_rows(
    table: PositionedTable, current: Amendment | None, amendment: Amendment | None, not_before: datetime
) -> bool:
    """Return whether the amendments since *amendment* changed no row that arrived at or after a time."""
    return not any(
        each.filled or each.rewound or (each.floor and each.floor > not_before.date())
        for each in table.amendments.since(current, None if amendment is None else amendment.commit_id)
    )
