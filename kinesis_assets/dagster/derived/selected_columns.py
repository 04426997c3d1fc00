"""The columns of a typed table, as far as its settings show them without Spark, and the mistakes in them.

Expressions are not parsed. Of one that is more than a column, a cast or a name behind AS nothing is known
here, and a run refuses its mistakes before it commits.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.decoders.json_paths import parse_path
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER, RECORD, Field, parse_columns, readable
from kinesis_assets.table.partition_field import partition_fields
from kinesis_assets.table.schema import COLUMNS, refusal_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kinesis_assets.dagster.settings.table_settings import TableSettings

_NAME = r"(?:`(?P<{0}_quoted>[^`]+)`|(?P<{0}>[^\W\d]\w*))"
_SIMPLE = re.compile(
    rf"(?P<record>{RECORD}\.)?{_NAME.format('plain')}(?:\s+AS\s+{_NAME.format('alias')})?"
    rf"|(?:TRY_)?CAST\(\s*(?P<cast_record>{RECORD}\.)?{_NAME.format('cast')}\s+AS\s+"
    rf"(?P<type>[A-Za-z_]\w*(?:\s*\([\d\s,]+\))?)\s*\)\s+AS\s+{_NAME.format('cast_alias')}",
    re.IGNORECASE,
)
"""A column that is selected, renamed or cast."""

_NAMED = re.compile(rf".+\sAS\s+{_NAME.format('alias')}", re.IGNORECASE | re.DOTALL)
"""Any other expression with a name."""

_LEADING = re.compile(
    rf"(?:NOT\s+)?{_NAME.format('plain')}\s*(?:[=<>!]|(?:IS|IN|LIKE|BETWEEN|NOT|AND|OR)\b|$)", re.IGNORECASE
)
"""A condition that begins with a column."""

_NO_COLUMN = re.compile(r"(current|local|session)_?\w+|null|true|false|user|not", re.IGNORECASE)
"""Names that are values or functions without parentheses."""

_OTHER = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Selected:
    """An entry of `select`.

    Attributes:
        column: The column or field that it is; None if it is computed.
        of_record: Whether that is a column of `_record`.
        type: The type to which it is cast, as in the entry; None if it is not.
    """

    name: str
    column: str | None = None
    of_record: bool = False
    type: str | None = None


def selected(expression: str) -> Selected | None:
    """Return an entry of `select`; None if the name of its column is not known."""
    match = _SIMPLE.fullmatch(expression.strip())
    if match is None:
        match = _NAMED.fullmatch(expression.strip())
        return None if match is None else Selected(_group(match, "alias") or "")
    column = _group(match, "plain", "cast") or ""
    of_record = bool(match["record"] or match["cast_record"])
    return Selected(_group(match, "alias", "cast_alias") or column, column, of_record, match["type"])


def columns_of_fields(select: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns that are a field as it is, renamed or cast, by the field's name in lower case."""
    is_whole = any(each.strip() == "*" for each in select)
    names: dict[str, list[str]] = {}
    for expression in select:
        if (found := selected(expression)) is not None and found.column is not None and not found.of_record:
            own = [found.column] if is_whole else []
            names.setdefault(found.column.lower(), own).append(found.name)
    return names


def _group(match: re.Match[str], *names: str) -> str | None:
    return next((match[each] for name in names for each in (f"{name}_quoted", name) if match[each]), None)


def check_columns(settings: TableSettings, fields: Sequence[Field] | None) -> None:
    """Check the settings of a typed table that name columns, as far as these are known.

    Args:
        fields: The fields of the records; None if only runs know them, or if rows are not decoded.

    Raises:
        InvalidInput: One is invalid. Its message begins with the name of the setting.
    """
    if any(field.name.lower() == RECORD for field in fields or ()):
        raise InvalidInput(f"schema: no field can be called {RECORD}, which has the columns of the source")
    if settings.unnest is not None and fields is not None:
        _check_array(settings.unnest, fields)
    for setting in ("select", "where", "delete_where"):
        expressions = settings.select if setting == "select" else [getattr(settings, setting)]
        if any(each is not None and not each.strip() for each in expressions):
            raise InvalidInput(f"{setting}: an expression is empty; give one, or remove it")
    scope = _Scope.of(settings, fields)
    scope.check_entries(settings.select)
    if settings.where is not None:
        scope.check_condition("where", settings.where)
    table = _columns(settings, scope)
    if table is None:
        return
    _check_uses(settings, table)
    if settings.delete_where is not None:
        _Scope({name.lower(): name for name in table}, ()).check_condition(
            "delete_where", settings.delete_where
        )


def _check_array(path: str, fields: Sequence[Field]) -> None:
    """Check that the schema has the path of the array that is unnested."""
    inner, found = fields, ""
    for name in parse_path(path):
        field = next((each for each in inner if each.name == name), None)
        if field is None:
            raise InvalidInput(
                f"unnest: {path!r}: the schema has no field {name}{found and f' in {found}'}; add it with "
                f"the type of an element, as in {readable(name)} STRUCT<id: STRING>, or correct the path"
            )
        is_struct = field.type.startswith("STRUCT<")
        inner, found = parse_columns(field.type) if is_struct else [], f"{found}.{name}".removeprefix(".")


