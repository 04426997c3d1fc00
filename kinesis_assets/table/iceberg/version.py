"""One version of an Iceberg table, raw or derived: what its metadata says about it, and commits on top of it.

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
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    Summary,
    UpdateMetrics,
    ancestors_of,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from kinesis_assets.errors import CommitFailed, CommitOvertaken
from kinesis_assets.table.iceberg.catalog import iceberg_errors, relative
from kinesis_assets.table.iceberg.history import (
    entry_of,
    last_number,
    number_of,
    replaced_all,
    states,
    time_of,
)
from kinesis_assets.table.iceberg.manifests import NewManifests, entries_of, manifests_of, table_file
from kinesis_assets.table.stored_table import LogEntry, ReadableVersion, Rewrite, TableTotals

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog
    from kinesis_assets.table.stored_table import StoredTable

_NEWEST = "kinesis_assets.snapshot"
"""The property of the table with the newest snapshot that set a pointer: its sequence number and its id."""


_SNAPSHOT_LOG = "snapshot log"
"""What Iceberg's Java library says about a snapshot whose time does not follow those of others."""

_ROLLBACK = "rollback"


class IcebergVersion(ReadableVersion):
    """One version of an Iceberg table.

    Attributes:
        iceberg: The table, opened by pyiceberg. Only the folder `table` uses it.
    """

    def __init__(self, table: StoredTable, iceberg: Table, catalog: IcebergCatalog) -> None:
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

    def entries(self) -> list[LogEntry]:
        """Return the versions whose snapshots are kept, newest first."""
        return list(map(entry_of, self._ancestors))

    def rewrites_of(self, base: int, commit_id: int) -> list[Rewrite]:
        """Return the rollbacks and overwrites after a version that the snapshots still show.

        Args:
            commit_id: The commit id of the commit that was based on that version.
        """
        found = self._rollbacks(base) + self._overwrites(base)
        is_kept = any(commit_id in entry.transactions.values() for entry in self.entries())
        if not (found or is_kept) and self._cut(base) is None:
            found.append(Rewrite(base + 1, _ROLLBACK, None))
        return found

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
            for snapshot, before in zip_longest(self._ancestors, self._ancestors[1:])
            if number_of(snapshot) > base and replaced_all(snapshot, before)
        ]

    def _cut(self, base: int) -> int | None:
        """Return the newest version after another one whose snapshot was expired; None if there is none."""
        oldest = min(map(number_of, self._ancestors), default=0)
        return oldest - 1 if oldest > base + 1 else None

    @cached_property
    def _manifests(self) -> Mapping[str, ManifestFile]:
        """The manifests of all snapshots, by path."""
        return {
            manifest.manifest_path: manifest
            for snapshot in self._metadata.snapshots
            for manifest in manifests_of(self.iceberg, snapshot)
        }

    def named_files(self) -> set[str]:
        """Return the paths of data files that any snapshot names."""
        uri, table = self.table.uri, self.iceberg
        with iceberg_errors(uri, "read"):
            paths = (
                relative(table.location(), entry.data_file.file_path)
                for manifest in self._manifests.values()
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
                *self._manifests,
            ]
        paths = (relative(table.location(), path) for path in metadata)
        return self.named_files() | {path for path in paths if path is not None}

    def refuse_unreadable(self) -> None:
        """Check that every row of a data file is a row of the table, see `TableSnapshot`."""
        self.data_files()

    def replace_files(self, paths: Collection[str], files: Sequence[IcebergFile]) -> None:
        """Try once to replace files by others that have the same rows. Raises as `_commit`.

        Paths are relative to the folder.
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

    def _commit(
        self,
        properties: Mapping[str, str],
        commit_ids: Mapping[str, int],
        added: Sequence[IcebergFile] = (),
        removed: Sequence[IcebergFile] = (),
        *,
        is_compaction: bool = False,
        columns: Schema | None = None,
    ) -> None:
        """Try once to add a snapshot on top of this version. An error does not mean that the commit failed.

        Args:
            properties: Properties that the table gets.
            commit_ids: The commit ids that it points at, by application.
            is_compaction: Whether the files that are added have the rows of those that are removed.
            columns: The schema that the table gets; None to keep its own.

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
                "schema-id": (columns or table.schema()).schema_id,
            }
        )
        expired = self._expired(snapshot.timestamp_ms)
        requirements, updates = self._changing(columns)
        try:
            response = table.catalog.commit_table(
                table,
                (
                    *requirements,
                    AssertRefSnapshotId.model_validate(
                        {"ref": MAIN_BRANCH, "snapshot-id": snapshot.parent_snapshot_id}
                    ),
                ),
                (
                    *updates,
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

    def change_columns(self, columns: Schema) -> None:
        """Try once to change the columns, without a snapshot. An error does not mean that it failed.

        Raises:
            CommitOvertaken: Another commit was made after this version.
        """
        requirements, updates = self._changing(columns)
        try:
            self.iceberg.catalog.commit_table(self.iceberg, requirements, updates)
        except CommitFailedException as error:
            raise CommitOvertaken(self.table.uri, str(error)) from None

    def _changing(
        self, columns: Schema | None
    ) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
        """Return what a commit requires, and what it changes besides, if the table gets other columns."""
        same = AssertTableUUID(uuid=self._metadata.table_uuid)
        if columns is None:
            return (same,), ()
        newest = AssertCurrentSchemaId.model_validate({"current-schema-id": self._metadata.current_schema_id})
        is_new = all(each.schema_id != columns.schema_id for each in self._metadata.schemas)
        added = [AddSchemaUpdate.model_validate({"schema": columns})] if is_new else []
        current = SetCurrentSchemaUpdate.model_validate({"schema-id": -1 if is_new else columns.schema_id})
        return (same, newest), (*added, current)

    def _summary(
        self,
        pointers: Mapping[str, str],
        added: Sequence[IcebergFile],
        removed: Sequence[IcebergFile],
        *,
        is_compaction: bool,
    ) -> Summary:
        metrics = UpdateMetrics()  # its collector cannot name a partition after the year 9999
        for file in added:
            metrics.add_file(file)
        for file in removed:
            metrics.remove_file(file)
        operation = Operation.APPEND if not removed else Operation.OVERWRITE if added else Operation.DELETE
        before = None if self._current is None else self._current.summary
        summary = update_snapshot_summaries(
            Summary(operation=operation, **metrics.to_dict(), **pointers),
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
