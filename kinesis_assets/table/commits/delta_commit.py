"""The entries of a Delta commit: added files, and pointers to new positions and amendments."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltalake import CommitProperties
from deltalake.transaction import AddAction, Transaction

from kinesis_assets.table.clocks import clocks_agree
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.ownership import amendment_application, application
from kinesis_assets.table.properties import HISTORY_RETENTION

if TYPE_CHECKING:
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.data_files.data_file import DataFile
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions

_TOKEN_KEY = "kinesis_assets.token"  # noqa: S105  # the stored name of a commit id
_AMENDMENT_KEY = "kinesis_assets.past_token"  # likewise, of an amendment

_CLEAN_UP_EVERY = 100
"""One in this many commits deletes expired log entries, which takes as long as a commit."""

_OLDEST_LISTING = HISTORY_RETENTION / 3
"""No attempt commits with an older listing of its shards, see `commit.MAX_ATTEMPT_AGE`."""


def commit_properties(
    identity: StreamIdentity, positions: StreamPositions | None, amendment: Amendment | None
) -> CommitProperties:
    """Return the properties of a commit that points at new positions, a new amendment, or both.

    A pointer is a transaction in the name of the stream. Its version is the commit id, which names the file.
    """
    entries, audit = [], {}
    if positions is not None:
        entries.append(Transaction(application(identity), positions.commit_id))
        audit[_TOKEN_KEY] = str(positions.commit_id)
    if amendment is not None:
        entries.append(Transaction(amendment_application(identity), amendment.commit_id))
        audit[_AMENDMENT_KEY] = str(amendment.commit_id)
    return CommitProperties(app_transactions=entries, custom_metadata=audit)


def may_clean_up(positions: StreamPositions) -> bool:
    """Return whether the commit of positions may delete expired log entries.

    delta-rs compares ages with this machine's clock, from which the id of the commit was drawn. If that clock
    disagrees with the service time of the last listing, nothing is deleted until the next maintenance.
    """
    if positions.generation % _CLEAN_UP_EVERY or positions.listed_at is None:
        return False
    drawn = datetime.fromtimestamp(time_of_id(positions.commit_id), UTC)
    return clocks_agree(positions.listed_at, drawn, age=_OLDEST_LISTING)


def add_action(file: DataFile) -> AddAction:
    """Return the log entry that adds a data file."""
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={"arrival_date": file.arrival_date},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=file.statistics(),
    )
