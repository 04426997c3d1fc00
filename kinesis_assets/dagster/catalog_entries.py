"""The entries of a stream's tables in the AWS Glue Data Catalog: registered in ticks and runs, and inspected.

Ticks of the sensor and runs register a table where they evaluate its checks, because its newest version is at
hand there. So a table is registered when it is created and when its columns or properties have changed, and a
failed registration is repeated also if nothing runs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.checks.results import CheckResult
from kinesis_assets.dagster.settings.catalog_settings import catalog_of
from kinesis_assets.kinesis.settings import ReadTiming
from kinesis_assets.metrics import CATALOG_LAG, STREAM, TABLE, measure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.dagster.settings.catalog_settings import CatalogSettings, Connection
    from kinesis_assets.dagster.settings.check_settings import CatalogCheck
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.operations.catalog.entry import Entry
    from kinesis_assets.operations.catalog.glue_catalog import GlueCatalog
    from kinesis_assets.operations.catalog.registration import Registrar
    from kinesis_assets.table.delta.version import TableVersion
    from kinesis_assets.table.run_files.states import CatalogState

_CONNECT_TIMEOUT, _READ_TIMEOUT = 2.0, 3.0
"""The limits of each call in a tick or a run."""

_LOCAL = "not registered: the table is on a disk, where no other engine finds it"

_UNTIL_THEN = "It is tried again. No run depends on the entry, but engines that use it may see old columns"


class CatalogEntries:
    """The entries of a stream's tables, in one tick of the sensor or after one commit of a run."""

    def __init__(self, opened: OpenStream) -> None:
        self._opened = opened
        self._registrar: Registrar | None = None
        self._open_catalog = cache(partial(open_catalog, opened))
        self._events: list[dg.AssetObservation] = []

    def check(
        self,
        check: CatalogCheck | None,
        key: dg.AssetKey,
        catalog: Mapping[str, str],
        snapshot: TableVersion,
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
        from kinesis_assets.operations.catalog.registration import Registrar  # noqa: PLC0415  # loads the AWS SDK

        if self._registrar is None:
            self._registrar = Registrar(snapshot.table.clock)
        name = f"{settings.database}.{settings.name_of(key.path[-1])}"
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
    from kinesis_assets.operations.catalog.entry import Entry  # noqa: PLC0415  # only registered tables need it

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
    from kinesis_assets.operations.catalog.glue_catalog import GlueCatalog  # noqa: PLC0415  # as above

    timing = ReadTiming(connect_timeout=_CONNECT_TIMEOUT, read_timeout=_READ_TIMEOUT)
    return GlueCatalog(replace(opened.aws_settings(connection), timing=timing), attempts)


def check_catalog(check: CatalogCheck, state: CatalogState) -> CheckResult:
    """Check that the last registration of a table has not failed.

    Args:
        state: The state of its entry after an attempt.
    """
    if state.error is None:
        description = f"{state.entry} has the columns of the table"
    else:
        description = f"{_failing(state.entry)}: {state.error.rstrip('.')}. {_UNTIL_THEN}"
    facts = {"entry": state.entry, "failed attempts": state.failed}
    return CheckResult("catalog", state.error is None, check.severity, description, facts)


def _failing(entry: str) -> str:
    return f"the table cannot be registered as {entry}"
