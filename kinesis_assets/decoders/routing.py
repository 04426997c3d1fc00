"""The rows of a router: documents of records with the value of a field by which other tables consume them.

A router decodes nothing but that field. Its rows have the columns of the records of a raw table, the place of
each document in its record, if records are split, and the order that records have in the raw table. So the
rows of a typed table are the same below its partition of a router and below the raw table itself.

Spark tasks import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kinesis_assets.decoders.decoder import INVALID_JSON, Decoding, Undecodable
from kinesis_assets.decoders.json_paths import comparable, comparable_of, parse_path, value_reader
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER, RECORD
from kinesis_assets.spark.arrow_steps import map_in_arrow
from kinesis_assets.spark.carried_column import map_each_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from kinesis_assets.decoders.decoder import Decoder
    from kinesis_assets.decoders.json_paths import Scalar

_VALUE = "value"
"""The column that `decode` adds."""

_KNOWN_VALUES = 4096
"""The maximum number of different values that a task remembers."""

_KNOWN_BYTES = 1024
"""The maximum size of each: a value may be as large as a record."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The field by which documents are routed.

    Attributes:
        path: Its path in a document; or `_record.<name>`, a column of the source.
        routes: Its values, each with that of the column *route*, which is null for others.
        columns: The columns of the source that rows keep, among them all that `decode` needs.
        order: A column of the source, which rows have under the name *order_as*.
    """

    path: str
    routes: Sequence[tuple[Scalar, str]]
    columns: Sequence[str]
    order: str
    order_as: str
    route: str

    def routed(self, rows: DataFrame, *steps: Decoder) -> DataFrame:
        """Return the rows of a router.

        Args:
            steps: What makes documents of records, see `decode`. Their rows have the documents as `data`.
        """
        from pyspark.sql.types import StringType, StructType  # noqa: PLC0415  # tasks do not need it

        from kinesis_assets.decoders.chain import decode  # noqa: PLC0415  # as above

        names = [*self.columns]
        if steps:
            rows = decode(*steps)(rows)
            names += [name for name in rows.columns if name == DOCUMENT_NUMBER]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return self.batches(batches, names, are_decoded=bool(steps))

        fields = [rows.schema[name] for name in names]
        schema = StructType(fields).add(self.order_as, StringType()).add(self.route, StringType())
        return map_in_arrow(rows, run, schema)

    def batches(
        self, batches: Iterator[pa.RecordBatch], names: Sequence[str], *, are_decoded: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a router.

        Args:
            are_decoded: Whether a column has the documents. Otherwise they are the data of the records.
        """
        routes = self._by_column if parse_path(self.path)[0] == RECORD else self._by_field()
        for batch in batches:
            columns = {name: batch[name] for name in names}
            if are_decoded:
                columns["data"] = pc.coalesce(batch[_VALUE], batch["data"])
            columns |= {self.order_as: batch[self.order]} | routes(columns)
            yield pa.RecordBatch.from_pydict(columns)

    def _by_column(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the column with the routes of rows by a column of the source."""
        _, name = parse_path(self.path)
        values = columns[name]
        place = pc.index_in(values, value_set=pa.array([value for value, _ in self.routes], values.type))
        routes = pa.array([route for _, route in self.routes], pa.string()).take(place)
        return {self.route: pc.if_else(pc.is_null(columns["error"]), routes, pa.scalar(None, pa.string()))}

    def _by_field(self) -> Callable[[Mapping[str, pa.Array]], dict[str, pa.Array]]:
        """Return the function that returns the routes of rows by a field, and the errors of the rows."""
        read = value_reader(self.path)
        routes: dict[Any, str] = {comparable(value): route for value, route in self.routes}

        def route_of(value: bytes) -> str | None:
            return routes.get(comparable_of(value))

        known_route_of = lru_cache(maxsize=_KNOWN_VALUES)(route_of)

        def by_field(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
            errors = columns["error"].to_pylist()
            found: list[str | None] = []
            for row, document in enumerate(columns["data"].to_pylist()):
                route = None
                if errors[row] is None:
                    try:
                        value = bytes(read(document))
                        route = (known_route_of if len(value) <= _KNOWN_BYTES else route_of)(value)
                    except INVALID_JSON as error:
                        errors[row] = _reason(error)
                found.append(route)
            return {"error": pa.array(errors, pa.string()), self.route: pa.array(found, pa.string())}

        return by_field


def _reason(error: Exception) -> str | None:
    decoding = Decoding(None)
    decoding.fail("route_by", Undecodable(str(error)))
    return decoding.error


def records_of(rows: DataFrame, columns: Sequence[str], *, with_documents: bool) -> DataFrame:
    """Return rows of a router as those of a raw table.

    Args:
        with_documents: Whether the rows have the places of documents too.
    """
    from pyspark.sql.types import StructType  # noqa: PLC0415  # tasks do not need it

    wanted = [*columns, *[DOCUMENT_NUMBER] * with_documents]
    names = [name for name in wanted if name in rows.columns]  # records that were kept have not all of them

    def step(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(names)

    return map_each_row(rows, step, StructType([rows.schema[name] for name in names]))
