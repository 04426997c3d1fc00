"""Interrupts a derivation, in this process, before or after one of its steps.

A SIGKILL would end the Spark session too, which takes seconds to start. An error that nothing handles leaves
the same files and log entries. `faults/test_killed_derivations.py` kills real processes.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from chaos.property.interceptor import Killed
from support.formats import FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CREATING = {
    "delta": ("kinesis_assets.table.delta.opening", "DeltaTable.create"),
    "iceberg": ("pyiceberg.catalog.sql", "SqlCatalog.create_table"),
}
"""The step that creates a table of each format, see `support.formats.FORMAT`: module, and the name in it."""

CHANGING_COLUMNS = {
    "delta": {
        "copy files": ("kinesis_assets.derive.type_widening", "map_in_arrow"),
        "record copies": ("kinesis_assets.derive.type_widening", "write_file"),
        "add columns": ("deltalake.table", "TableAlterer.add_columns"),
    },
    "iceberg": {
        "add columns": ("kinesis_assets.table.iceberg.derived_version", "IcebergDerivedVersion.add_columns"),
    },
}
"""Those that change the columns of a table, likewise."""

COMMITTING = {
    "delta": {
        "commit request": ("kinesis_assets.table.delta.opening", "DeltaTable.create_write_transaction"),
    },
    "iceberg": {
        "write manifests": ("kinesis_assets.table.iceberg.manifests", "NewManifests.following"),
        "write manifest list": ("kinesis_assets.table.iceberg.manifests", "NewManifests.list_of"),
        "commit request": ("kinesis_assets.table.iceberg.version", "IcebergVersion._commit"),
    },
}
"""Those that commit files and an entry, likewise."""

STEPS = {
    "open source": ("kinesis_assets.derive.run", "open_source"),
    "create table": CREATING[FORMAT],
    **CHANGING_COLUMNS[FORMAT],
    "write files": ("kinesis_assets.derive.run", "write"),
    "verify file": ("kinesis_assets.table.commits.commit", "verify"),
    "write entry": ("kinesis_assets.table.store.chain", "write_file"),
    **COMMITTING[FORMAT],
}
"""The steps that read or write, in order."""

COMMIT = ["write files", "write entry", *COMMITTING[FORMAT]]
"""The steps after which a killed run has left something behind."""

MAINTENANCE_OF_FORMAT = {
    "delta": {
        "claim table": ("deltalake.table", "TableAlterer.set_table_properties"),
        "vacuum": ("kinesis_assets.table.delta.opening", "DeltaTable.vacuum"),
        "checkpoint": ("kinesis_assets.table.delta.opening", "DeltaTable.create_checkpoint"),
        "delete old log": ("kinesis_assets.table.delta.opening", "DeltaTable.cleanup_metadata"),
    },
    "iceberg": {
        "add nothing": ("kinesis_assets.table.iceberg.version", "IcebergVersion.add_nothing"),
        "vacuum": ("kinesis_assets.table.maintenance.iceberg_steps", "done_or_left"),
    },
}

MAINTENANCE = {
    "merge files": ("kinesis_assets.derive.maintenance", "rewritten"),
    "replace files": ("kinesis_assets.derive.derived_table", "DerivedSnapshot.replace"),
    **MAINTENANCE_OF_FORMAT[FORMAT],
    "prune": ("kinesis_assets.derive.maintenance", "prune_folder"),
}
"""The steps of a maintenance of a derived table, likewise."""

MOVING = {
    "open merged file": ("kinesis_assets.derive.data_files", "write_new"),
    "open moved file": ("kinesis_assets.derive.maintenance", "write_new"),
    "copy file": ("kinesis_assets.derive.maintenance", "shutil.copyfileobj"),
}
"""The further steps of the maintenance of a table with files outside of their folders, likewise."""

_COMMIT = {name: STEPS[name] for name in ("verify file", "write entry", *COMMITTING[FORMAT])}

REDRIVING = {
    "write redriven rows": ("kinesis_assets.derive.redrive", "write"),
    "write bad records": ("kinesis_assets.derive.redrive", "write_beside"),
    **_COMMIT,
}
"""The steps of a redrive that write. It writes rows first, then the records that are still bad, and then
those that the table of errors removes."""

REMEMBERING = {
    "write files": STEPS["write files"],
    "write deletions": ("kinesis_assets.derive.remembered_deletions", "write_beside"),
    **_COMMIT,
}
"""The steps of a run that remembers deletions which write, in order."""

EXPIRING = {
    "write kept rows": ("kinesis_assets.derive.expiry", "rewritten"),
    **_COMMIT,
}
"""The steps that write when rows expire."""

MOMENTS = ("before", "after")


@contextmanager
def interrupted(
    moment: str, step: str, action: Callable[[], object], nth: int = 1
) -> Iterator[Callable[[], bool]]:
    """Call a function before or after a step. Yields whether that has happened.

    Args:
        step: A name of a step above.
        action: The function. It may pass the step itself, or raise an error.
        nth: The pass of the step, from 1.
    """
    module, path = (STEPS | MAINTENANCE | MOVING | REDRIVING | REMEMBERING | EXPIRING)[step]
    owner, _, name = path.rpartition(".")
    place = attrgetter(owner)(import_module(module)) if owner else import_module(module)
    real, passes = getattr(place, name), 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal passes
        passes += 1
        is_due = passes == nth
        if is_due and moment == "before":
            action()
        result = real(*arguments, **named)
        if is_due and moment == "after":
            action()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, call)
        yield lambda: passes >= nth


def die() -> None:
    """End a derivation as if its process were killed."""
    raise Killed("injected")


def lose_response() -> None:
    """Fail a request, or only its response."""
    raise OSError("injected")


@contextmanager
def killed(moment: str, step: str, nth: int = 1) -> Iterator[None]:
    """Kill the derivation in the context, see `interrupted`."""
    with interrupted(moment, step, die, nth), pytest.raises(Killed):
        yield
