"""The owner and the definition of a derived table, which each of its commits records.

They are in the commit entry, and not in a property of the table: an entry is committed with the rows
that it describes, through a compare-and-set, and neither a restore nor an overwrite of the table reverts it.
A commit of an older release records none, and the next one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.derive.changes import Rollup
from kinesis_assets.derive.derived_table import Definition, Kind

if TYPE_CHECKING:
    from kinesis_assets.derive.derived_table import DerivedCommit
    from kinesis_assets.derive.upsert import Upsert


def definition_of(owner: str | None, mode: Upsert | Rollup | None) -> Definition:
    """Return the definition of a table.

    Args:
        owner: The key of its asset; None if no asset runs it.
        mode: How rows replace others; None if they are appended.
    """
    if mode is None:
        return Definition(owner=owner, kind=Kind.APPEND)
    if isinstance(mode, Rollup):
        return Definition(owner=owner, kind=Kind.ROLLUP, key=mode.by)
    return Definition(owner=owner, kind=Kind.UPSERT, key=mode.key)


def continued(table: str, before: DerivedCommit | None, definition: Definition) -> Definition:
    """Return the definition that the next commit of a table records.

    Args:
        table: The table's URI, for errors.
        before: The table's newest commit; None if there is none.
        definition: The definition with which the next commit is computed.

    Raises:
        TableOfAnotherSource: The table belongs to another asset.
        TableUnsuitable: Its rows were computed with another definition.
    """
    recorded = None if before is None else before.definition
    if recorded is None:
        return definition
    recorded.check_owner(table, definition.owner)
    recorded.check_same_table(table, definition)
    return msgspec.structs.replace(definition, owner=definition.owner or recorded.owner)
