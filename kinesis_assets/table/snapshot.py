"""One version of a raw table: reads the positions that it points at, and commits new ones on top of it.

This is what everything above knows of a raw table, whatever its format is. A format provides the abstract
methods of `TableSnapshot`, and opens and creates tables.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import StreamRecreated
from kinesis_assets.kinesis.position import passed
from kinesis_assets.table.data_file import FileStats
from kinesis_assets.table.ownership import (
    OWNER,
    WAY_OUT_OF_RECREATION,
    amendment_application,
    application,
    arns_of,
    refuse_other_stream,
)
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions.amendments import amendment_chain
from kinesis_assets.table.positions.positions_chain import PositionsChain
from kinesis_assets.table.stored_table import ReadableVersion, StoredTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from kinesis_assets.kinesis.position import PassedRecord, Position
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.delta.version import TableVersion
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.row_predicates import RowPredicate
    from kinesis_assets.table.stored_table import LogEntry, Rewrite


@dataclass(frozen=True, slots=True)
class NewestRow:
    """The newest row of a shard, with the number of all its rows and their latest arrival, UTC.

    Its sequence number is the largest, compared as an integer, with the largest sub-sequence number.
    """

    sequence_number: str
    sub_sequence_number: int
    rows: int
    last_arrival: datetime

    def is_read_again(self, position: Position, start: PassedRecord | None) -> bool:
        """Return whether a run that starts at a position reads the row again.

        Args:
            start: What is passed before the first record of the shard: rows before it belong to an older
                stream. None if the shard is not listed, so that it cannot be read from its start.
        """
        place, current = (int(self.sequence_number), self.sub_sequence_number), passed(position)
        if current is not None:
            return place > current
        in_time = position.timestamp is None or self.last_arrival >= position.timestamp
        return start is not None and place > start and in_time


@dataclass(frozen=True, slots=True)
class Pointers:
    """What a commit points the log at: new positions, a new amendment, or both, of one stream."""

    identity: StreamIdentity
    positions: StreamPositions | None
    amendment: Amendment | None

    @property
    def commit_ids(self) -> dict[str, int]:
        """The commit ids, which name the files, by application id."""
        found = {}
        if self.positions is not None:
            found[application(self.identity.arn)] = self.positions.commit_id
        if self.amendment is not None:
            found[amendment_application(self.identity.arn)] = self.amendment.commit_id
        return found


class TableSnapshot(ReadableVersion):
    """One version of a raw table. A commit onto it is refused if another one has moved a pointer since."""

    table: ChainedTable

    @property
    def registrable(self) -> TableVersion | None:
        """This version, as it is registered in the AWS Glue Data Catalog; None if its format is not."""
        return None

    @abstractmethod
    def applications(self) -> frozenset[str]:
        """Return the application ids for which the log points at a commit id, see `streams_in_log`."""

    @abstractmethod
    def version_of(self, commit_id: int) -> int | None:
        """Return the version whose commit points at a commit id, if it is among the newest ones."""

    @abstractmethod
    def later_version_of(self, commit_id: int) -> int | None:
        """Return the version after this one whose commit points at a commit id.

        It is None if there is none, or if that is not certain: then the table has to be opened again.
        """

    @abstractmethod
    def entries(self) -> list[LogEntry]:
        """Return the versions that the log still has, newest first. Raises as `rewrites_since`."""

    @abstractmethod
    def rewrites(self) -> list[Rewrite]:
        """Return the restores and overwrites that the log still shows. Raises as `rewrites_since`."""

    @abstractmethod
    def rewrites_since(self, positions: StreamPositions) -> list[Rewrite]:
        """Return the restores and overwrites after the version that positions were based on, newest first.

        Versions that the log no longer has are not examined.

        Raises:
            TableUnreachable: The log cannot be read.
        """

    @abstractmethod
    def rewrites_between(self, base: int) -> list[Rewrite] | None:
        """Return the restores and overwrites after a version; None if the log lacks a version since then.

        Raises as `rewrites_since`.
        """

    @abstractmethod
    def deleted_since(self, positions: StreamPositions) -> int | None:
        """Return the newest version that the log no longer has, of those after positions were committed.

        It is None if there is none, or if the positions have an older format. Raises as `rewrites_since`.
        """

    @abstractmethod
    def named_files(self) -> set[str]:
        """Return the paths of data files that any version in the log names, relative to the folder."""

    @abstractmethod
    def count(self, predicate: RowPredicate) -> dict[str, int]:
        """Count the rows that match a predicate, by shard id; shards without such rows are omitted.

        Raises:
            TableUnreachable: The rows cannot be read.
        """

    @abstractmethod
    def newest_rows(self) -> Mapping[str, Mapping[str, NewestRow]]:
        """Return the newest row of each shard, by stream name and shard id. Raises as `count`.

        Memory grows with the number of shards only.
        """

    @abstractmethod
    def accept_rows(self) -> bool:
        """Change the schema, if needed, to accept the rows of this release.

        Returns whether it was changed, so that the table has to be opened again.
        """

    @abstractmethod
    def claim(self, identity: StreamIdentity) -> None:
        """Set a stream as the table's owner, by a commit that is refused if another stream came first.

        The current owner is not checked, and an error does not mean that the commit failed: see
        `commit.claim`.
        """

    @abstractmethod
    def _add(self, files: Sequence[DataFile], pointers: Pointers) -> None:
        """Try once to add files and set pointers in one commit. Raises as `commit`."""

    @abstractmethod
    def _delete(self, predicate: RowPredicate, pointers: Pointers) -> int:
        """Try once to delete rows and set pointers in one commit. Returns the number of deleted rows."""

    @property
    def owner(self) -> str | None:
        """The ARN of the stream that the table's properties name; None if no stream has claimed the table."""
        return self.properties.get(OWNER)

    @property
    def owners(self) -> frozenset[str]:
        """The ARNs of the streams of the table: its owner, or without one, see `streams_in_log`."""
        return self.streams_in_log() if self.owner is None else frozenset([self.owner])

    def streams_in_log(self) -> frozenset[str]:
        """Return the ARNs of all streams to which the log has pointers, whatever the table's properties say.

        The result may include streams from commits after this version.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        return arns_of(self.applications())

    def refuse_other_stream(self, identity: StreamIdentity) -> None:
        """Check that the table belongs to a stream, or to none yet, see `ownership.refuse_other_stream`."""
        refuse_other_stream(self.table.uri, self.owners, identity)

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
        """Read the positions of the newest stream with an ARN. Raises as `Chain.at`."""
        commit_id = self.commit_id_of(application(arn))
        return None if commit_id is None else self.table.chain.positions_at(commit_id, arn)

    def with_all_archived(self, positions: StreamPositions) -> StreamPositions:
        """Return positions with each shard that is only in the archive. Raises as `Chain.at`."""
        return self.table.chain.with_all_archived(positions)

    def amendment(self, identity: StreamIdentity) -> Amendment | None:
        """Read the newest amendment of a stream; None if there is none. Raises as `positions`."""
        self.refuse_other_stream(identity)
        commit_id = self.commit_id_of(amendment_application(identity.arn))
        return None if commit_id is None else self.table.amendments.at(commit_id, identity.arn)

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
                rows=file.rows,
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

        The positions and the amendment are first written to new files, which the pointers of the commit then
        name. The commit is refused if another one has set the same pointers since this version. An error does
        not mean that the commit failed, because its response may have been lost.

        Args:
            retired: Finished shards that the stream no longer lists, see `PositionsChain.write`.

        Raises:
            CommitOvertaken: Another commit was made after this snapshot.
            TableUnsuitable: There are files to add, and the schema of this table from an older release does
                not accept them yet, see `snapshot_for_rows`.
        """
        self._add(list(files), self._write_files(identity, positions, amendment, retired))

    def _write_files(
        self,
        identity: StreamIdentity,
        positions: StreamPositions | None,
        amendment: Amendment | None,
        retired: Collection[str] = (),
    ) -> Pointers:
        """Write the files that the next commit points at. Until then, nothing refers to them."""
        if positions is not None:
            self.table.chain.write(positions, retired)
        if amendment is not None:
            self.table.amendments.write(msgspec.structs.replace(amendment, arn=identity.arn))
        return Pointers(identity, positions, amendment)

    def remove(
        self,
        predicate: RowPredicate,
        *,
        identity: StreamIdentity,
        positions: StreamPositions | None = None,
        amendment: Amendment | None = None,
    ) -> int:
        """Delete rows and point the log at new files, as `commit` does. Returns the number of deleted rows.

        Nothing is committed if no row matches.
        """
        return self._delete(predicate, self._write_files(identity, positions, amendment))


class ChainedTable(StoredTable):
    """A table with the chains of files that its log points at, which are cached."""

    def __init__(
        self, uri: str, policy: TablePolicy = TablePolicy(), role: AssumedRole | None = None
    ) -> None:
        super().__init__(uri, policy, role)
        self.chain = PositionsChain(uri, lambda: self.files, policy.chain, policy.clock)
        self.amendments = amendment_chain(uri, lambda: self.files)
