"""What a commit holds besides its files: the entries that point at new positions and amendments."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from deltalake import CommitProperties
from deltalake.transaction import AddAction, Transaction

from kinesis_assets.table.clocks import agree
from kinesis_assets.table.commit_ids import drawn_at
from kinesis_assets.table.ownership import application, past_application
from kinesis_assets.table.properties import HISTORY_RETENTION

if TYPE_CHECKING:
    from collections.abc import Collection

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions import StreamPositions
    from kinesis_assets.table.table_files import TableFiles

_TOKEN_KEY = "kinesis_assets.token"  # noqa: S105  # names a commit's audit entry
_PAST_TOKEN_KEY = "kinesis_assets.past_token"  # noqa: S105  # likewise

_CLEAN_UP_EVERY = 100
"""Commits from one look for expired entries of the log to the next: it costs as much as a commit."""

_OLDEST_LISTING = HISTORY_RETENTION / 3
"""No attempt commits with an older listing of its shards, see `commit.OLDEST_ATTEMPT`."""


def pointing_at(
    table: TableFiles,
    identity: StreamIdentity,
    positions: StreamPositions | None,
    past: Past | None,
    retired: Collection[str] = (),
) -> CommitProperties:
    """Write the files of new positions and of a new amendment, and return the entries that point at them."""
    entries, audit = [], {}
    if positions is not None:
        table.chain.write(positions, retired)
        entries.append(Transaction(application(identity), positions.token))
        audit[_TOKEN_KEY] = str(positions.token)
    if past is not None:
        table.amendments.write(msgspec.structs.replace(past, arn=identity.arn))
        entries.append(Transaction(past_application(identity), past.token))
        audit[_PAST_TOKEN_KEY] = str(past.token)
    return CommitProperties(app_transactions=entries, custom_metadata=audit)


def may_clean_up(positions: StreamPositions) -> bool:
    """Whether a commit is one that deletes expired entries of the log, and its clock can be trusted with it.

    delta-rs goes by this machine's clock, which drew the commit's token just now; the service's is known from
    the last listing. Where they disagree, the log is left to the next maintenance.
    """
    if positions.generation % _CLEAN_UP_EVERY or positions.listed_at is None:
        return False
    drawn = datetime.fromtimestamp(drawn_at(positions.token), UTC)
    return agree(positions.listed_at, drawn, age=_OLDEST_LISTING)


def add_action(file: DataFile) -> AddAction:
    """The entry of the log that adds a data file."""
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={"arrival_date": file.arrival_date},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=file.statistics(),
    )
