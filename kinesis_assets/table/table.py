"""The one place that knows Delta Lake: a table whose log points at its streams' positions.

Never import it in a Spark task: the Rust library behind it does not survive a fork. Its errors are told
without their causes: where a signature is refused, S3's answer repeats the request with the session's token.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.fs
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    QueryBuilder,
    Schema,
    WriterProperties,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, Transaction

from kinesis_assets.errors import (
    CommitFailed,
    CommitOvertaken,
    PositionsUnreadable,
    StreamRecreated,
    TableMissing,
    TableUnreachable,
    TableUnsuitable,
)
from kinesis_assets.table import amendments as past_file
from kinesis_assets.table.clocks import agree
from kinesis_assets.table.commit_ids import draw_token, drawn_at
from kinesis_assets.table.data_file import (
    DICTIONARIES,
    FILE_BYTES,
    PARTITION_COLUMNS,
    ROW_GROUP_BYTES,
    STATISTICS,
    TABLE_SCHEMA,
)
from kinesis_assets.table.delta_log import points_at
from kinesis_assets.table.file_cache import FileCache
from kinesis_assets.table.file_stats import HeldFile
from kinesis_assets.table.intervals import parse_interval
from kinesis_assets.table.log_entries import KEEP_ENTRIES, applications, log_entries
from kinesis_assets.table.nullable_columns import accept_null, columns_without_null
from kinesis_assets.table.ownership import OWNER, application, arns_of, past_application, refuse_another
from kinesis_assets.table.positions_chain import PositionsChain, decoded, read_file, write_file
from kinesis_assets.table.refusals import not_writable
from kinesis_assets.table.rewrites import RewriteLog
from kinesis_assets.table.storage import TableFolder, write_new

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.amendments import Past
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions import Header, StreamPositions
    from kinesis_assets.table.positions_chain import ChainPolicy

PAST_FOLDER = "_kinesis/past"
_PROBE = "_kinesis/writable"
"""One name, so that there is nothing to be deleted."""

_TOKEN_KEY = "kinesis_assets.token"  # noqa: S105  # names a commit's audit entry

VACUUM_RETENTION = timedelta(days=7)
"""Files that no commit points at are kept at least so long from when they were written."""

HISTORY_RETENTION = timedelta(days=1)
"""Older versions can be read for so long: entries of the log that are summed up, and the tombstones of files
that were taken out, are kept until then. Spark's VACUUM spares what no commit points at yet for as long.

No commit needs them: one that began before an entry that is gone is refused, and looks again. Whoever opens
the table passes over each tombstone, and in a local folder over each entry; a bucket lists what follows the
newest checkpoint."""

_DELETED_RETENTION = "delta.deletedFileRetentionDuration"

_HISTORY = {
    "delta.logRetentionDuration": f"interval {HISTORY_RETENTION.days} days",
    _DELETED_RETENTION: f"interval {HISTORY_RETENTION.days} days",
}
"""Who has one of them longer wants the other as long."""

_PROPERTIES = _HISTORY | {
    # Replay and the doctor prune files by these; no other writer may spend the log on those of `data`.
    "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
    # Who opens the table reads the newest checkpoint and each entry after it, with a request for each. A
    # checkpoint costs its writer what files and tombstones there are.
    "delta.checkpointInterval": "20",
}
"""Of a table that has no other values of its own."""

_ZSTD_LEVEL = 3
"""A tenth smaller than level 1, a tenth more CPU; level 6 takes three times as much (benchmarks, codecs)."""

_PAGE_ROWS = 1024
_PAGE_BYTES = 1 << 20
"""Parquet pages are closed after so many rows, or rows of so many bytes."""

_CLEAN_UP_EVERY = 100
"""Commits from one look for expired entries of the log to the next: it costs as much as a commit."""

_OLDEST_LISTING = HISTORY_RETENTION / 3
"""No attempt commits with an older listing of its shards, see `commit.OLDEST_ATTEMPT`."""

_LOOKS_AHEAD = _LOOKS_BACK = 100
"""Entries of the log that are looked at for a commit's own."""

_CLAIM = "kinesis_assets.maintenance"
_PAST_TOKEN_KEY = "kinesis_assets.past_token"  # noqa: S105  # likewise

_MEMORY_A_BYTE = 8
"""About what an amendment file takes that was read, for each of its bytes."""

_FILE_FACTS = [
    "path",
    "partition.arrival_date",
    "min.approximate_arrival_timestamp",
    "max.approximate_arrival_timestamp",
    "min.shard_id",
    "max.shard_id",
]


