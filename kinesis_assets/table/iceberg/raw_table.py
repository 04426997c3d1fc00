"""The raw table in the format Iceberg. Properties of the table and of its snapshots point at the positions.

A commit adds a snapshot, also if it adds no rows, on the condition that the newest snapshot is still the one
on which the commit is based: the catalog compares and sets. Foreign maintenance may compact the table and
expire all other snapshots, so a pointer is a property of the table, which the same commit sets. A foreign
rollback reverts rows but not properties, so the table also names the newest snapshot of this package. The
number of a version is the sequence number of its snapshot; a rollback, which has none, counts one more.

Only `Catalog.commit_table` is called, once for an attempt. A transaction of pyiceberg would delete the
manifests of a commit whose response was lost.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    ancestors_of,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from kinesis_assets.errors import CommitFailed, CommitOvertaken, TableMissing, TableUnsuitable
from kinesis_assets.retry import Backoff
from kinesis_assets.table.commit_ids import time_of_id
from kinesis_assets.table.format import DESCRIPTION, TableFormat
from kinesis_assets.table.iceberg.catalog import (
    create_namespace,
    iceberg_errors,
    location_of,
    relative,
)
from kinesis_assets.table.iceberg.columns import PARTITIONING, PROPERTIES, READ_SCHEMA, SCHEMA, difference
from kinesis_assets.table.iceberg.manifests import (
    FORMAT_VERSION,
    NewManifests,
    added_file,
    entries_of,
    manifests_of,
    table_file,
)
from kinesis_assets.table.iceberg.rows import count_rows, newest_rows, rewrite
from kinesis_assets.table.iceberg.versions import (
    entry_of,
    last_number,
    number_of,
    replaced_all,
    states,
    time_of,
)
from kinesis_assets.table.log.entries import LogEntry, Rewrite
from kinesis_assets.table.ownership import OWNER, is_application
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.store.storage import files_in, has_metadata_of
from kinesis_assets.table.stored_table import TableTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.data_file import DataFile, TableFile
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog
    from kinesis_assets.table.positions.positions import StreamPositions
    from kinesis_assets.table.row_predicates import RowPredicate
    from kinesis_assets.table.snapshot import NewestRow, Pointers, TableFiles

_NEWEST = "kinesis_assets.snapshot"
"""The property of the table with the newest snapshot that set a pointer: its sequence number and its id."""


_SNAPSHOT_LOG = "snapshot log"
"""What Iceberg's Java library says about a snapshot whose time does not follow those of others."""


