"""A table at one version: what is read from it, and the commits that Delta makes on top of it."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from deltalake import PostCommitHookProperties, QueryBuilder, Schema
from deltalake.exceptions import CommitFailedError, DeltaError

from kinesis_assets.errors import (
    CommitOvertaken,
    PositionsUnreadable,
    StreamRecreated,
    TableUnreachable,
    TableUnsuitable,
)
from kinesis_assets.table.amendment_files import amendment_path
from kinesis_assets.table.data_file import PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.delta_commit import add_action, may_clean_up, pointing_at
from kinesis_assets.table.delta_log import points_at
from kinesis_assets.table.delta_writer import writer_properties
from kinesis_assets.table.file_stats import HeldFile, StandingFile
from kinesis_assets.table.log_entries import KEEP_ENTRIES, applications, log_entries
from kinesis_assets.table.nullable_columns import columns_without_null
from kinesis_assets.table.ownership import OWNER, application, arns_of, past_application, refuse_another

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions import Header, StreamPositions
    from kinesis_assets.table.table_files import TableFiles

_LOOKS_AHEAD = _LOOKS_BACK = 100
"""Entries of the log that are looked at for a commit's own."""

_FILE_FACTS = [
    "path",
    "partition.arrival_date",
    "min.approximate_arrival_timestamp",
    "max.approximate_arrival_timestamp",
    "min.shard_id",
    "max.shard_id",
]


