"""The entries of a stream's tables, for commands: compared with the tables, and registered by hand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kinesis_assets.dagster.catalog_entries import entry_of, open_catalog
from kinesis_assets.dagster.consumption import derived_tables
from kinesis_assets.dagster.settings.catalog_settings import catalog_of
from kinesis_assets.errors import CatalogFailed, InvalidInput, TableError, TableMissing
from kinesis_assets.kinesis.sdk import ATTEMPTS
from kinesis_assets.operations.catalog.entry import ASSET, STREAM
from kinesis_assets.operations.catalog.registration import WAYS_OUT, register_and_record
from kinesis_assets.operations.doctor.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import dagster as dg

    from kinesis_assets.dagster.settings.catalog_settings import CatalogSettings
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.operations.catalog.glue_catalog import GlueCatalog
    from kinesis_assets.table.delta.version import TableVersion
    from kinesis_assets.table.table import PositionedTable


class State(StrEnum):
    """The state of an entry."""

    REGISTERED = "registered"
    MISSING = "missing"
    OUTDATED = "outdated"
    CREATED = "created"
    UPDATED = "updated"
    OF_OTHERS = "of others"
    """Somebody else made or changed it."""
    FAILED = "failed"
    NO_TABLE = "no table"
    ON_A_DISK = "on a disk"
    NO_ASSET = "no asset"
    """The asset was removed, or is registered by another name now."""


GOOD = frozenset({State.REGISTERED, State.CREATED, State.UPDATED})
HARMLESS = frozenset({State.NO_TABLE, State.ON_A_DISK, State.NO_ASSET})


@dataclass(frozen=True, slots=True)
class EntryStatus:
    """What is known of one entry.

    Attributes:
        asset: The asset key of its table.
        entry: The database and the name.
        reason: Why it is not registered, and what to do.
    """

    asset: str
    entry: str
    state: State
    reason: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The status as the command prints it."""
        return {
            "asset": self.asset,
            "entry": self.entry,
            "state": str(self.state),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """A table that has the setting `catalog`."""

    opened: OpenStream
    key: dg.AssetKey
    settings: CatalogSettings
    table: PositionedTable | DerivedTable

    @property
    def name(self) -> str:
        """The database and the name of its entry."""
        return f"{self.settings.database}.{self.settings.name_of(self.key.path[-1])}"

    def status(self, state: State, reason: str | None = None) -> EntryStatus:
        """Return the status of its entry."""
        return EntryStatus(self.key.to_user_string(), self.name, state, reason)

    def version(self) -> TableVersion | EntryStatus:
        """Return the newest version of the table, or the status of a table that cannot be registered."""
        if self.table.folder.bucket is None:
            return self.status(State.ON_A_DISK, "only a table on S3 is registered")
        try:
            version = self.table.snapshot().registrable
        except TableMissing:
            return self.status(State.NO_TABLE, "the first run creates the table")
        except TableError as error:
            return self.status(State.FAILED, str(error))
        return version or self.status(State.FAILED, "only a Delta table is registered")

    def catalog(self) -> GlueCatalog:
        """Open its Data Catalog. Raises `CatalogFailed`."""
        return open_catalog(self.opened, self.settings.connection, attempts=ATTEMPTS)

    def compared(self) -> EntryStatus:
        """Compare the entry with the table."""
        version = self.version()
        if isinstance(version, EntryStatus):
            return version
        try:
            entry = entry_of(self.opened, self.key, self.settings, version)
            found = self.catalog().find(entry.database, entry.name)
        except CatalogFailed as error:
            return self.status(State.FAILED, str(error))
        if found is None:
            return self.status(State.MISSING, "the next tick or run tries to register the table")
        if (refusal := entry.refusal_to_replace(found)) is not None:
            return self.status(State.OF_OTHERS, f"{refusal}. {WAYS_OUT}")
        if entry.is_in(found):
            return self.status(State.REGISTERED)
        return self.status(State.OUTDATED, "the next tick or run replaces it")

    def register(self, *, force: bool) -> EntryStatus:
        """Register the table, and record that."""
        version = self.version()
        if isinstance(version, EntryStatus):
            return version
        try:
            entry = entry_of(self.opened, self.key, self.settings, version)
            done = register_and_record(self.catalog(), self.table, entry, force=force)
        except CatalogFailed as error:
            return self.status(State.FAILED, str(error))
        return self.status(State(done))


def registered_tables(
    opened: OpenStream, assets: Mapping[dg.AssetKey, dg.AssetsDefinition], asset: str | None = None
) -> list[RegisteredTable]:
    """Return the tables of a stream that have the setting `catalog`.

    Args:
        assets: The assets of the code location.
        asset: The asset key of the only table to return; None for all.

    Raises:
        InvalidInput: No such table has the setting.
    """
    found = []
    if (settings := catalog_of(opened.settings.registration)) is not None:
        found.append(RegisteredTable(opened, opened.names.raw_key, settings, opened.table))
    for key, each in derived_tables(assets, opened.names).items():
        if (settings := catalog_of(each.registration)) is not None:
            found.append(RegisteredTable(opened, key, settings, each.open_table(opened)))
    if asset is not None:
        names = ", ".join(each.key.to_user_string() for each in found) or "none"
        found = [each for each in found if each.key.to_user_string() == asset]
        if not found:
            raise InvalidInput(f"asset {asset}: it has no setting catalog; the tables with one are {names}")
    return found


def entries_without_asset(tables: Sequence[RegisteredTable]) -> Iterator[EntryStatus]:
    """Yield the entries of a stream, in the databases of its tables, that no table has any more.

    On a machine whose tables are on a disk, nothing is asked: they are not registered.
    """
    names = {each.name for each in tables}
    stored = [each for each in tables if each.table.folder.bucket is not None]
    places = {(each.settings.connection, each.settings.database): each for each in stored}
    for (_, database), each in places.items():
        stream = each.opened.names.stream_key.to_user_string()
        try:
            marked = list(each.catalog().marked(database))
        except CatalogFailed as error:
            yield EntryStatus("", f"{database}.*", State.FAILED, str(error))
            continue
        for found in marked:
            marks, name = found["Parameters"], f"{database}.{found['Name']}"
            if marks.get(STREAM) == stream and name not in names:
                reason = (
                    "no asset of the project has this entry. If nobody needs it: aws glue delete-table "
                    f"--database-name {database} --name {found['Name']}"
                )
                yield EntryStatus(marks.get(ASSET, ""), name, State.NO_ASSET, reason)


def entry_findings(tables: Sequence[RegisteredTable]) -> Iterator[Finding]:
    """Yield the findings of the doctor: about entries that are not those of their tables."""
    for each in (*(table.compared() for table in tables), *entries_without_asset(tables)):
        if each.state not in GOOD:
            level = Level.INFO if each.state in HARMLESS else Level.PROBLEM
            yield Finding(
                "catalog", level, f"{each.asset or each.entry} as {each.entry}: {each.state}: {each.reason}"
            )
