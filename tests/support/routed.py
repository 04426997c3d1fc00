"""A router over a bench's table, and the typed tables that it leads to."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kinesis_assets.dagster.derived.typed_rows import RoutedRows, TypedRows, rows_of_router
from kinesis_assets.dagster.settings.routes_settings import RoutesSettings
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.derive.data_files import routes_folder
from kinesis_assets.derive.derivation import Router, Upsert
from support.formats import derived_at, derived_format

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.bench import Bench
    from support.derived import DerivedBench

ORDER = "kind STRING, id INT, at INT, v INT"
KEYED = {"key": ["id"], "order_by": ["at"]}


def event(kind: object, id_: object = 1, at: int = 0, v: int = 0) -> bytes:
    return json.dumps({"kind": kind, "id": id_, "at": at, "v": v}).encode()


@dataclass
class Routed:
    """A router over a bench's table, with a table of orders and one of users.

    Attributes:
        settings: The settings of the router beside those of `routed`.
    """

    bench: Bench
    derived: DerivedBench
    path: Path
    settings: dict[str, Any]

    @property
    def routes(self) -> RoutesSettings:
        given = {
            "name": "events",
            "source": "orders",
            "table": str(self.path / "events"),
            "format": "json",
            "route_by": "kind",
            "routes": [
                {
                    "match": ["placed", "paid"],
                    "name": "orders",
                    "table": str(self.path / "routed"),
                    "schema": ORDER,
                    "select": ["*", "_record.sequence_number AS number"],
                    **KEYED,
                    "on_bad_record": "separate",
                },
                {"match": 7, "name": "users", "table": str(self.path / "users"), "schema": "id STRING"},
            ],
        }
        return RoutesSettings(**given | self.settings)

    def table(self, uri: str, transform: Callable[..., Any], **changes: Any) -> DerivedBench:
        derivation = replace(self.derived.derivation, transform=transform, **changes)
        return replace(self.derived, table=derived_at(uri), derivation=derivation)

    def router(self, **changes: Any) -> DerivedBench:
        settings = self.routes
        rows = partial(rows_of_router, settings)
        return self.table(settings.table, rows, mode=Router(4), partition_by=("route",), **changes)

    def of_route(self, number: int, **changes: Any) -> DerivedBench:
        """The table of a route."""
        settings = self.routes.tables[number]
        router = self.routes.table
        given = {"source": routes_folder(router, settings.routes), "source_format": derived_format(router)}
        return self._typed(RoutedRows(settings, str(settings.schema_)), **given | changes)

    def direct(self, **changes: Any) -> DerivedBench:
        """The same table of orders directly below the raw table."""
        given = self.routes.tables[0]
        settings = TableSettings(
            **{
                name: getattr(given, name)
                for name in ("name", "source", "format", "select", "key", "order_by")
            },
            **{name: getattr(given, name) for name in ("compression", "split", "unnest", "on_bad_record")},
            table=str(self.path / "direct"),
            schema=ORDER,
            only={"kind": ["placed", "paid"]},
        )
        return self._typed(TypedRows(settings, ORDER), **changes)

    def _typed(self, rows: TypedRows, **changes: Any) -> DerivedBench:
        settings = rows.settings
        mode = Upsert(tuple(settings.key), tuple(settings.order_by)) if settings.key else None
        careful = partial(rows.of_table, is_careful=True)
        return self.table(settings.table, rows.of_table, mode=mode, careful=careful, **changes)

    def ingest(self, *payloads: bytes) -> None:
        self.bench.put(*payloads)
        assert not self.bench.run().errors
