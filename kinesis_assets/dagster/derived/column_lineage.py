"""The column lineage of a typed table, as far as its settings show it without Spark."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.schemas.ddl import KEEPING, RECORD
from kinesis_assets.table.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.dagster.settings.table_settings import TableSettings

_NAME = r"(?:`(?P<{0}_quoted>[^`]+)`|(?P<{0}>[A-Za-z_]\w*))"
_TYPE = r"[A-Za-z_]\w*(?:\s*\([\d\s,]+\))?"
_SIMPLE = re.compile(
    rf"\s*(?P<record>{RECORD}\.)?{_NAME.format('plain')}(?:\s+AS\s+{_NAME.format('alias')})?\s*"
    rf"|\s*(?:TRY_)?CAST\(\s*(?P<cast_record>{RECORD}\.)?{_NAME.format('cast')}\s+AS\s+{_TYPE}\s*\)"
    rf"\s+AS\s+{_NAME.format('cast_alias')}\s*",
    re.IGNORECASE,
)
"""A column that is selected, renamed or cast."""

_RAW = frozenset(column.name for column in COLUMNS)
_KEPT = {name: "data" if name == "error" else name for name in KEEPING}


def column_lineage(settings: TableSettings, schema: str, raw: dg.AssetKey) -> dg.TableColumnLineage | None:
    """Return from which columns of the source those of a typed table are, where that is known.

    Args:
        settings: The settings of the table.
        schema: The schema of the records, as `TypedRows` has it.
        raw: The key of the raw table of its stream, which is its source unless the settings name another one.

    Returns:
        The lineage; None if it is known of no column.
    """
    fields = _field_names(schema) if settings.format else ()
    sources: dict[str, str] = {}
    for expression in settings.select or (["*"] if settings.format else []):
        if expression.strip() == "*":
            sources |= dict.fromkeys(fields, "data")
        elif (found := _simple(expression)) is not None:
            name, column, of_record = found
            is_raw = of_record or (column in _RAW and column not in fields)
            sources[name] = column if is_raw or settings.format is None else "data"
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


def _simple(expression: str) -> tuple[str, str, bool] | None:
    """Return a column, the one that it is from, and whether that is in `_record`; None if it is computed."""
    match = _SIMPLE.fullmatch(expression)
    if match is None:
        return None
    group = match.groupdict()
    column = next(group[name] for name in _names("plain", "cast") if group[name])
    alias = next((group[name] for name in _names("alias", "cast_alias") if group[name]), column)
    return alias, column, bool(group["record"] or group["cast_record"])


def _names(*names: str) -> Iterator[str]:
    for name in names:
        yield from (name, f"{name}_quoted")


def _field_names(schema: str) -> Sequence[str]:
    """Return the names of the top-level fields of DDL or of an Avro schema."""
    if schema.lstrip().startswith("{"):
        return [str(field["name"]) for field in json.loads(schema).get("fields", ())]
    names = []
    depth, start = 0, 0
    for index, letter in enumerate([*schema, ","]):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            if match := re.match(rf"\s*{_NAME.format('field')}[\s:]", schema[start:index]):
                names.append(match["field_quoted"] or match["field"])
            start = index + 1
    return names