class TableSnapshot:
    """The table at one version. What is read from it and what is committed through it belong together."""

    def __init__(self, table: TableFiles, delta: DeltaTable) -> None:
        self._table = table
        self._delta = delta

    @property
    def delta(self) -> DeltaTable:
        """As delta-rs has it."""
        return self._delta

    @property
    def version(self) -> int:
        """The table's version."""
        return self._delta.version()

    @cached_property
    def owner(self) -> str | None:
        """The ARN of the stream that the table's properties name; None if no stream has claimed it."""
        return self._delta.metadata().configuration.get(OWNER)

    @cached_property
    def owners(self) -> frozenset[str]:
        """The ARNs of the streams that the table belongs to: its owner, or else all that its log has.

        Raises:
            TableUnreachable: Its log cannot be read.
        """
        return self.streams_in_log() if self.owner is None else frozenset([self.owner])

    def streams_in_log(self) -> frozenset[str]:
        """The ARNs of the streams that the log has transactions of, whatever the table's properties say.

        It may include those of commits after this version.

        Raises:
            TableUnreachable: The log cannot be read.
        """
        try:
            return arns_of(applications(self._table.files))
        except (OSError, msgspec.MsgspecError) as error:
            raise TableUnreachable(self._table.uri, f"its log cannot be read: {error}") from None

    def refuse_another(self, identity: StreamIdentity) -> None:
        """See that the table belongs to a stream, or to none yet.

        Raises:
            TableOfAnotherStream: It belongs to another.
            TableUnreachable: Its log cannot be read.
        """
        refuse_another(self._table.uri, self.owners, identity)

    def claim(self, identity: StreamIdentity) -> None:
        """Make the table a stream's, by a commit that Delta refuses if another stream's came first.

        It neither checks whose the table is nor says whether the commit landed: see `claims.claim`.
        """
        self._delta.alter.set_table_properties(
            {OWNER: identity.arn}, raise_if_not_exists=False, post_commithook_properties=KEEP_ENTRIES
        )

    def positions(self, identity: StreamIdentity, *, or_older: bool = False) -> StreamPositions | None:
        """Where the stream's shards are, or None if the table has never seen the stream.

        Args:
            identity: Which stream.
            or_older: Give those of an older stream of the same name too.

        Raises:
            TableOfAnotherStream: The table belongs to a stream with another ARN.
            PositionsUnreadable: The file that the log points at is missing or not understood.
            StreamRecreated: They are the positions of an older stream of the same name.
        """
        self.refuse_another(identity)
        token = self._delta.transaction_version(application(identity))
        if token is None:
            return None
        found = self.positions_at(token)
        self._refuse_of_another(f"the positions file {token}.json", found.identity.arn, identity)
        older = found.identity.created < identity.created
        if found.identity != identity and not (or_older and older):
            raise StreamRecreated(
                identity.name,
                f"the table {self._table.uri} has positions of the stream created at "
                f"{found.identity.created:%Y-%m-%dT%H:%M:%SZ}, but this one was created at "
                f"{identity.created:%Y-%m-%dT%H:%M:%SZ}; sequence numbers do not carry over. "
                "Give the new stream a new table, or set on_recreated: restart to begin again in this one",
            )
        return found

    def positions_at(self, token: int) -> StreamPositions:
        """The positions file of a token, whether a commit points at it or not.

        Raises:
            PositionsUnreadable: It is missing or not understood.
            TableUnreachable: It cannot be read now.
        """
        return self._table.chain.positions_at(token)

    def positions_header_at(self, token: int) -> Header:
        """What the positions file of a token begins with, whatever its size. Raises as `positions_at`."""
        return self._table.chain.header_at(token)

    def recall(self, positions: StreamPositions, shard_ids: Iterable[str]) -> StreamPositions:
        """Positions with those of some shards that are in the archive alone. Raises as `positions_at`."""
        return self._table.chain.recall(positions, shard_ids)

    def with_archive(self, positions: StreamPositions) -> StreamPositions:
        """Positions with all shards that are in the archive alone. Raises as `positions_at`."""
        archived = self._table.chain.archived(positions)
        return (
            msgspec.structs.replace(positions, shards={**archived, **positions.shards})
            if archived
            else positions
        )

    def past(self, identity: StreamIdentity) -> Past | None:
        """The last change behind a stream's positions; None if there was none. Raises as `positions`."""
        self.refuse_another(identity)
        token = self._delta.transaction_version(past_application(identity))
        if token is None:
            return None
        found = self.past_at(token)
        if found.arn is not None:  # older formats do not name it
            self._refuse_of_another(amendment_path(token), found.arn, identity)
        return found

    def past_at(self, token: int) -> Past:
        """The file of one change. Raises as `positions_at`."""
        return self._table.amendments.at(token)

    def _refuse_of_another(self, file: str, arn: str, identity: StreamIdentity) -> None:
        if arn != identity.arn:
            raise PositionsUnreadable(
                self._table.uri,
                f"{file} is of {arn}, but the log names it for {identity.arn}: it was overwritten or "
                "restored from another file. Restore that very file; no other will do",
            )

    def data_files(self) -> Iterator[HeldFile]:
        """The data files of this version, with what their statistics say."""
        actions = pa.table(self._delta.get_add_actions(flatten=True))
        # Statistics that no file has are not there at all.
        wanted = [name for name in _FILE_FACTS if name in actions.column_names]
        for action in actions.select(wanted).to_pylist():
            yield HeldFile(
                path=action["path"],
                arrival_date=action["partition.arrival_date"],
                first_arrival=action.get("min.approximate_arrival_timestamp"),
                last_arrival=action.get("max.approximate_arrival_timestamp"),
                first_shard_id=action.get("min.shard_id"),
                last_shard_id=action.get("max.shard_id"),
            )

    def commit(
        self,
        files: Iterable[DataFile],
        *,
        identity: StreamIdentity,
        positions: StreamPositions | None = None,
        past: Past | None = None,
        retired: Collection[str] = (),
    ) -> None:
        """Add files and point the log at new positions, at a new past, or at both: all or nothing.

        What is pointed at is written as a new file first. Delta refuses the commit if any other has pointed
        the same entry elsewhere since this snapshot (protocol: transaction identifiers); an error says
        nothing of whether the commit landed, since the answer may have been lost on the way.

        Args:
            files: What is added.
            identity: Which stream.
            positions: The new positions.
            past: The new past.
            retired: Finished shards that the stream no longer lists, see `PositionsChain.write`.

        Raises:
            CommitOvertaken: Another commit landed since this snapshot.
            TableUnsuitable: There are files, and the table is an older release's, see `snapshot_for_rows`.
        """
        added: list[AddAction | RemoveAction] = [add_action(file) for file in files]
        if added and (refused := columns_without_null(self._delta)):
            raise TableUnsuitable(
                self._table.uri,
                f"its column {', '.join(refused)} does not accept null yet. Nothing was committed; run again",
            )
        properties = pointing_at(self._table, identity, positions, past, retired)
        try:
            self._delta.create_write_transaction(
                added,
                mode="append",
                schema=Schema.from_arrow(TABLE_SCHEMA),
                partition_by=PARTITION_COLUMNS,
                commit_properties=properties,
                post_commithook_properties=PostCommitHookProperties(
                    cleanup_expired_logs=positions is not None and may_clean_up(positions)
                ),
            )
        except CommitFailedError as error:
            if self._is_overtaken():
                raise CommitOvertaken(self._table.uri, str(error)) from None
            raise

    def _is_overtaken(self) -> bool:
        """Whether the log has a version after this one."""
        path = f"_delta_log/{self._delta.version() + 1:020}.json"
        try:
            return bool(self._table.files.get_file_info(path).is_file)
        except OSError:
            return False

    def remove(
        self,
        predicate: str,
        *,
        identity: StreamIdentity,
        positions: StreamPositions | None = None,
        past: Past | None = None,
    ) -> int:
        """Take rows out and point the log elsewhere, as `commit` does; without such rows, nothing of it.

        Args:
            predicate: Which rows, in delta-rs' SQL; every text in it must have gone through `sql_text`.
            identity: Which stream.
            positions: See `commit`.
            past: See `commit`.

        Returns:
            How many rows it took out.
        """
        files = self.standing_files()
        row_bytes = sum(file.size for file in files) // max(1, sum(file.rows for file in files))
        told = self._delta.delete(
            predicate,
            writer_properties=writer_properties(row_bytes),
            commit_properties=pointing_at(self._table, identity, positions, past),
            post_commithook_properties=KEEP_ENTRIES,
        )
        return int(told["num_deleted_rows"])

    def standing_files(self) -> list[StandingFile]:
        """The data files of this version."""
        found = self._delta.get_add_actions(flatten=True)
        columns = ("path", "size_bytes", "num_records", "partition.arrival_date")
        rows = zip(*(found[name].to_pylist() for name in columns), strict=True)
        return [StandingFile(path, size, count or 0, day.isoformat()) for path, size, count, day in rows]

    def count(self, predicate: str) -> dict[str, int]:
        """How many rows there are, by shard id; shards without any are left out.

        Args:
            predicate: Which rows, as for `remove`.

        Raises:
            TableUnreachable: They cannot be read.
        """
        query = f"SELECT shard_id, count(*) AS found FROM rows WHERE {predicate} GROUP BY shard_id"  # noqa: S608
        try:
            answer = QueryBuilder().register("rows", self._delta).execute(query).read_all()
        except (DeltaError, OSError) as error:
            raise TableUnreachable(self._table.uri, f"its rows cannot be counted: {error}") from None
        found = zip(answer["shard_id"].to_pylist(), answer["found"].to_pylist(), strict=True)
        return {str(shard_id): int(count) for shard_id, count in found}

    def landed_as(self, token: int) -> int | None:
        """The version after this one whose commit points at a token; None if none is seen to.

        It is told from the log's entries themselves, so what is told is certain, and quick.
        """
        first = self._delta.version() + 1
        for version in range(first, first + _LOOKS_AHEAD):
            try:
                with self._table.files.open_input_file(f"_delta_log/{version:020}.json") as source:
                    content = source.read()
            except OSError:  # it is not there, or cannot be read now
                return None
            if points_at(content, token):
                return version
        return None

    def version_of(self, token: int) -> int | None:
        """The version whose commit pointed at a token, if it is among the newest hundred.

        delta-rs's own history fails on what another writer may have stored in its commitInfo.
        """
        with suppress(OSError, msgspec.MsgspecError):  # it is only for the report
            for entry in islice(log_entries(self._table.files, self.version), _LOOKS_BACK):
                if token in entry.transactions.values():
                    return entry.version
        return None
