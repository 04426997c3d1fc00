"""The settings of a router, and of the tables that its routes lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003  # pydantic evaluates the annotations
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, create_model, model_validator

from kinesis_assets.dagster.settings.asset_settings import AssetSettings
from kinesis_assets.dagster.settings.catalog_settings import without_name
from kinesis_assets.dagster.settings.derived_settings import DerivedTableSettings
from kinesis_assets.dagster.settings.settings_base import SchemaFrom, Settings
from kinesis_assets.dagster.settings.table_format_settings import DerivedTableFormat
from kinesis_assets.dagster.settings.table_settings import TableSettings, check_compared, require_format
from kinesis_assets.dagster.settings.yaml_model import yaml_model
from kinesis_assets.decoders.formats import find_format
from kinesis_assets.decoders.json_paths import parse_path
from kinesis_assets.derive.policy import ROUTE_COLUMN
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import RECORD
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from kinesis_assets.dagster.settings.check_settings import DerivedChecks

Match = str | int | bool
"""The type of a value by which documents are routed."""


def _check_match(values: Sequence[Any]) -> None:
    if not values:
        raise InvalidInput("match: no value is given; give one, or several in a list")
    for value in values:
        if value == "":
            raise InvalidInput("match: a value is empty, as the route of records without one; give another")
        if not isinstance(value, str | int):
            raise InvalidInput(f"match: {str(value)[:80]!r} is no text, integer, true or false; correct it")


def _schema_of_match() -> dict[str, Any]:
    scalars = ["string", "integer", "boolean"]
    items = {"type": "array", "items": {"type": scalars}}
    return {"anyOf": [*({"type": each} for each in scalars), items]}


def _text(value: Match) -> str:
    """Return the value of the column `route` for a value of `match`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class RoutedTableSettings(TableSettings):
    """The settings of a typed table that consumes some rows of a router."""

    match: Annotated[Any, SchemaFrom(_schema_of_match)] = Field(
        description="Value of the field route_by in the documents of the table, or a list of values: texts, "
        "integers, true or false of JSON.",
        examples=["Order Placed", ["User Renamed", "User Created"]],
    )

    @property
    def values(self) -> list[Match]:
        """The values of `match`."""
        return [*self.match] if isinstance(self.match, list | tuple) else [self.match]

    @property
    def routes(self) -> list[str]:
        """The values of the column `route` of its rows."""
        return list(dict.fromkeys(map(_text, self.values)))

    @property
    def tables(self) -> list[str]:
        """The paths or URIs of its table and, if there is one, that of its errors."""
        return [self.table, *[f"{self.table.rstrip('/')}_errors"] * (self.on_bad_record == "separate")]

    @model_validator(mode="after")
    def _check_upstream(self) -> Self:
        """Accept a format, although there is an upstream table: a router has not decoded its rows."""
        _check_match(self.values)
        return self


_DOCUMENTS = ("format", "registry", "compression", "split", "unnest")

_OF_ROUTER = ("source", *_DOCUMENTS)
"""The settings that a route has from its router."""

_DEFAULTS = ("on_deleted", "group_name", "owners", "tags", "kinds")
"""The settings of a router that a route has too, unless it has its own."""

_NOT_OF_ROUTE = {*_OF_ROUTER, "upstream", "only"}


class RouterTableSettings(DerivedTableSettings):
    """The settings of the table of a router."""

    @property
    def checks_of_table(self) -> DerivedChecks:
        """The checks that the table has, see `DerivedSettings`."""
        return self._parsed_checks.without(["no_duplicates"], "only with a key")


def _schema_of_routes() -> dict[str, Any]:
    entry = yaml_model(RoutedTableSettings).model_json_schema(by_alias=True)
    names = ["match", *(name for name in entry["properties"] if name != "match")]
    properties = {name: entry["properties"][name] for name in names if name not in _NOT_OF_ROUTE}
    required = [name for name in entry["required"] if name in properties]
    items = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "array", "items": items, "minItems": 1}


def _fields(names: Sequence[str]) -> dict[str, Any]:
    found = TableSettings.model_fields
    return {name: (found[name].annotation, copy(found[name])) for name in names}


_TARGET = ("name", "source", "table", "on_deleted", "max_bytes", *DerivedTableFormat.model_fields)

_Router: Any = create_model(
    "_Router",
    __base__=Settings,
    **_fields([*_TARGET, *_DOCUMENTS, *AssetSettings.model_fields, "description", "checks"]),
)


