"""Reading data files."""

from __future__ import annotations

import pyarrow.parquet as pq

from support.attempts import NOON

MIDNIGHT = NOON + 12 * 3600


def read(files, file):
    with files.open_input_file(file.path) as source:
        return pq.ParquetFile(source).read()


def numbers(files, file, shard_id=None):
    return [
        int(row["sequence_number"])
        for row in read(files, file).select(["shard_id", "sequence_number"]).to_pylist()
        if shard_id in (None, row["shard_id"])
    ]
