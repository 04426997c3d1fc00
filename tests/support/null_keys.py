"""Tables of old releases, whose column `partition_key` is required, and rows without a partition key."""

from __future__ import annotations

import msgspec
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from kinesis_assets.kinesis.records import records as records_module
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA
from kinesis_assets.table import data_file_writer as files_module
from kinesis_assets.table.data_file import FILE_SCHEMA, PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.delta import raw_table as delta_module
from support.attempts import Attempt, current_positions, freeze_all, land, records, shards

ROWS = [
    ("a", "1", "k"),
    ("a", "2", "k"),
    ("a", "3", "k"),
    ("b", "1", None),
    ("b", "2", "k"),
    ("b", "3", None),
]


def strict(schema):
    """Return a schema in which the partition key is required, as in old releases."""
    place = schema.get_field_index("partition_key")
    return schema.set(place, schema.field(place).with_nullable(False))


def make_old(table, monkeypatch):
    """Create the table as an old release did, with three rows of shard a and none of b and c."""
    DeltaTable.create(
        table.folder.uri, Schema.from_arrow(strict(TABLE_SCHEMA)), partition_by=PARTITION_COLUMNS
    )
    with monkeypatch.context() as patch:
        patch.setattr(records_module, "RECORD_SCHEMA", strict(RECORD_SCHEMA))
        patch.setattr(files_module, "FILE_SCHEMA", strict(FILE_SCHEMA))
        patch.setattr(delta_module, "columns_without_null", lambda _: [])
        attempt = Attempt(table, freeze_all(table, shards("a", "b", "c")), {"a": 3})
        attempt.commit()
    (file,) = DeltaTable(table.uri).file_uris()
    schema = pq.read_schema(file.removeprefix("file://"))
    assert not schema.field("partition_key").nullable
    assert accepts_null(table) is False


def accepts_null(table):
    (field,) = [each for each in DeltaTable(table.uri).schema().fields if each.name == "partition_key"]
    return field.nullable


def without_keys(attempt):
    """Rewrite an attempt's records so that those with odd numbers have no partition key."""
    rows = {
        shard_id: [
            msgspec.structs.replace(
                record, partition_key="k" if int(record.sequence_number) % 2 == 0 else None
            )
            for record in records(int(stats.first_sequence_number), stats.rows)
        ]
        for shard_id, stats in attempt.added.items()
    }
    attempt.files = land(attempt.table, attempt.batch_id, rows)
    return attempt


def keys(table):
    read = DeltaTable(table.uri).to_pyarrow_table(columns=["shard_id", "sequence_number", "partition_key"])
    return sorted(tuple(row.values()) for row in read.to_pylist())


def mix(old_table):
    """Commit a file with missing keys to a table that has an old file with the required column."""
    without_keys(Attempt(old_table, current_positions(old_table), {"b": 3})).commit()
    required = {
        pq.read_schema(file.removeprefix("file://")).field("partition_key").nullable
        for file in DeltaTable(old_table.uri).file_uris()
    }
    assert required == {False, True}