class RoutesSettings(_Router):  # type: ignore[misc]  # its fields are those of a typed table
    """All settings of a router: the fields of the YAML of `KinesisRoutesComponent`."""

    read_by_runs: ClassVar[frozenset[str] | None] = DerivedTableSettings.read_by_runs

    route_by: str = Field(
        description="Path of the field by whose value a document is routed, or of a column of the source "
        "such as _record.partition_key. Write a name with a dot within backticks.",
        examples=["detail-type", "_record.partition_key"],
    )
    routes: Annotated[Sequence[Mapping[str, Any]], SchemaFrom(_schema_of_routes)] = Field(
        min_length=1,
        description="The tables, each with match and the settings of a typed table. The router's source, "
        "format, registry, compression, split and unnest apply to all of them, and by default so do its "
        "on_deleted, group_name, owners, tags, kinds and table_format, and with the same table_format its "
        "keep_snapshots, keep_snapshot_hours, and catalog without its name.",
        examples=[
            [
                {
                    "match": "Order Placed",
                    "name": "orders",
                    "table": "s3://my-lake/orders",
                    "schema": "id BIGINT",
                }
            ]
        ],
    )

    @cached_property
    def router(self) -> RouterTableSettings:
        """The settings of the router's own table."""
        return RouterTableSettings(
            source=self.source,
            table=self.table,
            partition_by=[ROUTE_COLUMN],
            on_deleted=self.on_deleted,
            max_bytes=self.max_bytes,
            checks=self.checks,
            description=self.description,
            **self.of(DerivedTableFormat),
            **self.of(AssetSettings),
        )

    @cached_property
    def tables(self) -> list[RoutedTableSettings]:
        """The settings of the table of each route.

        Raises:
            InvalidInput: One is invalid. The error begins with the place of the route.
        """
        return [self._table(number, route) for number, route in enumerate(self.routes)]

    def _table(self, number: int, route: Mapping[str, Any]) -> RoutedTableSettings:
        if taken := sorted(_NOT_OF_ROUTE & route.keys()):
            raise InvalidInput(
                f"routes[{number}]: {taken[0]}: not in a route, whose documents are those of the router; "
                "remove it"
            )
        inherited = {name: getattr(self, name) for name in (*_OF_ROUTER, *_DEFAULTS)}
        if route.get("table_format", self.table_format) == self.table_format:
            inherited |= self.of(DerivedTableFormat) | {"catalog": without_name(self.catalog)}
        try:
            return RoutedTableSettings(**inherited | {"upstream": self.name} | dict(route))
        except InvalidInput as error:
            is_own = str(error).partition(":")[0] not in _OF_ROUTER
            raise InvalidInput(f"routes[{number}]: {error}" if is_own else str(error)) from None

    @property
    def values(self) -> list[tuple[Match, str]]:
        """The values of all routes, each with that of the column `route`."""
        return [(value, _text(value)) for table in self.tables for value in table.values]

    @model_validator(mode="after")
    def _check_routes(self) -> Self:
        if self.format is None:
            raise InvalidInput("format: required, to decode the documents of the routes")
        _ = self.router.checks_of_table
        format_ = find_format(self.format)
        _refuse_equal(self.name, self.table, self.tables)
        check_compared("route_by", {self.route_by: [value for value, _ in self.values]})
        if parse_path(self.route_by)[0] != RECORD:
            require_format(format_, "route_by", lambda each: each.is_json, " a path in a document")
        if format_.multiplies and (self.split is not None or self.unnest is not None):
            setting = "unnest" if self.split is None else "split"
            raise InvalidInput(
                f"{setting}: not with the format {self.format}, which makes several rows of a document "
                "itself; remove it"
            )
        return self


def _refuse_equal(name: str, table: str, tables: Sequence[RoutedTableSettings]) -> None:
    """Check that no two routes have a value, a name or a table in common, and none the router's own.

    Raises:
        InvalidInput: Two have. The error begins with the place of the second one.
    """
    for setting, router, of_route, instead in (
        ("match", [], lambda each: each.routes, "a document has one route; remove it from one of them"),
        ("name", [name], lambda each: [each.name], "give each table its own"),
        ("table", [TableFolder.at(table).place], _places, "give each asset a table of its own"),
    ):
        owners = dict.fromkeys(router, "the router")
        for number, each in enumerate(tables):
            for value in of_route(each):
                if value in owners:
                    raise InvalidInput(
                        f"routes[{number}]: {setting}: {value!r} is that of {owners[value]} too; {instead}"
                    )
            owners |= dict.fromkeys(of_route(each), f"routes[{number}] ({each.name})")


def _places(table: RoutedTableSettings) -> list[str]:
    return [TableFolder.at(each).place for each in table.tables]
