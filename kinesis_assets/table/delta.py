"""The one place that knows Delta Lake: a table whose log points at its streams' positions.

Never import it in a Spark task: the Rust library behind it does not survive a fork.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, Transaction

from kinesis_assets.errors import (
    PositionsUnreadable,
    StreamRecreated,
    TableMissing,
    TableUnreachable,
    TableUnsuitable,
)
from kinesis_assets.table import past as past_file
from kinesis_assets.table import positions as positions_file
from kinesis_assets.table.files import PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.storage import TableFolder, write_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.files import DataFile
    from kinesis_assets.table.past import Past
    from kinesis_assets.table.positions import StreamPositions

_Decoded = TypeVar("_Decoded")

_TOKEN_KEY = "kinesis_assets.token"  # noqa: S105  # names a commit's audit entry


class PositionedTable:
    """A Delta table that holds records and, per stream, the positions up to which it holds them.

    Attributes:
        uri: Where it is, as given.
        folder: The same, for reading and writing files.

    Raises:
        InvalidInput: The URI cannot be meant.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.folder = TableFolder.at(uri)
        self.files = self.folder.open()

    def create_if_missing(self) -> None:
        """Create the table, empty; of several creators at once, one does.

        Raises:
            TableUnsuitable: There is a table of another shape.
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
                # A retry would put a second creation on top of another run's table.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError) as error:
            refused = error  # unless another run was first
        try:
            self.snapshot()
        except TableMissing:
            raise TableUnreachable(self.uri, f"cannot be created: {refused}") from refused

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
            raise TableUnreachable(self.uri, f"cannot be opened: {error}") from error
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


class TableSnapshot:
    """The table at one version. What is read from it and what is committed through it belong together."""

    def __init__(self, table: PositionedTable, delta: DeltaTable) -> None:
        self._table = table
        self._delta = delta

    def positions(self, identity: StreamIdentity, *, or_older: bool = False) -> StreamPositions | None:
        """Where the stream's shards are, or None if the table has never seen the stream.

        Args:
            identity: Which stream.
            or_older: Give those of an older stream of the same name too.

        Raises:
            PositionsUnreadable: The file that the log points at is missing or not understood.
            StreamRecreated: They are the positions of an older stream of the same name.
        """
        token = self._delta.transaction_version(_application(identity))
        if token is None:
            return None
        found = self.positions_at(token)
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
        return self._read(_positions_path(token), positions_file.decode)

    def past(self, identity: StreamIdentity) -> Past | None:
        """The last change behind a stream's positions; None if there was none. Raises as `positions_at`."""
        token = self._delta.transaction_version(_past_application(identity))
        return None if token is None else self.past_at(token)

    def past_at(self, token: int) -> Past:
        """The file of one change. Raises as `positions_at`."""
        return self._read(_past_path(token), past_file.decode)

    def _read(self, path: str, decode: Callable[[bytes], _Decoded]) -> _Decoded:
        try:
            with self._table.files.open_input_file(path) as source:
                content = source.read()
        except FileNotFoundError as error:
            raise PositionsUnreadable(
                self._table.uri, f"{path}, which the log points at, is gone. Restore that file"
            ) from error
        except OSError as error:
            raise TableUnreachable(self._table.uri, f"{path} cannot be read: {error}") from error
        try:
            return decode(content)
        except msgspec.MsgspecError as error:
            raise PositionsUnreadable(
                self._table.uri,
                f"{path} is not understood: {error}. Restore it, or upgrade if a newer version wrote it",
            ) from error

    def commit(
        self,
        files: Iterable[DataFile],
        *,
        identity: StreamIdentity,
        positions: StreamPositions | None = None,
        past: Past | None = None,
    ) -> None:
        """Add files and point the log at new positions, at a new past, or at both: all or nothing.

        What is pointed at is written as a new file first. Delta refuses the commit if any other has pointed
        the same entry elsewhere since this snapshot (protocol: transaction identifiers); an error says
        nothing of whether the commit landed, since the answer may have been lost on the way.
        """
        self._delta.create_write_transaction(
            [_add_action(file) for file in files],
            mode="append",
            schema=Schema.from_arrow(TABLE_SCHEMA),
            partition_by=PARTITION_COLUMNS,
            commit_properties=self._pointing_at(identity, positions, past),
        )

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
        properties = self._pointing_at(identity, positions, past)
        return int(self._delta.delete(predicate, commit_properties=properties)["num_deleted_rows"])

    def _pointing_at(
        self, identity: StreamIdentity, positions: StreamPositions | None, past: Past | None
    ) -> CommitProperties:
        entries, audit = [], {}
        if positions is not None:
            self._write(_positions_path(positions.token), positions_file.encode(positions))
            entries.append(Transaction(_application(identity), positions.token))
            audit[_TOKEN_KEY] = str(positions.token)
        if past is not None:
            self._write(_past_path(past.token), past_file.encode(past))
            entries.append(Transaction(_past_application(identity), past.token))
        return CommitProperties(app_transactions=entries, custom_metadata=audit)

    def _write(self, path: str, content: bytes) -> None:
        with write_new(self._table.files, path) as sink:
            sink.write(content)

    def version_of(self, token: int) -> int | None:
        """The version whose commit pointed at a token, if it is among the newest hundred."""
        for entry in self._delta.history(100):
            if entry.get(_TOKEN_KEY) == str(token):
                return int(entry["version"])
        return None


def _application(identity: StreamIdentity) -> str:
    """The log's name for a stream's entry: one for all incarnations, so that an old one's run is fenced."""
    return f"kinesis/{identity.arn}"


def _past_application(identity: StreamIdentity) -> str:
    return f"{_application(identity)}/past"


def _past_path(token: int) -> str:
    return f"_kinesis/past/{token}.json"


def sql_text(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _positions_path(token: int) -> str:
    return f"_kinesis/positions/{token}.json"


def _add_action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={"arrival_date": file.arrival_date},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=file.statistics(),
    )
