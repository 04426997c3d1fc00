"""The data files of an Iceberg table: read from manifests, and written to new ones.

A manifest names data files, with statistics. A snapshot names its manifests in a list. A commit writes one
manifest with the files that it adds, one for each manifest from which it removes files, and the list.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType, TimestampType, TimestamptzType
from pyiceberg.utils.datetime import date_str_to_days, micros_to_timestamp, micros_to_timestamptz

from kinesis_assets.errors import TableUnsuitable
from kinesis_assets.table.data_file import FIELD_IDS, STATISTICS, TableFile
from kinesis_assets.table.iceberg.catalog import relative
from kinesis_assets.table.iceberg.columns import PARTITIONING, TYPES
from kinesis_assets.table.iceberg.partitions import partition_of
from kinesis_assets.table.store.storage import ICEBERG_METADATA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField

    from kinesis_assets.table.data_file import DataFile

FORMAT_VERSION: Literal[2] = 2
"""The version of Iceberg's format. Snapshots of version 1 have no numbers; pyiceberg writes no version 3."""

_COMPRESSION: Any = "gzip"
"""The default of Iceberg. DuckDB reads no other that compresses as well."""

_MERGED_FROM = 8
"""From this number of manifests of about the same size on, a commit merges them into one."""

_SIZES = (8, 64, 512, 4096)
"""The numbers of files below which manifests are of about the same size. Larger ones are not merged.

Each entry is written again once for each size, and the list of the manifests stays short: its length grows
with the logarithm of the number of files."""


def entries_of(uri: str, table: Table, snapshot: Snapshot | None) -> Iterator[ManifestEntry]:
    """Yield the entries of the data files of a snapshot.

    Raises:
        TableUnsuitable: Rows are deleted by files of their own.
    """
    for manifest in manifests_of(table, snapshot):
        if manifest.content is ManifestContent.DELETES:
            if manifest.has_added_files() or manifest.has_existing_files():
                raise TableUnsuitable(
                    uri,
                    "has files that delete rows, so its data files cannot be read one by one; nothing was "
                    "changed. Compact it with the engine that wrote them, and set that to copy-on-write",
                )
            continue
        yield from manifest.fetch_manifest_entry(table.io)


