"""Register a table in the Data Catalog: create its entry, or replace one that is its own and is outdated.

The entry is a mirror of the table and never the truth. Of two processes that register a table at once, the
one that has read the later version of the table wins: the other finds that version in the entry, or its
replacement is refused and it reads the entry again.

What was done is recorded with the table, for the check, so that a registered table is compared with its entry
only at times. A failed registration is repeated after a while.
"""

from __future__ import annotations

import logging
import threading
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from kinesis_assets.errors import CatalogFailed, KinesisAssetsError
from kinesis_assets.table.run_files.states import CatalogState, read_catalog_state, write_catalog_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.operations.catalog.entry import Entry
    from kinesis_assets.operations.catalog.glue_catalog import GlueCatalog
    from kinesis_assets.table.stored_table import StoredTable

_log = logging.getLogger(__name__)

_ATTEMPTS = 3
"""Attempts, if others change the entry first."""

WAYS_OUT = "Use another database or name, or replace it with `kinesis-assets catalog register --force`"
"""The advice about an entry that belongs to somebody else."""


class Done(StrEnum):
    """What was done to an entry."""

    NOTHING = "registered"
    """It had what the table has."""
    CREATED = "created"
    REPLACED = "updated"


def register(catalog: GlueCatalog, entry: Entry, *, force: bool = False) -> Done:
    """Make the entry of a table that of its newest version.

    Args:
        force: Replace the entry also if somebody else or a later version of the table made or changed it.

    Raises:
        CatalogFailed: A call failed; or the entry belongs to somebody else, and was left as it is.
    """
    for _ in range(_ATTEMPTS):
        found = catalog.find(entry.database, entry.name)
        if found is None:
            if catalog.create(entry):
                return Done.CREATED
            continue
        refusal = entry.refusal_to_replace(found)
        if refusal is None and entry.is_in(found, or_later=not force):
            return Done.NOTHING
        if refusal is not None and not force:
            raise CatalogFailed(f"{refusal}, so it was left as it is", advice=WAYS_OUT)
        if catalog.replace(entry, found):
            return Done.REPLACED
    raise CatalogFailed(f"others change the entry: it was not replaced in {_ATTEMPTS} attempts")


def register_and_record(
    catalog: GlueCatalog, table: StoredTable, entry: Entry, *, force: bool = False
) -> Done:
    """Register a table as `register` does, and record that for the check."""
    now = table.clock.time()
    done = register(catalog, entry, force=force)
    before = CatalogState(entry=str(entry))
    _recorded(table, before, before.registered_at(now, entry.content))
    return done


SECONDS = 5.0
"""The time for the registrations of a tick of the sensor, or of a commit of a run, together."""


class Kept(NamedTuple):
    """The state of an entry, and whether it has begun to fail, fails for another reason, or is well again."""

    state: CatalogState
    is_news: bool


class Registrar:
    """Keeps the entries of tables those of the tables, within a time. It never raises.

    Whatever the service does, a tick of the sensor must end within a minute, and a run must go on. So calls
    are made in a thread, which is left behind if it takes longer.

    Args:
        seconds: The time for all of its calls together.
    """

    def __init__(self, clock: Clock, seconds: float = SECONDS) -> None:
        self._clock = clock
        self._left = seconds

    def keep(
        self,
        table: StoredTable,
        name: str,
        entry_of_table: Callable[[], Entry],
        open_catalog: Callable[[], GlueCatalog],
    ) -> Kept:
        """Register a table if that is due, and return the state of its entry.

        Args:
            name: The database and the name of the entry.
            entry_of_table: Returns the entry that it should have, or raises `CatalogFailed`.
        """
        now = self._clock.time()
        try:
            before = read_catalog_state(table, name)
        except OSError as error:
            state = CatalogState(entry=name).after_failure(f"its state cannot be read: {error}", now)
            return Kept(state, is_news=False)
        try:
            entry = entry_of_table()
        except CatalogFailed as error:
            is_due = before.is_due(None, now)
            return _recorded(table, before, before.failed_at(now, error) if is_due else before)
        if not before.is_due(entry.content, now) or self._left <= 0:
            return Kept(before, is_news=False)
        failure = self._within(lambda: register(open_catalog(), entry))
        if failure is None:
            return _recorded(table, before, before.registered_at(now, entry.content))
        return _recorded(table, before, before.failed_at(now, failure))

    def _within(self, work: Callable[[], object]) -> Exception | None:
        """Do some work within the time that is left, and return why it failed; None if it did not."""
        failures: list[Exception] = []
        done = threading.Event()

        def attempt() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  # no run may fail, whatever happens
                is_known = isinstance(error, KinesisAssetsError)
                failures.append(error if is_known else CatalogFailed(f"{type(error).__name__}: {error}"))
            finally:
                done.set()

        began = self._clock.monotonic()
        threading.Thread(target=attempt, name="registration", daemon=True).start()
        self._clock.wait(done, self._left)
        self._left -= self._clock.monotonic() - began
        if not done.is_set():
            return CatalogFailed("AWS Glue, or AWS STS for its role, did not answer in time")
        return failures[0] if failures else None


def _recorded(table: StoredTable, before: CatalogState, after: CatalogState) -> Kept:
    """Record the state of an entry, and return it."""
    if after != before:
        try:
            write_catalog_state(table, after)
        except OSError as error:
            _log.warning("table %s: the state of its entry cannot be written: %s", table.uri, error)
    return Kept(after, is_news=after.error != before.error)