class PositionedTable:
    """A Delta table that holds records and, per stream, the positions up to which it holds them.

    Attributes:
        uri: Where it is, as given.
        folder: The same, for reading and writing files.
        rewrites: Finds restores and overwrites in its log.
        chain: Its positions files and its archive; it remembers those that were read.
        amendments: The amendment files that were read.

    Args:
        uri: Where it is.
        policy: How positions files are written.

    Raises:
        InvalidInput: The URI cannot be meant.
    """

    def __init__(self, uri: str, policy: ChainPolicy | None = None) -> None:
        self.uri = uri
        self.folder = TableFolder.at(uri)
        self.files = self.folder.open()
        self.rewrites = RewriteLog(uri, self.files)
        self.chain = PositionsChain(uri, lambda: self.files, policy)
        self.amendments = FileCache()

    def reopened(self) -> PositionedTable:
        """The same table, of whose files nothing is remembered."""
        return PositionedTable(self.uri)

    def create_if_missing(self, owner: StreamIdentity | None = None) -> None:
        """Create the table, empty; of several creators at once, one does.

        Args:
            owner: The stream that a new table belongs to; by default the first one that claims it.

        Raises:
            TableUnsuitable: There is a table of another shape.
            TableNotWritable: It cannot be created there.
            TableUnreachable: It can be neither opened nor created.
        """
        with suppress(TableMissing):
            self.snapshot()
            return
        refused: Exception | None = None
        try:
            DeltaTable.create(
                self.folder.uri,
                Schema.from_arrow(TABLE_SCHEMA),
                mode="error",
                partition_by=PARTITION_COLUMNS,
                description="Kinesis records as they came, with the positions up to which they are here.",
                configuration=_PROPERTIES | ({} if owner is None else {OWNER: owner.arn}),
                raise_if_key_not_exists=False,  # the owner is no property of Delta's
                # A retry would put a second creation on top of another run's table.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError) as error:
            refused = error  # unless another run was first
        try:
            self.snapshot()
        except TableMissing:
            final = None if refused is None else not_writable(self.uri, refused)
            raise final or TableUnreachable(self.uri, f"cannot be created: {refused}") from None

    def require_writable(self) -> None:
        """Write an empty file into the table's folder, before anything costly is begun.

        Raises:
            TableNotWritable: That is refused. Of any other error nothing is said: another try may succeed.
        """
        try:
            write_new(self.files, _PROBE).close()
        except OSError as error:
            if refused := not_writable(self.uri, error):
                raise refused from None

    def snapshot(self) -> TableSnapshot:
        """The table as it stands now.

        Raises:
            TableMissing: There is none.
            TableUnreachable: Its log cannot be read.
            TableUnsuitable: It has another shape.
        """
        try:
            delta = DeltaTable(self.folder.uri)
        except TableNotFoundError as error:
            raise TableMissing(self.uri, "there is no table; the first run creates it") from error
        except (DeltaError, OSError) as error:
            self._refuse_a_file()
            raise TableUnreachable(self.uri, f"cannot be opened: {error}") from None
        found = {field.name: field.type for field in delta.schema().fields}
        wanted = {field.name: field.type for field in Schema.from_arrow(TABLE_SCHEMA).fields}
        wrong = [name for name, kind in wanted.items() if found.get(name) != kind]
        if wrong or delta.metadata().partition_columns != PARTITION_COLUMNS:
            raise TableUnsuitable(
                self.uri,
                f"not a raw Kinesis table (wrong or missing: {', '.join(wrong) or 'its partition column'}); "
                "name a table of its own for the stream",
            )
        return TableSnapshot(self, delta)

    def snapshot_for_rows(self) -> TableSnapshot:
        """The table as it is now, after its schema was changed to accept the rows of this release.

        Raises as `snapshot`, and what `nullable.accept_null` raises.
        """
        snapshot = self.snapshot()
        if not columns_without_null(snapshot.delta):
            return snapshot
        accept_null(snapshot.delta)
        return self.snapshot()

    def _refuse_a_file(self) -> None:
        if not isinstance(self.files.base_fs, pyarrow.fs.LocalFileSystem):
            return
        with suppress(OSError):  # then it is not this
            place = self.files.base_path.rstrip("/")
            if self.files.base_fs.get_file_info(place).type is pyarrow.fs.FileType.File:
                raise TableUnsuitable(self.uri, "is a file, not a folder; give a folder for the table")


class TableSnapshot:
    """The table at one version. What is read from it and what is committed through it belong together."""

    def __init__(self, table: PositionedTable, delta: DeltaTable) -> None:
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
            self._refuse_of_another(_past_path(token), found.arn, identity)
        return found

    def past_at(self, token: int) -> Past:
        """The file of one change. Raises as `positions_at`."""
        path = _past_path(token)
        found: Past | None = self._table.amendments.get(path)
        if found is None:
            content = read_file(self._table.uri, self._table.files, path)
            found = decoded(self._table.uri, path, past_file.decode, content)
            if found.token != token:
                raise PositionsUnreadable(
                    self._table.uri,
                    f"{path} has the content of {found.token}.json. Restore that very file; no other will do",
                )
            self._table.amendments.put(path, found, _MEMORY_A_BYTE * len(content))
        return found

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
        added: list[AddAction | RemoveAction] = [_add_action(file) for file in files]
        if added and (refused := columns_without_null(self._delta)):
            raise TableUnsuitable(
                self._table.uri,
                f"its column {', '.join(refused)} does not accept null yet. Nothing was committed; run again",
            )
        properties = self._pointing_at(identity, positions, past, retired)
        try:
            self._delta.create_write_transaction(
                added,
                mode="append",
                schema=Schema.from_arrow(TABLE_SCHEMA),
                partition_by=PARTITION_COLUMNS,
                commit_properties=properties,
                post_commithook_properties=PostCommitHookProperties(
                    cleanup_expired_logs=positions is not None and _may_clean_up(positions)
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
            writer_properties=_written_like_ours(row_bytes),
            commit_properties=self._pointing_at(identity, positions, past),
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

    def _pointing_at(
        self,
        identity: StreamIdentity,
        positions: StreamPositions | None,
        past: Past | None,
        retired: Collection[str] = (),
    ) -> CommitProperties:
        entries, audit = [], {}
        if positions is not None:
            self._table.chain.write(positions, retired)
            entries.append(Transaction(application(identity), positions.token))
            audit[_TOKEN_KEY] = str(positions.token)
        if past is not None:
            content = past_file.encode(msgspec.structs.replace(past, arn=identity.arn))
            write_file(self._table.files, _past_path(past.token), content)
            entries.append(Transaction(past_application(identity), past.token))
            audit[_PAST_TOKEN_KEY] = str(past.token)
        return CommitProperties(app_transactions=entries, custom_metadata=audit)

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


@dataclass(frozen=True, slots=True)
class StandingFile:
    """A data file of one version of the table.

    Attributes:
        path: Relative to the table's folder.
        size: Bytes.
        rows: Of all its shards.
        arrival_date: ISO date, UTC, of every row in it.
    """

    path: str
    size: int
    rows: int
    arrival_date: str


class Upkeep:
    """What keeps a table quick and small, and changes neither its rows nor its positions.

    Args:
        table: Which; it is opened afresh for each step.
    """

    def __init__(self, table: PositionedTable) -> None:
        self._table = table

    def missing_properties(self) -> dict[str, str]:
        """The table's properties that a new table has and this one does not, unless it has values of its own.

        With another retention than a new table's, of the log or of deleted files, it keeps its history as it
        is.

        Raises as `PositionedTable.snapshot`, here and below.
        """
        standing = self._delta().metadata().configuration
        has_its_own = any(standing.get(name, value) != value for name, value in _HISTORY.items())
        wanted = _PROPERTIES.keys() - (_HISTORY if has_its_own else {})
        return {name: _PROPERTIES[name] for name in wanted if name not in standing}

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set them by one commit.

        Raises:
            CommitFailed: Another commit was in the way.
        """
        with self._told("its properties cannot be set"):
            self._delta().alter.set_table_properties(
                dict(properties), raise_if_not_exists=False, post_commithook_properties=KEEP_ENTRIES
            )

    def compact(self, arrival_date: str, row_bytes: int) -> tuple[int, int]:
        """Gather one day's smaller files to files of about `FILE_BYTES`, by one commit.

        delta-rs lets two compactions of the same files land both, and their rows are there twice; it
        disregards a transaction identifier too. Each compaction deletes expired entries of the log, by
        this machine's clock: have that checked before.

        Args:
            arrival_date: ISO date.
            row_bytes: Mean size of a row in its files; bounds what is held in memory.

        Returns:
            How many files there are instead of how many.

        Raises:
            CommitFailed: Another commit was in the way; no row is lost or double.
        """
        delta = self._claimed()
        with self._told(f"the files of {arrival_date} cannot be compacted"):
            told = delta.optimize.compact(
                partition_filters=[("arrival_date", "=", arrival_date)],
                target_size=FILE_BYTES,
                max_concurrent_tasks=1,
                writer_properties=_written_like_ours(row_bytes),
            )
        return int(told["numFilesAdded"]), int(told["numFilesRemoved"])

    def vacuum(self, *, dry_run: bool) -> list[str]:
        """Delete data files that no version of the last `VACUUM_RETENTION` names, and that are older than it.

        A longer retention of the table's own holds, a shorter one does not. Folders whose names begin with an
        underscore are left alone.

        Args:
            dry_run: Only tell.

        Returns:
            Their paths, relative to the table's folder.

        Raises:
            CommitFailed: Another commit was in the way; what was deleted by then was nobody's.
        """
        # Whoever stood still for days between the look at its files and its commit has to look again.
        delta = self._delta() if dry_run else self._claimed()
        own = _hours(self._table.uri, delta.metadata().configuration.get(_DELETED_RETENTION))
        with self._told("it cannot be vacuumed"):
            return delta.vacuum(max(VACUUM_RETENTION // timedelta(hours=1), own), dry_run=dry_run, full=True)

    def checkpoint(self) -> None:
        """Sum the log up, and delete what of it is summed up and older than the log's retention.

        Raises:
            TableUnreachable: It cannot be done now.
        """
        delta = self._delta()
        with self._told("its log cannot be summed up"):
            delta.create_checkpoint()
            delta.cleanup_metadata()

    def _delta(self) -> DeltaTable:
        return self._table.snapshot().delta

    def _claimed(self) -> DeltaTable:
        """The table with its metadata marked as this maintenance's own.

        Any commit that began before a change of the metadata is refused (protocol): an older maintenance's
        for good, a run's until it has looked at the table again.
        """
        claim = str(draw_token())
        self.set_properties({_CLAIM: claim})
        delta = self._delta()
        if delta.metadata().configuration.get(_CLAIM) != claim:
            raise CommitFailed(
                self._table.uri, "another maintenance began; nothing was done, run again later"
            )
        return delta

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            self._raise(what, error)

    def _raise(self, what: str, error: DeltaError | OSError) -> NoReturn:
        if refused := not_writable(self._table.uri, error):
            raise refused from None
        if isinstance(error, CommitFailedError):
            raise CommitFailed(
                self._table.uri, f"{what}: {error}. Nothing was changed, run again later"
            ) from error
        raise TableUnreachable(self._table.uri, f"{what}: {error}") from None


def _written_like_ours(row_bytes: int) -> WriterProperties:
    """Statistics and row groups as `DataFileWriter` writes them; zstd, as these files stay.

    Args:
        row_bytes: Mean size of a row in a file; delta-rs counts rows where memory needs bytes counted.
    """
    plain = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    names = {*STATISTICS, *DICTIONARIES}
    return WriterProperties(
        compression="ZSTD",
        compression_level=_ZSTD_LEVEL,
        max_row_group_size=max(1, ROW_GROUP_BYTES // max(1, row_bytes)),
        write_batch_size=max(1, min(_PAGE_ROWS, _PAGE_BYTES // max(1, row_bytes))),
        default_column_properties=plain,
        column_properties={
            name: ColumnProperties(
                dictionary_enabled=name in DICTIONARIES,
                statistics_enabled="CHUNK" if name in STATISTICS else "NONE",
            )
            for name in names
        },
    )


def _hours(table: str, interval: str | None) -> int:
    """Hours of a table property such as `interval 30 days`, rounded up."""
    if interval is None:
        return 0
    span = parse_interval(interval)
    if span is None:
        raise TableUnsuitable(table, f"{_DELETED_RETENTION} is {interval!r}; set it as in 'interval 30 days'")
    return -(-span // timedelta(hours=1))


def _may_clean_up(positions: StreamPositions) -> bool:
    """Whether a commit is one that deletes expired entries of the log, and its clock can be trusted with it.

    delta-rs goes by this machine's clock, which drew the commit's token just now; the service's is known from
    the last listing. Where they disagree, the log is left to the next maintenance.
    """
    if positions.generation % _CLEAN_UP_EVERY or positions.listed_at is None:
        return False
    drawn = datetime.fromtimestamp(drawn_at(positions.token), UTC)
    return agree(positions.listed_at, drawn, age=_OLDEST_LISTING)


def _past_path(token: int) -> str:
    return f"{PAST_FOLDER}/{token}.json"


def sql_text(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _add_action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={"arrival_date": file.arrival_date},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=file.statistics(),
    )
