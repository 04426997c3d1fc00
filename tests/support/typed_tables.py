"""A typed table over a bench's table, and a record that it cannot decode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.upsert import Upsert

if TYPE_CHECKING:
    from kinesis_assets.derive.records import DerivedCommit
    from support.bench import Bench
    from support.derived import DerivedBench

BAD = b'{"id": "one"}'
REASON = "json: Expected `int | null`, got `str` - at `$.id`"
KEEPING = ("error", "shard_id", "sequence_number", "sub_sequence_number", "data")


@dataclass
class TypedBench:
    """A typed table over a bench's table."""

    bench: Bench
    derived: DerivedBench

    def consume(
        self, *payloads: bytes, schema: str = "id INT, amount DOUBLE", **settings: Any
    ) -> list[DerivedCommit]:
        """Put records, ingest them, and consume them into the table."""
        if payloads:
            self.bench.put(*payloads)
            self.bench.run()
        return self.run(schema, errors=False, **settings)

    def errors(self, schema: str = "id INT, amount DOUBLE", **settings: Any) -> list[dict[str, Any]]:
        """Consume what is new into the table of errors, and return its rows."""
        table = DerivedTable(f"{self.derived.table.uri}_errors")
        self.run(schema, errors=True, table=table, **settings)
        return DeltaTable(table.folder.uri).to_pyarrow_table().to_pylist()

    def run(
        self, schema: str, *, errors: bool, table: DerivedTable | None = None, **settings: Any
    ) -> list[DerivedCommit]:
        table = table or self.derived.table
        given = {"name": "orders", "source": "orders", "table": table.uri, "format": "json"} | settings
        rows = TypedRows(TableSettings(**given, schema="orders.avsc"), schema)
        mode = Upsert(given["key"], given["order_by"], given.get("delete_where")) if "key" in given else None
        transform = rows.of_errors if errors else rows.of_table
        careful = partial(transform, is_careful=True)
        return replace(self.derived, table=table).run(transform=transform, mode=mode, careful=careful)

    @property
    def columns(self) -> list[str]:
        return [name for name in self.derived.rows.column_names if name != "_batch_id"]

    def values(self, *columns: str) -> list[Any]:
        return self.derived.values(*columns)

    def is_missing(self) -> bool:
        return not DeltaTable.is_deltatable(self.derived.table.folder.uri)
