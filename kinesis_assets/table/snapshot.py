"""One version of a raw table: reads the positions that it points at, and commits new ones on top of it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from deltalake import PostCommitHookProperties

from kinesis_assets.errors import (
    StreamRecreated,
    TableUnreachable,
    TableUnsuitable,
)
from kinesis_assets.table.clocks import clocks_agree
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.data_file import ActiveFile, FileStats
from kinesis_assets.table.delta_writer import writer_properties
from kinesis_assets.table.log.delta_log import applications, newest_version_of
from kinesis_assets.table.nullable_columns import columns_without_null
from kinesis_assets.table.ownership import (
    OWNER,
    WAY_OUT_OF_RECREATION,
    amendment_application,
    application,
    application_of_arn,
    arns_of,
    refuse_other_stream,
)
from kinesis_assets.table.policy import HISTORY_RETENTION, TablePolicy
from kinesis_assets.table.positions.amendments import amendment_chain
from kinesis_assets.table.positions.positions_chain import PositionsChain
from kinesis_assets.table.version import KEEP_ENTRIES, StoredTable, TableVersion, commit_properties

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from deltalake import CommitProperties

    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions


class TableSnapshot(TableVersion):
    """One version of a raw table. Delta refuses a commit onto it if another one has moved a pointer since."""

    table: TableFiles

    @cached_property
    def owner(self) -> str | None:
        """The ARN of the stream that the table's properties name; None if no stream has claimed the table."""
        return self.properties.get(OWNER)

    @cached_property
    def owners(self) -> frozenset[str]:
        """The ARNs of the streams that the table belongs to: its owner, or without one, those in its log.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        return self.streams_in_log() if self.owner is None else frozenset([self.owner])

    def streams_in_log(self) -> frozenset[str]:
        """Return the ARNs of all streams with transactions in the log, whatever the table's properties say.

        The result may include streams from commits after this version.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        try:
            return arns_of(applications(self.table.files))
        except (OSError, msgspec.MsgspecError) as error:
            raise TableUnreachable(self.table.uri, f"its log cannot be read: {error}") from None

    def refuse_other_stream(self, identity: StreamIdentity) -> None:
        """Check that the table belongs to a stream, or to none yet.

        Raises:
            TableOfAnotherStream: The table belongs to another stream.
            TableUnreachable: The table's log cannot be read.
        """
        refuse_other_stream(self.table.uri, self.owners, identity)

    def claim(self, identity: StreamIdentity) -> None:
        """Set a stream as the table's owner, by a commit that Delta refuses if another stream came first.

        The current owner is not checked, and an error does not mean that the commit failed: see
        `commit.claim`.
        """
        self.delta.alter.set_table_properties(
            {OWNER: identity.arn}, raise_if_not_exists=False, post_commithook_properties=KEEP_ENTRIES
        )

    def positions(self, identity: StreamIdentity, *, or_older: bool = False) -> StreamPositions | None:
        """Read the stream's positions from the file that the log points at; None if it points at none.

        Args:
            or_older: Also accept the positions of an older stream with the same name.

        Raises:
            TableOfAnotherStream: The table belongs to a stream with another ARN.
            PositionsUnreadable: The file that the log points at is missing or invalid.
            TableUnreachable: The log or the file cannot be read at present.
            StreamRecreated: The positions are those of an older stream with the same name.
        """
        self.refuse_other_stream(identity)
        found = self.positions_of(identity.arn)
        if found is None or found.identity == identity:
            return found
        if not (or_older and found.identity.created < identity.created):
            raise StreamRecreated(
                identity.name,
                f"the table {self.table.uri} has positions of the stream created at "
                f"{found.identity.created:%Y-%m-%dT%H:%M:%SZ}, but this one was created at "
                f"{identity.created:%Y-%m-%dT%H:%M:%SZ}; sequence numbers do not carry over",
                advice=WAY_OUT_OF_RECREATION,
            )
        return found

    def positions_of(self, arn: str) -> StreamPositions | None:
        """Read the positions of the newest stream with an ARN. Raises as `positions_at`."""
        commit_id = self.commit_id_of(application_of_arn(arn))
        return None if commit_id is None else self.positions_at(commit_id, arn)

    def positions_at(self, commit_id: int, arn: str | None = None) -> StreamPositions:
        """Read the positions file with a commit id. The arguments and errors are those of `Chain.at`."""
        return self.table.chain.positions_at(commit_id, arn)

    def with_all_archived(self, positions: StreamPositions) -> StreamPositions:
        """Return positions with each shard that is only in the archive. Raises as `positions_at`."""
        return self.table.chain.with_all_archived(positions)

    def amendment(self, identity: StreamIdentity) -> Amendment | None:
        """Read the newest amendment of a stream; None if there is none. Raises as `positions`."""
        self.refuse_other_stream(identity)
        commit_id = self.commit_id_of(amendment_application(identity))
        return None if commit_id is None else self.table.amendments.at(commit_id, identity.arn)

    def amendment_at(self, commit_id: int) -> Amendment:
        """Read the amendment file with a commit id. Raises as `positions_at`."""
        return self.table.amendments.at(commit_id)

    def file_stats(self) -> Iterator[FileStats]:
        """Yield the data files of this version, with their statistics."""
        arrival, shard = "approximate_arrival_timestamp", "shard_id"
        for file in self.data_files([arrival, shard]):
            yield FileStats(
                path=file.path,
                arrival_date=file.partition["arrival_date"],
                first_arrival=file.smallest[arrival],
                last_arrival=file.greatest[arrival],
                first_shard_id=file.smallest[shard],
                last_shard_id=file.greatest[shard],
            )

    def commit(
        self,
        files: Iterable[DataFile],
        *,
        identity: StreamIdentity,
        positions: StreamPositions | None = None,
        amendment: Amendment | None = None,
        retired: Collection[str] = (),
    ) -> None:
        """Add files and point the log at new positions, a new amendment, or both, in one atomic commit.

        The positions and the amendment are first written to new files, each of which a transaction entry then
        names by its version. Delta refuses the commit if another one has written the same entry since this
        snapshot (Delta protocol, "Transaction Identifiers"). An error does not mean that the commit failed,
        because its response may have been lost.

        Args:
            files: The data files to add.
            retired: Finished shards that the stream no longer lists, see `PositionsChain.write`.

        Raises:
            CommitOvertaken: Another commit was made after this snapshot.
            TableUnsuitable: There are files to add, and the schema of this table from an older release does
                not accept them yet, see `snapshot_for_rows`.
        """
        added = list(files)
        if added and (refused := columns_without_null(self.delta)):
            raise TableUnsuitable(
                self.table.uri,
                f"its column {', '.join(refused)} does not accept null yet. Nothing was committed; run again",
            )
        self._write_files(identity, positions, amendment, retired)
        self._write(
            added,
            properties=_pointers(identity, positions, amendment),
            hooks=PostCommitHookProperties(
                cleanup_expired_logs=positions is not None and may_clean_up(positions)
            ),
        )

    def _write_files(
        self,
        identity: StreamIdentity,
        positions: StreamPositions | None,
        amendment: Amendment | None,
        retired: Collection[str] = (),
    ) -> None:
        """Write the files that the next commit points at. Until then, nothing refers to them."""
        if positions is not None:
            self.table.chain.write(positions, retired)
        if amendment is not None:
            self.table.amendments.write(msgspec.structs.replace(amendment, arn=identity.arn))

    def remove(
        self,
        predicate: str,
        *,
        identity: StreamIdentity,
        positions: StreamPositions | None = None,
        amendment: Amendment | None = None,
    ) -> int:
        """Delete rows and point the log at new files, as `commit` does. Nothing is committed if no row
        matches.

        Args:
            predicate: A condition in the SQL of delta-rs; every text in it must have passed through
                `sql_text`.
            positions: See `commit`.
            amendment: See `commit`.

        Returns:
            The number of deleted rows.
        """
        files = self.active_files()
        row_bytes = sum(file.size for file in files) // max(1, sum(file.rows for file in files))
        self._write_files(identity, positions, amendment)
        metrics = self.delta.delete(
            predicate,
            writer_properties=writer_properties(row_bytes),
            commit_properties=_pointers(identity, positions, amendment),
            post_commithook_properties=KEEP_ENTRIES,
        )
        return int(metrics["num_deleted_rows"])

    def active_files(self) -> list[ActiveFile]:
        """Return the data files of this version, with their sizes."""
        return [
            ActiveFile(file.path, file.size, file.rows or 0, file.partition["arrival_date"].isoformat())
            for file in self.data_files()
        ]

    def count(self, predicate: str) -> dict[str, int]:
        """Count the rows that match a predicate, by shard id; shards without such rows are omitted.

        Args:
            predicate: A condition, as for `remove`.

        Raises:
            TableUnreachable: The rows cannot be read.
        """
        query = f"SELECT shard_id, count(*) AS found FROM rows WHERE {predicate} GROUP BY shard_id"  # noqa: S608
        return {row["shard_id"]: row["found"] for row in self.query(query)}

    def version_of(self, commit_id: int) -> int | None:
        """Return the version whose commit points at a commit id, if it is among the newest hundred.

        The history of delta-rs is not used, because it fails on some values that other writers store in
        commitInfo.
        """
        return newest_version_of(self.table.files, self.version, commit_id)