def manifests_of(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    """Return the manifests of a snapshot; none if there is no snapshot."""
    return [] if snapshot is None else snapshot.manifests(table.io)


def table_file(uri: str, table: Table, file: IcebergFile, columns: Sequence[str] = ()) -> TableFile:
    """Return the description of a data file, with the smallest and greatest values of some columns.

    Raises:
        TableUnsuitable: The file is not in the table's folder, or is partitioned in another way.
    """
    path = relative(table.location(), file.file_path)
    if (
        path is None
        or file.spec_id not in (None, table.spec().spec_id)
        or file.file_format is not FileFormat.PARQUET
    ):
        raise TableUnsuitable(
            uri,
            f"has the file {file.file_path}, which another program added, and which is not a Parquet file in "
            "its folder, partitioned as the table is; nothing was changed. Write it again as such",
        )
    lower, upper, nulls = file.lower_bounds or {}, file.upper_bounds or {}, file.null_value_counts or {}
    found = {field.name: field for field in table.schema().fields if field.name in columns}
    return TableFile(
        path=path,
        size=file.file_size_in_bytes,
        rows=file.record_count,
        partition=partition_of(file.partition, table.spec(), table.schema()),
        smallest={name: _bound(found.get(name), lower) for name in columns},
        greatest={name: _bound(found.get(name), upper) for name in columns},
        nulls={name: nulls.get(found[name].field_id) if name in found else None for name in columns},
    )


def _bound(field: NestedField | None, bounds: Mapping[int, bytes]) -> Any:
    """Return a smallest or greatest value; None if it is unknown, or a time after the year 9999."""
    value = None if field is None else bounds.get(field.field_id)
    if field is None or value is None or not isinstance(field.field_type, PrimitiveType):
        return None
    found: Any = from_bytes(field.field_type, value)
    try:
        if isinstance(field.field_type, TimestamptzType):
            return micros_to_timestamptz(found)
        return micros_to_timestamp(found) if isinstance(field.field_type, TimestampType) else found
    except OverflowError:
        return None


def added_file(location: str, file: DataFile) -> IcebergFile:
    """Return the description of a file that a task has written, as manifests contain it."""
    smallest, greatest = file.bounds
    return described(
        location,
        file.path,
        arrival_date=file.arrival_date,
        rows=file.rows,
        size=file.size,
        smallest=smallest,
        greatest=greatest,
    )


def described(
    location: str,
    path: str,
    *,
    arrival_date: str,
    rows: int,
    size: int,
    smallest: Mapping[str, Any],
    greatest: Mapping[str, Any],
) -> IcebergFile:
    """Return the description of a data file, as manifests contain it.

    Args:
        path: Path relative to the table's location.
        smallest: The smallest values of the columns with statistics, by name.
    """
    ids = [FIELD_IDS[name] for name in STATISTICS]
    lower, upper = (
        {FIELD_IDS[name]: to_bytes(TYPES[name], value) for name, value in values.items()}
        for values in (smallest, greatest)
    )
    file = IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{location.rstrip('/')}/{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(date_str_to_days(arrival_date)),
        record_count=rows,
        file_size_in_bytes=size,
        value_counts=dict.fromkeys(ids, rows),
        null_value_counts=dict.fromkeys(ids, 0),
        lower_bounds=lower,
        upper_bounds=upper,
    )
    file.spec_id = PARTITIONING.spec_id
    return file


class NewManifests:
    """Writes the manifests of one attempt of a commit."""

    def __init__(self, table: Table, snapshot_id: int) -> None:
        self._table = table
        self._snapshot_id = snapshot_id
        self._folder = f"{table.location().rstrip('/')}/{ICEBERG_METADATA}"
        self._attempt = uuid4()
        self._written = 0

    def following(
        self, base: Snapshot | None, added: Sequence[IcebergFile], removed: Collection[str]
    ) -> list[ManifestFile]:
        """Return the manifests after a snapshot if files are added and removed.

        Args:
            removed: The paths of the files that are removed, as the manifests of the snapshot name them.
        """
        kept: list[ManifestFile] = []
        for manifest in manifests_of(self._table, base):
            # Others only say what an earlier commit has removed.
            if manifest.has_added_files() or manifest.has_existing_files():
                kept += self._without(manifest, removed) if removed else [manifest]
        new = [self._entry(file) for file in added]
        return [*([self._manifest(new)] if new else []), *self._merged(kept)]

    def _entry(self, file: IcebergFile) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=self._snapshot_id,
            sequence_number=None,
            file_sequence_number=None,
            data_file=file,
        )

    def _without(self, manifest: ManifestFile, removed: Collection[str]) -> list[ManifestFile]:
        if manifest.content is ManifestContent.DELETES:
            return [manifest]
        entries = manifest.fetch_manifest_entry(self._table.io)
        if not any(entry.data_file.file_path in removed for entry in entries):
            return [manifest]
        return [self._manifest(entries, removed)]

    def _merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Return the manifests, in which those of about the same size are merged if there are many."""
        spec_id = self._table.spec().spec_id
        mergeable = [
            each
            for each in manifests
            if each.content is ManifestContent.DATA
            and each.partition_spec_id == spec_id
            and each.added_snapshot_id != self._snapshot_id
        ]
        for more, fewer in pairwise((0, *_SIZES)):
            alike = [each for each in mergeable if more <= _number_of_files(each) < fewer]
            if len(alike) >= _MERGED_FROM:
                entries = [entry for each in alike for entry in each.fetch_manifest_entry(self._table.io)]
                others = [each for each in manifests if each not in alike]
                return [*([self._manifest(entries)] if entries else []), *others]
        return manifests

    def _manifest(self, entries: Sequence[ManifestEntry], removed: Collection[str] = ()) -> ManifestFile:
        self._written += 1
        path = f"{self._folder}{self._attempt}-m{self._written}.avro"
        with write_manifest(
            FORMAT_VERSION,
            self._table.spec(),
            self._table.schema(),
            self._table.io.new_output(path),
            self._snapshot_id,
            _COMPRESSION,
        ) as writer:
            for entry in entries:
                if entry.data_file.file_path in removed:
                    writer.delete(entry)
                elif entry.snapshot_id == self._snapshot_id:
                    writer.add(entry)
                else:
                    writer.existing(entry)
        return writer.to_manifest_file()

    def list_of(self, base: Snapshot | None, sequence_number: int, manifests: list[ManifestFile]) -> str:
        """Write the list of a snapshot's manifests. Returns its path."""
        path = f"{self._folder}snap-{self._snapshot_id}-0-{self._attempt}.avro"
        with write_manifest_list(
            FORMAT_VERSION,
            self._table.io.new_output(path),
            self._snapshot_id,
            None if base is None else base.snapshot_id,
            sequence_number,
            _COMPRESSION,
        ) as writer:
            writer.add_manifests(manifests)
        return path


def _number_of_files(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
