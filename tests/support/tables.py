"""Numbered records: put into a stream, and read from its table."""

from __future__ import annotations

from deltalake import DeltaTable


def put_numbers(kinesis, stream, count, shards=1):
    """Create a stream, and put the records 0, 1, ... into it."""
    kinesis.create_stream(StreamName=stream, ShardCount=shards)
    entries = [{"Data": b"%d" % item, "PartitionKey": str(item)} for item in range(count)]
    kinesis.put_records(StreamName=stream, Records=entries)


def numbers(table):
    """Return the numbers in a table, sorted."""
    return sorted(
        int(data) for data in DeltaTable(table).to_pyarrow_table(columns=["data"])["data"].to_pylist()
    )
