"""The entries of a stream's tables in the AWS Glue Data Catalog.

Ticks of the sensor and runs register a table where they evaluate its checks, because its newest version is at
hand there. So a table is registered when it is created and when its columns or properties have changed, and a
failed registration is repeated also if nothing runs. Commands compare the entries with the tables, and
register tables by hand.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.checks.results import CheckResult
from kinesis_assets.dagster.derived_tables import derived_tables
from kinesis_assets.dagster.settings.catalog_settings import catalog_of
from kinesis_assets.errors import CatalogFailed, InvalidInput, TableError, TableMissing
from kinesis_assets.kinesis.settings import ReadTiming
from kinesis_assets.metrics import CATALOG_LAG, STREAM, TABLE, measure
from kinesis_assets.operations.catalog.entry import ASSET, Entry
from kinesis_assets.operations.catalog.entry import STREAM as STREAM_ASSET
from kinesis_assets.operations.catalog.registration import WAYS_OUT, Registrar, register_and_record
from kinesis_assets.operations.doctor.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.dagster.settings.catalog_settings import CatalogSettings, Connection
    from kinesis_assets.dagster.settings.check_settings import CatalogCheck
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.operations.catalog.glue_catalog import GlueCatalog
    from kinesis_assets.table.delta.version import TableVersion
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.run_files.states import CatalogState

_CONNECT_TIMEOUT, _READ_TIMEOUT = 2.0, 3.0
"""The limits of each call in a tick or a run."""

_LOCAL = "not registered: the table is on a disk, where no other engine finds it"

_UNTIL_THEN = "It is tried again. No run depends on the entry, but engines that use it may see old columns"


class CatalogEntries:
    """The entries of a stream's tables, in a part of a tick of the sensor or after one commit of a run."""

    def __init__(self, opened: OpenStream) -> None:
        self._opened = opened
        self._registrar: Registrar | None = None
        self._open_catalog = cache(partial(open_catalog, opened))
        self._events: list[dg.AssetObservation] = []

    def check(
        self, check: CatalogCheck | None, key: dg.AssetKey, catalog: Mapping[str, str], snapshot: TableVersion
    ) -> CheckResult | None:
        """Register a table if that is due, and return the result of its check.

        Args:
            check: The settings of the check; None if it is not defined. It has no result if the time of the
                tick was spent on other tables before the first attempt.
            catalog: Its setting `catalog`, which is not empty.
        """
        settings = catalog_of(catalog)
        if settings is None:
            return None
        if snapshot.folder.bucket is None:
            return None if check is None else CheckResult("catalog", True, check.severity, _LOCAL)
        state = self._kept(key, settings, snapshot)
        is_known = state.at is not None or state.error is not None
        return check_catalog(check, state) if check is not None and is_known else None

    def _kept(self, key: dg.AssetKey, settings: CatalogSettings, snapshot: TableVersion) -> CatalogState:
        """Register a table if that is due, and return the state of its entry."""
        if self._registrar is None:
            self._registrar = Registrar(snapshot.table.clock)
        name = settings.full_name(key.path[-1])
        state, is_news = self._registrar.keep(
            snapshot.table,
            name,
            lambda: entry_of(self._opened, key, settings, snapshot),
            lambda: self._open_catalog(settings.connection),
        )
        since = state.failing_since
        lag = 0.0 if since is None else max(0.0, snapshot.table.clock.time() - since)
        measure(CATALOG_LAG, lag, {STREAM: self._opened.name, TABLE: snapshot.uri})
        if is_news:
            said = f"registered as {name}" if state.error is None else f"{_failing(name)}: {state.error}"
            self._events.append(dg.AssetObservation(key, description=said, metadata={"catalog": said}))
        return state

    def taken_events(self) -> list[dg.AssetObservation]:
        """Return the observations of assets whose registration has begun to fail or succeeds again, once."""
        taken, self._events = self._events, []
        return taken


def entry_of(
    opened: OpenStream, key: dg.AssetKey, settings: CatalogSettings, snapshot: TableVersion
) -> Entry:
    """Return the entry that a version of a table should have. Raises `CatalogFailed`."""
    return Entry.of(
        snapshot,
        settings.database,
        settings.name_of(key.path[-1]),
        asset=key.to_user_string(),
        stream=opened.names.stream_key.to_user_string(),
    )


def open_catalog(opened: OpenStream, connection: Connection, attempts: int = 1) -> GlueCatalog:
    """Open the Data Catalog of a table, see `OpenStream.aws_settings`.

    Raises:
        CatalogFailed: Its client cannot be created.
    """
    from kinesis_assets.operations.catalog.glue_catalog import GlueCatalog  # noqa: PLC0415  # loads the AWS SDK

    timing = ReadTiming(connect_timeout=_CONNECT_TIMEOUT, read_timeout=_READ_TIMEOUT)
    return GlueCatalog(replace(opened.aws_settings(connection), timing=timing), attempts)


def check_catalog(check: CatalogCheck, state: CatalogState) -> CheckResult:
    """Check, by the state of its entry, that the last registration of a table has not failed."""
    if state.error is None:
        description = f"{state.entry} has the columns of the table"
    else:
        description = f"{_failing(state.entry)}: {state.error.rstrip('.')}. {_UNTIL_THEN}"
    facts = {"entry": state.entry, "failed attempts": state.failed}
    return CheckResult("catalog", state.error is None, check.severity, description, facts)


def _failing(entry: str) -> str:
    return f"the table cannot be registered as {entry}"


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
        return asdict(self) | {"state": str(self.state)}


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
        return self.settings.full_name(self.key.path[-1])

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
        from kinesis_assets.kinesis.sdk import ATTEMPTS  # noqa: PLC0415  # loads the AWS SDK

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
    """Return the tables of a stream that have the setting `catalog`, or only that of an asset.

    Raises:
        InvalidInput: No such table has the setting.
    """
    found = []
    if (settings := catalog_of(opened.settings.registration)) is not None:
        found.append(RegisteredTable(opened, opened.names.raw_key, settings, opened.table))
    for key, each in derived_tables(assets, opened.names).items():
        if (settings := catalog_of(each.settings.registration)) is not None:
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
            parameters, name = found["Parameters"], f"{database}.{found['Name']}"
            if parameters.get(STREAM_ASSET) == stream and name not in names:
                reason = (
                    "no asset of the project has this entry. If nobody needs it: aws glue delete-table "
                    f"--database-name {database} --name {found['Name']}"
                )
                yield EntryStatus(parameters.get(ASSET, ""), name, State.NO_ASSET, reason)


def entry_findings(tables: Sequence[RegisteredTable]) -> Iterator[Finding]:
    """Yield the findings of the doctor: about entries that are not those of their tables."""
    for each in (*(table.compared() for table in tables), *entries_without_asset(tables)):
        if each.state not in GOOD:
            level = Level.INFO if each.state in HARMLESS else Level.PROBLEM
            yield Finding(
                "catalog", level, f"{each.asset or each.entry} as {each.entry}: {each.state}: {each.reason}"
            )