class IcebergSnapshot(TableSnapshot):
    """One version of a raw Iceberg table.

    Attributes:
        iceberg: The table, opened by pyiceberg. Only the folder `table` uses it.
    """

    def __init__(self, table: TableFiles, iceberg: Table, catalog: IcebergCatalog) -> None:
        self.table = table
        self.uri = table.uri
        self.folder = table.folder
        self.iceberg = iceberg
        self._catalog = catalog
        self._metadata = iceberg.metadata
        self._current = iceberg.current_snapshot()
        self._ancestors = list(ancestors_of(self._current, iceberg.metadata))
        self._states = states(iceberg.metadata)
        self._committed: dict[int, int] = {}

    @property
    def version(self) -> int:
        """The number of the last version, also if it is a rollback to an earlier snapshot."""
        newest = self._states[-1].version if self._states else 0
        return max(newest, last_number(self._metadata))

    @property
    def id(self) -> str:
        """The id that the table got when it was created."""
        return str(self._metadata.table_uuid)

    @property
    def created(self) -> float:
        """When the oldest of its rows was read, since the metadata keeps no time; now if there are none."""
        oldest = (file.smallest["batch_id"] for file in self.data_files(["batch_id"]))
        times = [time_of_id(batch_id) for batch_id in oldest if batch_id is not None]
        return min(times, default=self.table.clock.time())

    @property
    def schema(self) -> Mapping[str, Any]:
        """The columns of its rows, see `READ_SCHEMA`."""
        return READ_SCHEMA

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, by name."""
        return self._metadata.properties

    def data_files(self, columns: Sequence[str] = ()) -> list[TableFile]:
        """Return the data files of this version, see `TableSnapshot`."""
        uri = self.table.uri
        with iceberg_errors(uri, "read"):
            return [
                table_file(uri, self.iceberg, entry.data_file, columns)
                for entry in entries_of(uri, self.iceberg, self._current)
            ]

    def totals(self) -> TableTotals:
        """Return the totals of this version, see `TableSnapshot`."""
        files = self.data_files()
        return TableTotals(
            sum(file.rows or 0 for file in files), sum(file.size for file in files), len(files)
        )

    def commit_id_of(self, application: str) -> int | None:
        """Return the commit id that the table points at for an application, if there is one."""
        found = self.properties.get(application)
        return None if found is None else int(found)

    def applications(self) -> frozenset[str]:
        """Return the application ids for which the table points at a commit id."""
        return frozenset(filter(is_application, self.properties))

    def version_of(self, commit_id: int) -> int | None:
        """Return the version whose commit points at a commit id, if its snapshot is kept."""
        return next(
            (entry.version for entry in self.entries() if commit_id in entry.transactions.values()), None
        )

    def later_version_of(self, commit_id: int) -> int | None:
        """Return the version that this one has committed, see `TableSnapshot`."""
        return self._committed.get(commit_id)

    def entries(self) -> list[LogEntry]:
        """Return the versions whose snapshots are kept, newest first."""
        return list(map(entry_of, self._ancestors))

    def rewrites(self) -> list[Rewrite]:
        """Return the rollbacks and overwrites that the snapshots still show."""
        return self._rollbacks(0) + self._overwrites(0)

    def rewrites_since(self, positions: StreamPositions) -> list[Rewrite]:
        """Return the rollbacks and overwrites after positions, see `TableSnapshot`."""
        base = positions.examined or 0
        found = self._rollbacks(base) + self._overwrites(base)
        is_kept = any(positions.commit_id in entry.transactions.values() for entry in self.entries())
        if not (found or is_kept) and self._cut(base) is None:
            found.append(Rewrite(base + 1, _ROLLBACK, None))
        return found

    def rewrites_between(self, base: int) -> list[Rewrite] | None:
        """Return the rollbacks and overwrites after a version, see `TableSnapshot`."""
        return None if self._cut(base) is not None else self._rollbacks(base) + self._overwrites(base)

    def deleted_since(self, positions: StreamPositions) -> int | None:
        """Return the newest version whose snapshot was expired, see `TableSnapshot`."""
        return self._cut(positions.examined or 0)

    def _rollbacks(self, base: int) -> list[Rewrite]:
        """Return the rollbacks after a version, newest first.

        If the snapshots that were rolled back are expired, so are the traces of the rollback. Then the newest
        snapshot of this package, which the table names, is missing.
        """
        found = [
            Rewrite(each.version, _ROLLBACK, each.at)
            for each in reversed(self._states)
            if each.is_rollback and each.version > base
        ]
        newest = self.properties.get(_NEWEST)
        if found or newest is None:
            return found
        number, snapshot_id = map(int, newest.split("/"))
        is_kept = any(snapshot.snapshot_id == snapshot_id for snapshot in self._ancestors)
        if is_kept or number <= base or self._cut(number - 1) is not None:
            return []
        return [Rewrite(number, _ROLLBACK, None)]

    def _overwrites(self, base: int) -> list[Rewrite]:
        """Return the commits of other programs after a version that replaced all files, newest first."""
        return [
            Rewrite(number_of(snapshot), Operation.OVERWRITE.value, time_of(snapshot))
            for snapshot in self._ancestors
            if number_of(snapshot) > base and replaced_all(snapshot)
        ]

    def _cut(self, base: int) -> int | None:
        """Return the newest version after another one whose snapshot was expired; None if there is none."""
        oldest = min(map(number_of, self._ancestors), default=0)
        return oldest - 1 if oldest > base + 1 else None

    def named_files(self) -> set[str]:
        """Return the paths of data files that any snapshot names."""
        uri, table = self.table.uri, self.iceberg
        with iceberg_errors(uri, "read"):
            manifests = {
                manifest.manifest_path: manifest
                for snapshot in self._metadata.snapshots
                for manifest in manifests_of(table, snapshot)
            }
            paths = (
                relative(table.location(), entry.data_file.file_path)
                for manifest in manifests.values()
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            )
            return {path for path in paths if path is not None}

    def named_paths(self) -> set[str]:
        """Return the paths of all files that any snapshot or the metadata names, relative to the folder."""
        uri, table = self.table.uri, self.iceberg
        with iceberg_errors(uri, "read"):
            metadata = [
                table.metadata_location,
                *(entry.metadata_file for entry in self._metadata.metadata_log),
                *(file.statistics_path for file in self._metadata.statistics),
                *(file.statistics_path for file in self._metadata.partition_statistics),
                *(snapshot.manifest_list for snapshot in self._metadata.snapshots),
                *(
                    manifest.manifest_path
                    for snapshot in self._metadata.snapshots
                    for manifest in manifests_of(table, snapshot)
                ),
            ]
        paths = (relative(table.location(), path) for path in metadata)
        return self.named_files() | {path for path in paths if path is not None}

    def refuse_unreadable(self) -> None:
        """Check that every row of a data file is a row of the table, see `TableSnapshot`."""
        self.data_files()

    def count(self, predicate: RowPredicate) -> dict[str, int]:
        """Count the rows that match a predicate, by shard id, see `TableSnapshot`."""
        return count_rows(self.table, self.file_stats(), predicate)

    def newest_rows(self) -> Mapping[str, Mapping[str, NewestRow]]:
        """Return the newest row of each shard, see `TableSnapshot`."""
        return newest_rows(self.table, self.file_stats())

    def accept_rows(self) -> bool:
        """Return that the schema does not need a change."""
        return False

    def claim(self, identity: StreamIdentity) -> None:
        """Set a stream as the table's owner, see `TableSnapshot`."""
        self._commit({OWNER: identity.arn}, {})

    def replace(self, paths: Collection[str], files: Sequence[IcebergFile]) -> None:
        """Try once to replace files by others that have the same rows. Raises as `commit`.

        Args:
            paths: The paths of the files in this version, relative to the folder.
        """
        self._commit({}, {}, files, self._files_at(paths), is_compaction=True)

    def add_nothing(self) -> None:
        """Try once to commit without rows, so that no attempt that is based on this version commits."""
        self._commit({}, {})

    def _files_at(self, paths: Collection[str]) -> list[IcebergFile]:
        location = self.iceberg.location()
        entries = entries_of(self.table.uri, self.iceberg, self._current)
        files = (entry.data_file for entry in entries)
        return [file for file in files if relative(location, file.file_path) in paths]

    def _add(self, files: Sequence[DataFile], pointers: Pointers) -> None:
        location = self.iceberg.location()
        self._commit({}, pointers.commit_ids, [added_file(location, file) for file in files])

    def _delete(self, predicate: RowPredicate, pointers: Pointers) -> int:
        found = rewrite(self.table, self.iceberg.location(), self.file_stats(), predicate)
        if not found.deleted:
            return 0
        self._commit({}, pointers.commit_ids, found.written, self._files_at(found.replaced))
        return found.deleted

    def _commit(
        self,
        properties: Mapping[str, str],
        commit_ids: Mapping[str, int],
        added: Sequence[IcebergFile] = (),
        removed: Sequence[IcebergFile] = (),
        *,
        is_compaction: bool = False,
    ) -> None:
        """Try once to add a snapshot on top of this version. An error does not mean that the commit failed.

        Args:
            properties: Properties that the table gets.
            commit_ids: The commit ids that it points at, by application.
            is_compaction: Whether the files that are added have the rows of those that are removed.

        Raises:
            CommitOvertaken: Another commit was made after this version.
            CommitFailed: The catalog refuses the time of this machine.
        """
        table, base = self.iceberg, self._current
        snapshot_id = secrets.randbits(62)
        number = self.version + 1
        pointers = {name: str(commit_id) for name, commit_id in commit_ids.items()}
        changed = {**properties, **pointers}
        if changed:  # a commit that changes neither hides no trace of a rollback
            changed[_NEWEST] = f"{number}/{snapshot_id}"
        manifests = NewManifests(table, snapshot_id)
        following = manifests.following(base, added, {file.file_path for file in removed})
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": snapshot_id,
                "parent-snapshot-id": None if base is None else base.snapshot_id,
                "sequence-number": number,
                # Another machine's clock may be ahead, and no snapshot may be older than the one before it.
                # If a commit has the time of the last change, pyiceberg replaces it by that of this machine.
                "timestamp-ms": max(int(self.table.clock.time() * 1000), self._metadata.last_updated_ms + 1),
                "manifest-list": manifests.list_of(base, number, following),
                "summary": self._summary(pointers, added, removed, is_compaction=is_compaction),
                "schema-id": table.schema().schema_id,
            }
        )
        expired = self._expired(snapshot.timestamp_ms)
        try:
            response = table.catalog.commit_table(
                table,
                (
                    AssertTableUUID(uuid=self._metadata.table_uuid),
                    AssertRefSnapshotId.model_validate(
                        {"ref": MAIN_BRANCH, "snapshot-id": snapshot.parent_snapshot_id}
                    ),
                ),
                (
                    *([SetPropertiesUpdate(updates=changed)] if changed else []),
                    AddSnapshotUpdate(snapshot=snapshot),
                    SetSnapshotRefUpdate.model_validate(
                        {"ref-name": MAIN_BRANCH, "type": "branch", "snapshot-id": snapshot_id}
                    ),
                    *([RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired})] if expired else []),
                ),
            )
        except CommitFailedException as error:
            newest = table.catalog.load_table(table.name()).metadata
            if newest.current_snapshot_id != self._metadata.current_snapshot_id:
                raise CommitOvertaken(self.table.uri, str(error)) from None
            raise
        except BadRequestError as error:
            if _SNAPSHOT_LOG not in str(error):
                raise
            raise CommitFailed(
                self.table.uri,
                "the catalog refuses the time of the snapshot, and nothing was committed: the clock of this "
                "machine, or of one that committed before, is a minute or more ahead of the catalog's. Set "
                "the clocks with NTP, wait until the catalog's has caught up, and run again. It says: "
                f"{error}",
            ) from None
        if response.metadata.current_snapshot_id == snapshot_id:
            self._committed.update(dict.fromkeys(commit_ids.values(), number))

    def _summary(
        self,
        pointers: Mapping[str, str],
        added: Sequence[IcebergFile],
        removed: Sequence[IcebergFile],
        *,
        is_compaction: bool,
    ) -> Summary:
        collector = SnapshotSummaryCollector()
        for file in added:
            collector.add_file(file, self.iceberg.schema(), self.iceberg.spec())
        for file in removed:
            collector.remove_file(file, self.iceberg.schema(), self.iceberg.spec())
        operation = Operation.APPEND if not removed else Operation.OVERWRITE if added else Operation.DELETE
        before = None if self._current is None else self._current.summary
        summary = update_snapshot_summaries(
            Summary(operation=operation, **collector.build(), **pointers),
            None if before is None else before.additional_properties,
        )
        return Summary(Operation.REPLACE, **summary.additional_properties) if is_compaction else summary

    def _expired(self, now_ms: int) -> list[int]:
        """Return the ids of the snapshots that the next commit expires. None is that of a branch or a tag."""
        named = {ref.snapshot_id for ref in self._metadata.refs.values()}
        newest_first = sorted(self._metadata.snapshots, key=number_of, reverse=True)
        kept_since = now_ms - timedelta(hours=self._catalog.snapshot_hours) / timedelta(milliseconds=1)
        return [
            snapshot.snapshot_id
            for snapshot in newest_first[max(1, self._catalog.snapshots_kept) - 1 :]
            if snapshot.snapshot_id not in named and snapshot.timestamp_ms < kept_since
        ]


