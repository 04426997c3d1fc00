"""The transformations of a router, and of the typed tables that consume its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.derived.typed_rows import TypedRows, document_steps
from kinesis_assets.derive.policy import ROUTE_COLUMN
from kinesis_assets.table.schema import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kinesis_assets.dagster.settings.routes_settings import RoutesSettings
    from kinesis_assets.derive.derivation import CheckedRows

_RECORD = tuple(column.name for column in COLUMNS)


@dataclass(frozen=True, slots=True)
class RouterRows:
    """The transformation of a router."""

    settings: RoutesSettings

    def of_router(self, new: DataFrame) -> CheckedRows:
        """Return rows of the router from new rows of a raw table."""
        from kinesis_assets.decoders.routing import Routing  # noqa: PLC0415  # loads Arrow
        from kinesis_assets.derive.data_files import COMMIT_ORDER_COLUMN  # noqa: PLC0415  # as above
        from kinesis_assets.derive.derivation import CheckedRows  # noqa: PLC0415  # loads PySpark
        from kinesis_assets.derive.row_order import ORDER_COLUMN  # noqa: PLC0415  # as above

        settings = self.settings
        routing = Routing(
            settings.route_by,
            settings.values,
            columns=_RECORD,
            order=ORDER_COLUMN,
            order_as=COMMIT_ORDER_COLUMN,
            route=ROUTE_COLUMN,
        )
        steps = document_steps(settings.compression, settings.split, settings.unnest)
        return CheckedRows(routing.routed(new, *steps), "error")


class RoutedRows(TypedRows):
    """The transformations of a typed table that consumes rows of a router, which are documents."""

    __slots__ = ()

    def _decoded(self, new: DataFrame) -> DataFrame:
        from kinesis_assets.decoders import decode  # noqa: PLC0415  # loads PySpark
        from kinesis_assets.decoders.routing import records_of  # noqa: PLC0415  # as above

        is_split = self.settings.split is not None or self.settings.unnest is not None
        return decode(self._decoder())(records_of(new, _RECORD, with_documents=is_split))


def lineage_of_router(raw: dg.AssetKey) -> dg.TableColumnLineage:
    """Return the lineage of a router, below the raw table with the given key."""
    sources = {name: name for name in _RECORD} | {ROUTE_COLUMN: "data"}
    return dg.TableColumnLineage({name: [dg.TableColumnDep(raw, column)] for name, column in sources.items()})
