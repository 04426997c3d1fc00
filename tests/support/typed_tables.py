"""A typed table over a bench's table, and a record that it cannot decode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.derived_settings import parse_deleted_for
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.derive.data_files import ERRORS_FOLDER
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.derive.policy import OnDeleted
from support.formats import derived_at, derived_format, derived_rows

if TYPE_CHECKING:
    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derived_table import DerivedTable
    from support.bench import Bench
    from support.derived import DerivedBench

BAD = b'{"id": "one"}'
REASON = "json: Expected `int | null`, got `str` - at `$.id`"
KEEPING = ("error", "shard_id", "sequence_number", "sub_sequence_number", "data")


@dataclass
class TypedBench:
    """A typed table over a bench's table.

    Attributes:
        schema_file: The content of the schema's file, for a format whose decoder needs it.
    """

    bench: Bench
    derived: DerivedBench
    schema_file: bytes = b""

    def consume(
        self, *payloads: bytes, schema: str = "id INT, amount DOUBLE", **settings: Any
    ) -> list[DerivedCommit]:
        """Put records, ingest them, and consume them into the table."""
        if payloads:
            self.bench.put(*payloads)
            self.bench.run()
        return self.run(schema, **settings)

    def errors(self, schema: str = "id INT, amount DOUBLE", **settings: Any) -> list[dict[str, Any]]:
        """Consume what is new into the table of errors, and return its rows."""
        self.run_errors(schema, **settings)
        rows: list[dict[str, Any]] = derived_rows(self.errors_table).to_pylist()
        return rows

    @property
    def errors_table(self) -> DerivedTable:
        return derived_at(f"{self.derived.table.uri}_errors")

    def run_errors(
        self,
        schema: str = "id INT, amount DOUBLE",
        *,
        on_deleted: OnDeleted = OnDeleted.FAIL,
        **settings: Any,
    ) -> list[DerivedCommit]:
        """Consume what is new into the table of errors."""
        derived = replace(self.derived, table=self.errors_table)
        source = f"{self.derived.table.uri}/{ERRORS_FOLDER}"
        transform = self._rows(schema, settings).of_errors
        source_format = derived_format(self.derived.table.uri)
        return derived.run(
            transform=transform, source=source, source_format=source_format, on_deleted=on_deleted
        )

    def run(self, schema: str = "id INT, amount DOUBLE", **settings: Any) -> list[DerivedCommit]:
        """Consume what is new into the table."""
        rows = self._rows(schema, settings)
        given, mode = rows.settings, None
        if given.key:
            remembered = None if given.deleted_for is None else parse_deleted_for(given.deleted_for)
            mode = Upsert(tuple(given.key), tuple(given.order_by), given.delete_where, remembered)
        careful = partial(rows.of_table, is_careful=True)
        return self.derived.run(transform=rows.of_table, mode=mode, careful=careful)

    def _rows(self, schema: str, settings: dict[str, Any]) -> TypedRows:
        given = {"name": "orders", "source": "orders", "table": self.derived.table.uri, "format": "json"}
        table = TableSettings(**given | settings, schema="orders.avsc")
        return TypedRows(table, schema, self.schema_file)

    @property
    def columns(self) -> list[str]:
        return [name for name in self.derived.rows.column_names if name != "_batch_id"]

    def values(self, *columns: str) -> list[Any]:
        return self.derived.values(*columns)

    def is_missing(self) -> bool:
        return self.derived.table.existing() is None
