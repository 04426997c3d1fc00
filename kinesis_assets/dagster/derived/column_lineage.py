"""The column lineage of a typed table, as far as its settings show it without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.derived.selected_columns import selected
from kinesis_assets.schemas.ddl import KEEPING
from kinesis_assets.table.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.dagster.settings.table_settings import TableSettings
    from kinesis_assets.schemas.ddl import Field

_RAW = frozenset(column.name for column in COLUMNS)
_KEPT = {name: "data" if name == "error" else name for name in KEEPING}


def column_lineage(
    settings: TableSettings, fields: Sequence[Field] | None, raw: dg.AssetKey
) -> dg.TableColumnLineage | None:
    """Return from which columns of the source those of a typed table are, where that is known.

    Args:
        settings: The settings of the table.
        fields: The fields of the records; None if they are not known.
        raw: The key of the raw table of its stream, which is its source unless the settings name another one.

    Returns:
        The lineage; None if it is known of no column.
    """
    names = [field.name for field in fields or ()]
    sources: dict[str, str] = {}
    for expression in settings.select or (["*"] if settings.format else []):
        if expression.strip() == "*":
            sources |= dict.fromkeys(names, "data")
        elif (found := selected(expression)) is not None and found.column is not None:
            is_raw = found.of_record or (found.column in _RAW and found.column not in names)
            sources[found.name] = found.column if is_raw or settings.format is None else "data"
    if settings.format and settings.on_bad_record == "keep":
        sources |= _KEPT
    if settings.upstream is not None:
        return _lineage(sources, dg.AssetKey.from_user_string(settings.upstream)) if sources else None
    sources = {name: column for name, column in sources.items() if column in _RAW}
    return _lineage(sources, raw) if sources else None


def lineage_of_errors(raw: dg.AssetKey) -> dg.TableColumnLineage:
    """Return the lineage of a table of errors, below the raw table with the given key."""
    passed_on = {name: name for name in sorted(_RAW - {"stream", "batch_id", "error"})}
    return _lineage(passed_on | {"error": "data"}, raw)


def _lineage(sources: Mapping[str, str], upstream: dg.AssetKey) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {name: [dg.TableColumnDep(upstream, column)] for name, column in sources.items()}
    )
