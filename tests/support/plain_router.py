"""A router whose rows a test writes itself, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import Definition, Kind
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import BATCH_COLUMN, DerivedFileWriter, Manifest
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.write import writing_job
from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.commit_ids import new_id
from support.formats import delta_columns
from support.timing import WRITING

if TYPE_CHECKING:
    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.data_files import RecordCounts

TYPES = {
    "data": "string",
    "error": "string",
    "commit_order": "string",
    "route": "string",
    BATCH_COLUMN: "long",
}


class PlainRouter:
    """A router of rows with a text and a route, without Spark."""

    def __init__(self, uri: str) -> None:
        self.table = DerivedTable(uri, WRITING)
        self.table.open_or_create("source", delta_columns(TYPES), ["route"])
        self._commits = 0

    def append(self, *rows: tuple[str, str | None], counts: RecordCounts | None = None) -> DerivedCommit:
        base, batch_id = self.table.snapshot(), new_id(self.table.clock)
        writer = DerivedFileWriter(writing_job(self.table, base.file_schema, ["route"], batch_id))
        schema = arrow_schema(base.schema)
        found = [
            {"data": data, "commit_order": "1", "route": route, BATCH_COLUMN: batch_id}
            for data, route in rows
        ]
        writer.write(pa.RecordBatch.from_pylist(found, schema))
        self._commits += 1
        return commit(
            self.table,
            Attempt(
                cursor=Cursor(source="source", commit=self._commits),
                batch_id=batch_id,
                manifest=Manifest(tuple(writer.close())),
                counts=counts,
                definition=Definition(kind=Kind.ROUTER),
            ),
            expected=base.commit_id,
        )