_ROLLBACK = "rollback"


_CREATIONS = 5
"""How often to try to create a table that cannot be opened."""

_BACKOFF = Backoff(0.1, 1.0)
"""The waits between the tries."""


class IcebergFormat(TableFormat):
    """Raw tables in the format Iceberg.

    Args:
        catalog: The catalog that names the newest version of the table.
    """

    field_ids: ClassVar = True

    def __init__(self, table: TableFiles, catalog: IcebergCatalog) -> None:
        self._table = table
        self._catalog = catalog
        self._location = location_of(table.folder)
        self._opened: tuple[dict[str, str], Catalog] | None = None

    def open(self) -> IcebergSnapshot:
        """Open the newest version, see `TableFormat`."""
        uri = self._table.uri
        with iceberg_errors(uri, "opened"):
            try:
                found = self._client().load_table(self._catalog.identifier)
            except (NoSuchTableError, NoSuchNamespaceError) as error:
                if has_metadata_of("delta", self._table.files):
                    raise TableUnsuitable(
                        uri,
                        "is a Delta table, and the format of a table cannot be changed; nothing was changed. "
                        "Use another folder, and start it where this table ends",
                    ) from None
                name = ".".join(self._catalog.identifier)
                raise TableMissing(
                    uri,
                    f"the catalog has no table {name}; the first run creates it, unless its folder is that "
                    "of an older table",
                ) from error
        self._check(found.metadata)
        return IcebergSnapshot(self._table, found, self._catalog)

    def create(self, opened: Callable[[], TableSnapshot], owner: StreamIdentity | None) -> TableSnapshot:
        """Open the table, or create an empty one, see `TableFormat`.

        Raises:
            TableUnsuitable: The folder is that of a table which the catalog does not have.
        """
        failures = 0
        while True:
            try:
                return opened()
            except TableMissing:
                if failures == _CREATIONS:
                    if self._has_positions():
                        raise self._lost() from None
                    raise
            if failures:
                self._table.clock.sleep(_BACKOFF.wait(failures))
            failures += 1
            if not self._has_positions():  # or another process has just created the table
                self._create(owner)

    def _has_positions(self) -> bool:
        """Return whether the folder has positions, which are written after the table was created."""
        with iceberg_errors(self._table.uri, "opened"):
            return bool(files_in(self._table.files, POSITIONS_FOLDER))

    def _lost(self) -> TableUnsuitable:
        """Return the error for a folder whose table the catalog does not have, or no longer.

        A new table in it would be read from the start, and maintenance would delete the files of the old one.
        """
        return TableUnsuitable(
            self._table.uri,
            f"the catalog has no table {'.'.join(self._catalog.identifier)}, but the folder has the "
            "positions and perhaps the rows of one, which was renamed or dropped, or is in another catalog; "
            "nothing was changed. Correct the setting catalog, or register the newest file "
            "metadata/*.metadata.json there. To start again without these rows, use another folder",
        )

    def _create(self, owner: StreamIdentity | None) -> None:
        catalog, identifier = self._client(), self._catalog.identifier
        properties = {**PROPERTIES, "format-version": str(FORMAT_VERSION), "comment": DESCRIPTION}
        if owner is not None:
            properties[OWNER] = owner.arn
        with iceberg_errors(self._table.uri, "created", writes=True):

            def create() -> None:
                catalog.create_table(identifier, SCHEMA, self._location, PARTITIONING, properties=properties)

            try:
                try:
                    create()
                except NoSuchNamespaceError:  # to create one where there is one can be forbidden
                    create_namespace(catalog, identifier[:-1])
                    create()
            except TableAlreadyExistsError:
                return  # another process has created it

    def _client(self) -> Catalog:
        """Return the client of the catalog. It is replaced when the credentials of a role are refreshed."""
        access = self._catalog.access(self._table.folder)
        if self._opened is None or self._opened[0] != access:
            self._opened = access, self._catalog.open(access)
        return self._opened[1]

    def _check(self, metadata: TableMetadata) -> None:
        uri = self._table.uri
        if relative(f"{metadata.location.rstrip('/')}/", f"{self._location}/x") != "x":
            raise TableUnsuitable(
                uri,
                f"the catalog's table {'.'.join(self._catalog.identifier)} is in {metadata.location}. "
                "Correct the setting table, or use another name",
            )
        if metadata.format_version != FORMAT_VERSION:
            raise TableUnsuitable(
                uri,
                f"has version {metadata.format_version} of Iceberg's format, and only {FORMAT_VERSION} can "
                "be written",
            )
        wrong = difference(metadata.schema(), metadata.spec())
        if wrong:
            raise TableUnsuitable(
                uri,
                f"not a raw Kinesis table (wrong or missing: {', '.join(wrong)}); "
                "use a separate table for the stream",
            )