@dataclass(frozen=True, slots=True)
class _Scope:
    """The columns that expressions see.

    Attributes:
        types: By name in lower case, their types; None if only runs know them.
        record: The columns of `_record`, in lower case.
        fields: The columns that * stands for; None if only runs know them.
    """

    types: Mapping[str, str] | None
    record: Collection[str]
    fields: Sequence[Field] | None = None

    @classmethod
    def of(cls, settings: TableSettings, fields: Sequence[Field] | None) -> _Scope:
        raw = [Field(column.name, column.type.upper()) for column in COLUMNS]
        record = Field(RECORD, "STRUCT")
        format_ = settings.format_found
        if format_ is not None and format_.has_schema_id:
            raw.append(Field("schema_id", "STRING"))
        if settings.multiplies:
            raw.append(Field(DOCUMENT_NUMBER, "INT"))
        if settings.format is None:
            fields = None if settings.upstream is not None else raw
            return cls(None if fields is None else _by_name([*fields, record]), ["error"], fields)
        types = None if fields is None else _by_name([*fields, *raw, record])
        return cls(types, _by_name(raw), fields)

    def check_entries(self, select: Sequence[str]) -> None:
        """Check the columns in the entries of `select`. An entry also sees the names of those before it."""
        names: set[str] = set()
        for expression in select:
            if expression.strip() == "*":
                continue
            if (found := selected(expression)) is None:
                return  # it may define any name
            known = self.record if found.of_record else self.types
            if not (found.column is None or known is None or _is_known(found.column, {*known, *names})):
                of = f" of {RECORD}" if found.of_record else " or field"
                raise InvalidInput(f"select: {expression!r}: no column{of} has the name {found.column}")
            names.add(found.name.lower())

    def check_condition(self, setting: str, condition: str) -> None:
        match = _LEADING.match(condition.strip())
        name = None if match is None else _group(match, "plain")
        if name is not None and self.types is not None and not _is_known(name, self.types):
            raise InvalidInput(
                f"{setting}: {condition!r}: there is no column with the name {name}; the columns are "
                f"{', '.join(self.types)}"
            )

    def type_of(self, entry: Selected) -> str | None:
        """Return the type of a column that is selected; None if it is not known."""
        if entry.type is not None:
            try:
                return parse_columns(f"column {entry.type}")[0].type
            except InvalidInput:  # Spark may have it
                return None
        if entry.column is None or entry.of_record or self.types is None:
            return None
        return self.types.get(entry.column.lower())


def _columns(settings: TableSettings, scope: _Scope) -> dict[str, str | None] | None:
    """Return the columns of the table with their types; None if not all of them are known."""
    setting = "select" if settings.select else "schema"
    found: list[tuple[str, str | None]] = []
    is_complete = True
    for expression in settings.select or ("*",):
        entry = selected(expression)
        if expression.strip() == "*" and scope.fields is not None:
            found += [(field.name, field.type) for field in scope.fields]
        elif entry is not None:
            found.append((entry.name, scope.type_of(entry)))
        else:
            is_complete = False
    counts = Counter(name.lower() for name, _ in found)
    raw = {*(column.name for column in COLUMNS), *[DOCUMENT_NUMBER] * settings.multiplies}
    raw -= {field.name.lower() for field in scope.fields or ()}
    passed_on = raw & {each.strip().strip("`").lower() for each in settings.select}
    for name, _ in found:
        if counts[name.lower()] > 1:
            raise InvalidInput(
                f"{setting}: several columns are called {name}, since case makes no difference; name them "
                "with AS"
            )
        refusal = refusal_of(name)
        if name.lower() == RECORD:
            refusal = "is that of the columns of the source"
        elif name.lower() in settings.keeping and name.lower() not in passed_on:
            refusal = (
                "is that of a column that keeps a record which cannot be decoded "
                f"({', '.join(settings.keeping)})"
            )
        if refusal is not None:
            raise InvalidInput(
                f"{setting}: no column can be called {name!r}: the name {refusal}; select it under another "
                f"name, as in {readable(name)} AS my_{_OTHER.sub('_', name).strip('_')}"
            )
    found += [(name, None) for name in settings.keeping if name not in counts]
    return dict(found) if is_complete else None


def _check_uses(settings: TableSettings, table: Mapping[str, str | None]) -> None:
    """Check the settings that name columns of the table."""
    for setting in ("key", "order_by"):
        for name in getattr(settings, setting):
            _check_use(setting, name, table)
    for field in partition_fields(settings.partition_by):
        _check_use("partition_by", field.column, table)
        kind = table[field.column]
        if kind not in (None, "VARIANT") and (refusal := field.refusal_of(kind)) is not None:
            raise InvalidInput(f"partition_by: {field.column} has the type {kind}; for {field} {refusal}")
    if settings.retention_column is not None:
        _check_use("retention_column", settings.retention_column, table)


def _check_use(setting: str, name: str, table: Mapping[str, str | None]) -> None:
    """Check that a setting may name a column of the table."""
    if name not in table:
        same = [each for each in table if each.lower() == name.lower()]
        hint = f"write it as {same[0]}" if same else f"its columns are {', '.join(table)}"
        raise InvalidInput(f"{setting}: the table has no column {name}; {hint}")
    kind = table[name]
    if kind is None or kind == "VARIANT":  # which is text in the table
        return
    if kind.startswith(("ARRAY", "MAP", "STRUCT")):
        raise InvalidInput(
            f"{setting}: {name} has the type {kind}, whose values cannot be compared; use its parts"
        )


def _by_name(fields: Sequence[Field]) -> dict[str, str]:
    """Return the types of columns by name in lower case. The first one with a name hides the others."""
    types: dict[str, str] = {}
    for field in fields:
        types.setdefault(field.name.lower(), field.type)
    return types


def _is_known(name: str, known: Collection[str]) -> bool:
    return name.lower() in known or _NO_COLUMN.fullmatch(name) is not None
