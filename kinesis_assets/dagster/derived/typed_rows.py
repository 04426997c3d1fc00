"""The transformations of a typed table from records to its rows, and the lineage of its columns.

Also those of a router, and of the typed tables that consume its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.derived.derived_asset import check_of_share, refuse_bad_records
from kinesis_assets.dagster.derived.selected_columns import columns_of_fields, selected
from kinesis_assets.decoders.decoder import DecoderSettings
from kinesis_assets.decoders.formats import UNCHANGED, find_format
from kinesis_assets.decoders.json_paths import Only, Unnest
from kinesis_assets.decoders.split import Split
from kinesis_assets.derive.policy import ROUTE_COLUMN
from kinesis_assets.errors import InvalidInput, RegistryCallFailed
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER
from kinesis_assets.table.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from kinesis_assets.dagster.settings.routes_settings import RoutesSettings
    from kinesis_assets.dagster.settings.table_settings import DecodingSettings, TableSettings
    from kinesis_assets.decoders.decoder import Decoder
    from kinesis_assets.decoders.formats import Format
    from kinesis_assets.derive.data_files import RecordCounts
    from kinesis_assets.derive.derivation import CheckedRows
    from kinesis_assets.schemas.ddl import Field


_RAW = tuple(column.name for column in COLUMNS)

_OF_DATA = {"error", DOCUMENT_NUMBER}


@dataclass(frozen=True, slots=True)
class TypedRows:
    """The transformations of a typed table.

    Attributes:
        schema: The schema of the records, see `DecoderSettings`. One of a registry is read each time that
            rows are transformed.
        file: The content of its file, see `DecoderSettings`.
    """

    settings: TableSettings
    schema: str
    file: bytes = b""

    def of_table(self, new: DataFrame, *, is_careful: bool = False) -> DataFrame | CheckedRows:
        """Return rows of the table from new rows of its source.

        Args:
            is_careful: Whether records for which an expression fails are found, and are bad records. That
                takes jobs. Otherwise the job that computes the rows fails.
        """
        from kinesis_assets.decoders.projection import MARK, Projection, errors, reasons  # noqa: PLC0415  # loads PySpark
        from kinesis_assets.derive.data_files import BATCH_COLUMN  # noqa: PLC0415  # loads Arrow
        from kinesis_assets.derive.derivation import CheckedRows  # noqa: PLC0415  # loads PySpark

        settings = self.settings
        projection = Projection(self._select, settings.where, settings.key)
        try:
            if settings.format is None:
                return projection.of_columns(new.drop(BATCH_COLUMN))
            decoded, check = self._decoded(new), self._check()
            if is_careful:
                decoded = projection.with_failures(decoded)
            separate = errors(decoded) if settings.on_bad_record == "separate" else None
            # Rows that are not one for each record do not say how many records there are.
            is_counted_apart = not projection.is_row_by_row and not (check is None and separate is None)
            records = reasons(decoded) if is_counted_apart else None
            if settings.on_bad_record == "keep":
                return CheckedRows(projection.kept(decoded), "error", check=check, records=records)
            if projection.is_row_by_row:
                marked = projection.marked(decoded)
                return CheckedRows(marked, MARK, keeps_errors=False, check=check, separate=separate)
            return CheckedRows(projection.good(decoded), check=check, records=records, separate=separate)
        except (InvalidInput, RegistryCallFailed) as error:
            raise type(error)(f"table {settings.table}: {error}") from None

    def of_errors(self, separate: DataFrame) -> CheckedRows:
        """Return rows of the table of errors from the records that the table has separated."""
        from kinesis_assets.decoders.projection import errors  # noqa: PLC0415  # loads PySpark
        from kinesis_assets.derive.bad_records import of_separated  # noqa: PLC0415  # loads PySpark
        from kinesis_assets.derive.derivation import CheckedRows  # noqa: PLC0415  # loads PySpark

        is_added = {"schema_id": self._format.has_schema_id, DOCUMENT_NUMBER: self.settings.multiplies}
        other = [name for name, added in is_added.items() if not added]
        return CheckedRows(errors(of_separated(separate), other), error_column="error")

    def _check(self) -> Callable[[RecordCounts], None] | None:
        """Return the check of the numbers of records; None if there is no limit."""
        table = self.settings.table
        if self.settings.on_bad_record != "fail":
            return check_of_share(table, self.settings.max_bad_share)
        instead = "set on_bad_record to keep or separate"
        return partial(refuse_bad_records, table, 0.0, "on_bad_record is fail", instead)

    @property
    def _select(self) -> Sequence[str]:
        """The entries of `select`, and the column that says which values upserts leave as they are."""
        select = self.settings.select
        changes = None if self.settings.format is None else self._format.changes
        if changes is None or UNCHANGED not in changes.columns or not (select and self.settings.key):
            return select
        names = {found.name for each in select if (found := selected(each)) is not None}
        is_there = UNCHANGED.name in names or any(each.strip() == "*" for each in select)
        return select if is_there else [*select, UNCHANGED.name]

    def _decoded(self, new: DataFrame) -> DataFrame:
        from kinesis_assets.decoders import decode  # noqa: PLC0415  # loads PySpark

        settings = self.settings
        steps = _document_steps(settings)
        if settings.only:
            changes = self._format.changes
            steps.append(Only(settings.only, () if changes is None else changes.tombstones))
        return decode(*steps, self._decoder())(new)

    def _decoder(self) -> Decoder:
        message = self.settings.message
        stored_as = columns_of_fields(self.settings.select)
        fields = {column: field for field, columns in stored_as.items() for column in columns}
        settings = DecoderSettings(
            self.schema,
            self.settings.registered_schema,
            self.settings.registry,
            tuple(fields.get(column, column) for column in self.settings.key),
            stored_as=stored_as,
            file=self.file,
            message="" if message is None else message.message,
        )
        decoder: Decoder = self._format.load().from_settings(settings)
        return decoder

    @property
    def _format(self) -> Format:
        return find_format(str(self.settings.format))


def _document_steps(settings: DecodingSettings | RoutesSettings) -> list[Decoder]:
    """Return the steps that make documents of a record."""
    from kinesis_assets.decoders.compression import COMPRESSIONS  # noqa: PLC0415  # loads Arrow

    steps: list[Decoder] = []
    if settings.compression is not None:
        steps.append(COMPRESSIONS[settings.compression]())
    if settings.split is not None:
        steps.append(Split(settings.split))
    if settings.unnest is not None:
        steps.append(Unnest(settings.unnest))
    return steps


def rows_of_router(settings: RoutesSettings, new: DataFrame) -> CheckedRows:
    """Return rows of a router from new rows of a raw table."""
    from kinesis_assets.decoders.routing import Routing  # noqa: PLC0415  # loads Arrow
    from kinesis_assets.derive.data_files import COMMIT_ORDER_COLUMN  # noqa: PLC0415  # as above
    from kinesis_assets.derive.derivation import CheckedRows  # noqa: PLC0415  # loads PySpark
    from kinesis_assets.derive.row_order import ORDER_COLUMN  # noqa: PLC0415  # as above

    routing = Routing(
        settings.route_by,
        settings.values,
        columns=_RAW,
        order=ORDER_COLUMN,
        order_as=COMMIT_ORDER_COLUMN,
        route=ROUTE_COLUMN,
    )
    return CheckedRows(routing.routed(new, *_document_steps(settings)), "error")


class RoutedRows(TypedRows):
    """The transformations of a typed table that consumes rows of a router, which are documents."""

    __slots__ = ()

    def _decoded(self, new: DataFrame) -> DataFrame:
        from kinesis_assets.decoders import decode  # noqa: PLC0415  # loads PySpark
        from kinesis_assets.decoders.routing import records_of  # noqa: PLC0415  # as above

        is_split = self.settings.split is not None or self.settings.unnest is not None
        return decode(self._decoder())(records_of(new, _RAW, with_documents=is_split))


def column_lineage(settings: TableSettings, fields: Sequence[Field] | None) -> dg.TableColumnLineage | None:
    """Return from which columns of the source those of a typed table are; None if that is known of none.

    Args:
        fields: The fields of the records; None if they are not known.
    """
    names = [field.name for field in fields or ()]
    hidden = {name.lower() for name in names}
    sources: dict[str, str] = {}
    for expression in settings.select or (["*"] if settings.format else []):
        if expression.strip() == "*":
            sources |= dict.fromkeys(names, "data")
        elif (found := selected(expression)) is not None and found.column is not None:
            column = found.column.lower()  # as in a raw table; case makes no difference to Spark
            if settings.format is None:
                sources[found.name] = column if settings.upstream is None else found.column
            else:
                is_raw = found.of_record or (column in _RAW and column not in hidden)
                sources[found.name] = column if is_raw else "data"
    sources |= {name: "data" if name in _OF_DATA else name for name in settings.keeping}
    if settings.upstream is None:
        sources = {name: column for name, column in sources.items() if column in _RAW}
    return _lineage(sources, settings.upstream_key) if sources else None


def lineage_of_errors(source: dg.AssetKey) -> dg.TableColumnLineage:
    """Return the lineage of a table of errors, below the raw table or the router with the given key."""
    passed_on = {name: name for name in sorted({*_RAW} - {"stream", "batch_id", "error"})}
    return _lineage(passed_on | {"error": "data"}, source)


def lineage_of_router(raw: dg.AssetKey) -> dg.TableColumnLineage:
    """Return the lineage of a router, below the raw table with the given key."""
    sources = {name: name for name in _RAW} | {ROUTE_COLUMN: "data"}
    return _lineage(sources, raw)


def _lineage(sources: Mapping[str, str], upstream: dg.AssetKey) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {name: [dg.TableColumnDep(upstream, column)] for name, column in sources.items()}
    )