_TOKEN_KEY = "kinesis_assets.token"  # noqa: S105  # the stored name of a commit id
_AMENDMENT_KEY = "kinesis_assets.past_token"  # likewise, of an amendment

_CLEAN_UP_EVERY = 100
"""One in this many commits deletes expired log entries, which takes as long as a commit."""

_OLDEST_LISTING = HISTORY_RETENTION / 3
"""No attempt commits with an older listing of its shards, see `commit.MAX_ATTEMPT_AGE`."""


def _pointers(
    identity: StreamIdentity, positions: StreamPositions | None, amendment: Amendment | None
) -> CommitProperties:
    """Return the properties of a commit that points at new positions, a new amendment, or both.

    A pointer is a transaction in the name of the stream. Its version is the commit id, which names the file.
    """
    transactions, audit = {}, {}
    if positions is not None:
        transactions[application(identity)] = positions.commit_id
        audit[_TOKEN_KEY] = str(positions.commit_id)
    if amendment is not None:
        transactions[amendment_application(identity)] = amendment.commit_id
        audit[_AMENDMENT_KEY] = str(amendment.commit_id)
    return commit_properties(transactions, audit)


def may_clean_up(positions: StreamPositions) -> bool:
    """Return whether the commit of positions may delete expired log entries.

    delta-rs compares ages with this machine's clock, from which the id of the commit was drawn. If that clock
    disagrees with the service time of the last listing, nothing is deleted until the next maintenance.
    """
    if positions.generation % _CLEAN_UP_EVERY or positions.listed_at is None:
        return False
    drawn = datetime.fromtimestamp(time_of_id(positions.commit_id), UTC)
    return clocks_agree(positions.listed_at, drawn, age=_OLDEST_LISTING)


class TableFiles(StoredTable):
    """A table with the files that its log points at.

    Attributes:
        chain: The positions files and the archive; caches the files it has read.
        amendments: The amendment files; caches the files it has read.

    The arguments and errors are those of `StoredTable`.
    """

    def __init__(
        self, uri: str, policy: TablePolicy = TablePolicy(), role: AssumedRole | None = None
    ) -> None:
        super().__init__(uri, policy, role)
        self.chain = PositionsChain(uri, lambda: self.files, policy.chain, policy.clock)
        self.amendments = amendment_chain(uri, lambda: self.files)
